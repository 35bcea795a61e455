"""Revise a run: it goes on under a mended plan, and what is finished and not touched by the change keeps its result."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from planrunner.app.history.state import Revisions, begun, stored_plan
from planrunner.app.people.admission import Ask, require_trusted_links
from planrunner.app.people.persons import require_person
from planrunner.app.plans.lint import load_plan
from planrunner.app.plans.tasks import widened
from planrunner.app.runs import overrule
from planrunner.app.runs.control import answer_waiting
from planrunner.app.runs.doubts import answers
from planrunner.app.runs.execute import ExecRequest, admitted_plan, directory_of, kept_text
from planrunner.app.runs.secrets import require_none_in, vault_of
from planrunner.app.runs.setup import (
    ReadyPlan,
    check_project,
    environment_of,
    governing_policy,
    has_settings,
    keep_profile,
    parallel_limit,
    prepare_plan,
    run_settings,
)
from planrunner.caller import acting, principal, workspace
from planrunner.engine.poller import TimeLine, boot
from planrunner.errors import Hint, NextStep, NotFound, RunHeld, UsageError
from planrunner.journal.memory import MemoryJournal
from planrunner.journal.ports import Journal
from planrunner.journal.records import StoredPlan
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_project, find_state
from planrunner.machine import approvals
from planrunner.machine.compensation import outstanding
from planrunner.machine.events import DoubtSettled, Entry, Event, RunReopened, RunRevised, RunStarted
from planrunner.machine.evolve import evolve
from planrunner.machine.names import owners
from planrunner.machine.revision import Stale, is_untouched, reset_event, stale
from planrunner.machine.rework import Unfit
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED
from planrunner.machine.stops import FINAL_STOPS
from planrunner.plan.identity import Difference, differences, gives_the_same
from planrunner.plan.model import BEST, RANKED, Expression, Plan
from planrunner.plan.params import bind_params
from planrunner.plan.tasks import every
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.source import notation_of
from planrunner.views.revision import Revision

Json = Any


class ReviseRequest(Struct):
    """The run, the file of the mended ``plan``, values of parameters that are set with it, and the ``reason`` for the
    record. With ``keep_unchanged`` every result stands whose call stays the same. ``settle`` says what became of tasks
    in doubt, as ``resume`` takes it; ``trust`` and ``ask`` are as for ``exec``. ``text`` is a plan that a task of the
    run proposed and that was accepted, ``by`` who accepted it where no person did. ``decides`` is False for one who
    may not decide gates."""

    run: str
    plan: str
    params: tuple[tuple[str, Json], ...] = ()
    reason: str = ""
    keep_unchanged: bool = False
    settle: tuple[tuple[str, str], ...] = ()
    trust: str = ""
    ask: Ask | None = None
    text: bytes | None = None
    by: str = ""
    decides: bool = True


def preview(request: ReviseRequest, state_dir: str | None) -> Revision:
    """What ``revise`` would do; nothing is written. Raises as ``revise`` does."""
    with closing(open_journal(find_state(None, state_dir), readonly=True)) as journal:
        run_id = journal.find_run(request.run)
        return _prepared(journal, _Recorded(journal, run_id), request).revision


def revise(request: ReviseRequest, state_dir: str | None) -> Revision:
    """Give a run its next revision; nothing is started.

    Raises NotFound; RunHeld while a process acts on the run; PlanInvalid and Denied for a plan that may not run, Denied
    also where it overrules gates that the caller may not decide, and where a run asks;
    UsageError for parameters, for a plan of another name or project, and for a run that cannot be revised in its
    status; StorageFailed, Fenced.
    """
    if not request.by:
        require_person("revise", find_state(None, state_dir))
    with closing(open_journal(find_state(None, state_dir))) as journal:
        run_id = journal.find_run(request.run)
        try:
            handle = journal.acquire(run_id)
        except RunHeld as error:
            raise RunHeld(error.message, Hint("pause it first: ", NextStep("pause", run_id))) from None
        try:
            with acting(principal(), workspace()):
                recorded = _Recorded(journal, run_id)
                state = recorded.state
                keep_profile(directory_of(state), str(state.environment.get("profile", "")))
                answer_waiting(journal, handle, state, recorded.now)
                recorded = _Recorded(journal, run_id)
                made = _prepared(journal, recorded, request)
                if made.revision.changed:
                    overrule.require_decider(made.revision, recorded.state, request.decides)
                    journal.keep_plan(made.stored)
                    first = handle.last_seq + 1
                    entries = [Entry(seq, recorded.now, event) for seq, event in enumerate(made.events, first)]
                    journal.append(handle, entries)
                return made.revision
        finally:
            journal.release(handle)


def compared(one: str, other: str, state_dir: str | None) -> list[Difference]:
    """What differs between two plans: each the path of a plan file, ``RUN@N`` for a revision of a run, or a run for the
    plan that it has. Raises NotFound, and PlanInvalid for a file that holds no plan."""
    return differences(_named_plan(one, state_dir), _named_plan(other, state_dir))


def _named_plan(name: str, state_dir: str | None) -> Plan:
    if os.path.isfile(name):
        return load_plan(name)
    run, at, number = name.rpartition("@")
    with closing(open_journal(find_state(None, state_dir), readonly=True)) as journal:
        run_id = journal.find_run(run if at else name)
        made = [entry.event for entry in journal.entries(run_id)]
        digests = [
            str(event.environment.get("text") or event.plan_digest)
            for event in made
            if isinstance(event, (RunStarted, RunRevised))
        ]
        wanted = number if at else str(len(digests))
        if not wanted.isdecimal() or not 0 < int(wanted) <= len(digests):
            listed = f"revisions 1 to {len(digests)}" if digests[1:] else "revision 1 only"
            raise NotFound(f"run {run_id} has {listed}, not `{wanted}`", NextStep("show", run_id))
        return stored_plan(journal, digests[int(wanted) - 1])


def run_plan(run: str, state_dir: str | None) -> StoredPlan:
    """The plan that a run has, as it was stored: its text, notation and file. Raises NotFound."""
    with closing(open_journal(find_state(None, state_dir), readonly=True)) as journal:
        run_id = journal.find_run(run)
        made = [entry.event for entry in journal.entries(run_id)]
        begun = [event for event in made if isinstance(event, (RunStarted, RunRevised))]
        if not begun:
            raise NotFound(f"run {run_id} has not begun", NextStep("show", run_id))
        return journal.plan(str(begun[-1].environment.get("text") or begun[-1].plan_digest))


class _Recorded:
    """A run as its journal tells it: folded once as it stands and, on demand, once more to try a revision on."""

    def __init__(self, journal: Journal, run_id: str) -> None:
        self.journal, self.run_id = journal, run_id
        self.entries = tuple(journal.entries(run_id))
        self.state = self.folded({})
        line = TimeLine()
        for entry in self.entries:
            line.see(entry)
        self.now = line.clock(boot()).now()
        self.idle = max(0.0, self.now - line.last)

    def folded(self, more: Mapping[str, Plan], then: Iterable[Event] = ()) -> State:
        """The state with further plans by their digests, and events that would come next."""
        state = begun(self.journal, self.run_id)
        plans = Revisions(self.journal)
        plans.update(more)
        state.plans = plans
        for entry in self.entries:
            evolve(state, entry.event, entry.at)
        for event in then:
            evolve(state, event, self.now)
        return state


class _Made(Struct):
    revision: Revision
    events: tuple[Event, ...]
    stored: StoredPlan


def _prepared(journal: Journal, recorded: _Recorded, request: ReviseRequest) -> _Made:
    state = recorded.state
    _refuse_unfit(state)
    said = _settled(state, request)
    check_project(directory_of(state))
    registry = Registry(project=directory_of(state))
    ready, noted = _admitted(state, request, registry)
    before = state.plan if state.governed is None else state.governed.plan
    _refuse_strange(state, ready, request.plan)
    outside = noted.get("trust", {}).get("origin") == "outside"
    governing_policy(directory_of(state), ready, request.plan, registry, outside)
    params = _params(before, ready.plan, state.params, request.params)
    found = differences(before, ready.plan)
    stored = kept_text(
        journal, StoredPlan(ready.digest, ready.text, request.plan, notation_of(request.plan), ready.compiled)
    )
    lacked = environment_of(ready.env, directory_of(state)).keys() - state.environment.get("env", {}).keys()
    if ready.digest == state.plan_digest and params == state.params and not lacked:
        who, digest = request.by or principal().name, ready.digest
        same = Revision(state.run_id, before.id, state.revision, digest, digest, False, who, request.reason, ())
        return _Made(same, (), stored)
    if stored.digest != ready.digest:
        noted = {**noted, "text": stored.digest}
    event = _event(recorded, before, ready, request, params, noted, found)
    first: list[Event] = [RunReopened("revise", principal().name)] if state.ended_at is not None else []
    after = recorded.folded({stored.digest: ready.plan}, (*first, event))
    vault = vault_of(after, directory_of(state)) if params and has_settings(directory_of(state)) else None
    if vault is not None:
        require_none_in(params, vault)
    said, lost = _parted(after, said)
    if lost:  # their tasks are gone, or start over with what holds them: what became of them is told before that
        first += lost
        after = recorded.folded({stored.digest: ready.plan}, (*first, event))
    for answer in said:
        evolve(after, answer, recorded.now)
    read = _names_changed(before, ready.plan, state.params, params)
    try:
        which = stale(after, before, read, event.asks_again, request.keep_unchanged)
    except Unfit as error:
        raise UsageError(str(error), NextStep("resume", state.run_id)) from None
    reset = reset_event(state, after, which, event.by, request.keep_unchanged)
    touched = {*which.again, *which.perhaps}
    held = [number for number in range(len(after.tasks)) if not touched.isdisjoint(owners(after, number))]
    reopened = approvals.reopened(state, after, {*which.again, *held})
    revision = _told(state, after, which, event, before, found)._replace(
        asks_again=overrule.asks_again(state, after, reset, reopened),
        overruled=overrule.overruled(state, after),
    )
    return _Made(revision, (*first, event, *said, *reopened, *(() if reset is None else (reset,))), stored)


def _parted(after: State, said: Sequence[DoubtSettled]) -> tuple[list[DoubtSettled], list[DoubtSettled]]:
    """Answers about attempts that are in doubt under the revised plan too, and those about others."""
    doubtful = {after.specs[number].id for number in range(len(after.tasks)) if _is_doubtful(after, number)}
    return [each for each in said if each.task in doubtful], [each for each in said if each.task not in doubtful]


def _admitted(state: State, request: ReviseRequest, registry: Registry) -> tuple[ReadyPlan, dict[str, Json]]:
    """The plan, and what the record says of why it is trusted. One that the run proposed runs by the same
    permission as the plan before it: it was shown before it was accepted, and may act nowhere else. What it links to
    was not shown."""
    if request.text is None:
        asked = ExecRequest(request.plan, request.params, trust=request.trust, ask=request.ask)
        return admitted_plan(asked, MemoryJournal(), registry)
    kept = {name: value for name, value in state.environment.items() if name in ("trust", "outside")}
    ready = prepare_plan(request.plan, None, registry, request.text)
    require_trusted_links(request.plan, ready)
    return ready, {**kept, "proposed": True}


# What refuses a revision


def _refuse_unfit(state: State) -> None:
    """Raises UsageError for a run that has something to finish first."""
    run = state.run_id
    if not state.plan_digest:
        raise UsageError(f"run {run} has not begun", NextStep("show", run))
    if state.compensation_log is not None and state.compensation_log.active:
        raise UsageError(f"run {run} is being rolled back", Hint("finish that first: ", NextStep("resume", run)))
    if state.ended_at is None and state.stop_reason in FINAL_STOPS:
        message = f"run {run} is coming to its end ({state.stop_reason})"
        raise UsageError(message, Hint(NextStep("resume", run), " ends it, and then it can be revised"))
    if state.resets:
        raise UsageError(f"tasks of run {run} are being sent back", NextStep("resume", run))


def _settled(state: State, request: ReviseRequest) -> list[DoubtSettled]:
    """What a person says of tasks in doubt. Raises UsageError where one stays in doubt."""
    said: list[DoubtSettled] = []
    for answer in answers(state, request.settle, principal().name):
        if not isinstance(answer, DoubtSettled):
            hint = NextStep("resume", state.run_id, "--settle", f"{answer.tasks[0]}=rollback")
            raise UsageError("what a task in doubt did is rolled back before the run is revised", hint)
        said.append(answer)
    names = {answer.task for answer in said}
    doubts = [state.specs[number].id for number in range(len(state.tasks)) if _is_doubtful(state, number)]
    left = [name for name in doubts if name not in names]
    if left:
        more = f" and {len(left) - 1} more" if left[1:] else " is"
        raise UsageError(
            f"`{left[0]}`{more} in doubt: an attempt was cut off, and whether it took effect is not known",
            Hint(
                "say what became of it (retry, completed or failed): ",
                NextStep("resume", state.run_id, "--plan", request.plan, "--settle", f"{left[0]}=retry"),
            ),
        )
    return said


def _is_doubtful(state: State, number: int) -> bool:
    task, task_state = state.specs[number], state.tasks[number]
    if task_state.status not in ("running", "in_doubt") or number in state.containers:
        return False
    if task_state.outcome is not None and task_state.outcome.failure != "interrupted":
        return False
    if task_state.reason == "retry" or task.on_doubt == "retry":
        return False
    return state.trait(task).effect not in ("pure", "read", "idempotent")


def _refuse_strange(state: State, ready: ReadyPlan, path: str) -> None:
    """Raises UsageError for another plan than that of the run, and for one of another project."""
    if ready.plan.id != state.plan.id:
        message = f"`{path}` is the plan `{ready.plan.id}`, and run {state.run_id} is one of `{state.plan.id}`"
        raise UsageError(message, Hint(NextStep("exec", path), " begins a run of it"))
    here = find_project(path)
    if os.path.realpath(here) != os.path.realpath(directory_of(state)):
        message = f"`{path}` belongs to {here}, and run {state.run_id} works in {directory_of(state)}"
        raise UsageError(message, "a run is revised with a plan of its own project")


# What the revision holds


def _event(
    recorded: _Recorded,
    before: Plan,
    ready: ReadyPlan,
    request: ReviseRequest,
    params: dict[str, Json],
    noted: dict[str, Json],
    differences: Sequence[Difference],
) -> RunRevised:
    state, directory = recorded.state, directory_of(recorded.state)
    renewed = ("trust", "outside", "text", "files", "proposed")
    known = {name: value for name, value in state.environment.items() if name not in renewed}
    env = {**environment_of(ready.env, directory), **state.environment.get("env", {})}
    last = next(e.event for e in reversed(recorded.entries) if isinstance(e.event, (RunStarted, RunRevised)))
    most, asked = run_settings(directory)[1], last.max_parallel
    if most is not None and asked == min(before.max_parallel, most):
        asked = None  # it was what the plan says, not what the person who started the run said
    bound = ("policy", "budgets", "gate for label")
    return RunRevised(
        state.revision + 1,
        ready.digest,
        request.by or principal().name,
        request.reason,
        params,
        ready.traits,
        {
            **known,
            **noted,
            **({"files": dict(ready.files)} if ready.files else {}),
            "plan": os.path.abspath(request.plan),
            "env": env,
        },
        parallel_limit(asked, ready.plan.max_parallel, most),
        None if state.selected is None else widened(ready.plan, state.selected, {task.id for task in before.tasks}),
        _under_way(state, before, ready.plan),
        any(difference.what.startswith(bound) for difference in differences),
        recorded.idle,
    )


def _under_way(state: State, before: Plan, now: Plan) -> tuple[str, ...]:
    """Containers that are not settled and give something else by their new definition."""
    then, wanted = {task.id: task for task in before.tasks}, {task.id: task for task in now.tasks}
    return tuple(
        task.id
        for number, task in enumerate(state.specs[: state.top.size])
        if number in state.containers
        and state.tasks[number].inner is not None
        and state.tasks[number].status not in SETTLED
        and task.id in wanted
        and not gives_the_same(then[task.id], wanted[task.id])
    )


def _params(before: Plan, now: Plan, values: dict[str, Json], given: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    """Given values stay; defaults become those of the revised plan. Raises UsageError for what does not fit."""
    then, defaults = {param.name: param for param in before.params}, bind_params(before, {}).values
    said = dict(given)
    kept: dict[str, Json] = {}
    for param in now.params:
        if param.name in said or param.name not in values or values[param.name] == defaults.get(param.name):
            continue
        old = then.get(param.name)
        alike = old is not None and (old.type, old.choices) == (param.type, param.choices)
        (kept if alike else said)[param.name] = values[param.name]
    bound = bind_params(now._replace(params=tuple(param for param in now.params if param.name not in kept)), said)
    if bound.problems:
        raise UsageError("; ".join(bound.problems), "-p NAME=VALUE sets a parameter with the revision")
    return {param.name: kept.get(param.name, bound.values.get(param.name)) for param in now.params}


def _names_changed(before: Plan, now: Plan, old: dict[str, Json], new: dict[str, Json]) -> frozenset[str]:
    """The names with another value than before, as expressions write them, and the roots they belong to."""
    names = {f"params.{name}" for name in {*old, *new} if old.get(name) != new.get(name)}
    if _weighed(before) != _weighed(now):
        names |= {f"hypotheses.{each.name}" for each in now.hypotheses}
        names |= {f"hypotheses.{name}" for name in (BEST, RANKED)}
    names |= {f"plan.{part}" for part in ("id", "title", "version") if getattr(before, part) != getattr(now, part)}
    return frozenset(names | {name.partition(".")[0] for name in names})


def _weighed(plan: Plan) -> Json:
    """What the confidences of a plan follow from, beside the results of its tasks."""
    pieces = [(task.id, each) for task in every(plan.tasks) for each in task.evidence]
    return (
        [(each.name, each.prior) for each in plan.hypotheses],
        [(name, each.hypothesis, _text(each.supports), _text(each.refutes), each.weight) for name, each in pieces],
    )


def _text(condition: Expression | None) -> str:
    return condition.text.strip() if condition is not None else ""


def _told(
    state: State, after: State, which: Stale, event: RunRevised, before: Plan, differences: Sequence[Difference]
) -> Revision:
    def names(numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(after.specs[number].id for number in numbers)

    touched = {*which.again, *which.perhaps}
    within = {owner for number in touched for owner in owners(after, number)}
    kept = [
        number
        for number in range(after.top.size)
        if after.tasks[number].dependency_outcome in ("completed", "tolerated")
        and after.tasks[number].reason != "not_selected"
        and number not in touched | within
    ]
    then = {task.id for task in before.tasks}
    gone = after.gone
    away = () if gone is None else range(gone.first, gone.first + gone.size)
    lost = tuple(number for number in away if after.specs[number].id in then)
    owing = set()
    for position in outstanding(after):
        assert after.compensation_log is not None
        number = after.compensation_log.steps[position].number
        owing |= {number, *owners(after, number)}
    over = {after.index[name] for name in event.stopped if name in after.index}
    again = [
        number for number in which.again if after.specs[number].gate is None and not is_untouched(after.tasks[number])
    ]
    surely = {*again, *which.surely, *(over & touched)}
    return Revision(
        state.run_id,
        before.id,
        event.number,
        state.plan_digest,
        event.plan_digest,
        True,
        event.by,
        event.reason,
        tuple(differences),
        tuple(
            (name, state.params.get(name), event.params.get(name))
            for name in {**state.params, **event.params}
            if state.params.get(name) != event.params.get(name)
        ),
        names(kept),
        names(sorted(surely)),
        names(number for number in which.perhaps if number not in surely),
        names(which.new),
        names(lost),
        names(number for number in lost if number in owing),
        names(number for number in which.again if after.specs[number].gate is not None),
        stopped=names(sorted(over)),
    )
