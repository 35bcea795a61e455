"""Take up a run that was interrupted, killed, waits or has ended, and drive it on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner import __version__
from planrunner.app.history.state import begun
from planrunner.app.runs.execute import (
    SCHEMA,
    Held,
    RunResult,
    Site,
    Watch,
    directory_of,
    in_turn,
    is_attended,
    journal_at,
    live,
    looked_up,
    text_key,
    warn,
)
from planrunner.app.runs.preflight import Needs, require_ready
from planrunner.app.runs.setup import capabilities_of, check_project, has_settings, keep_profile, preconditions_of
from planrunner.caller import acting, principal, workspace
from planrunner.capabilities.builtin import TARGETS
from planrunner.diagnostics import Diagnostic, arrange
from planrunner.engine.orphans import reap_run
from planrunner.engine.poller import StopSwitch, TimeLine, boot
from planrunner.errors import Hint, NextStep, PlanInvalid, StorageFailed, UsageError
from planrunner.journal.workspace import find_state, program
from planrunner.later import Later
from planrunner.machine.events import Event, PolicyChanged, RunReopened, RunResumed, RunStarted, TasksReset
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED
from planrunner.machine.stops import FINAL_STOPS
from planrunner.plan.model import Task
from planrunner.plan.rights import AS_BEFORE
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.safety.content import Settings
from planrunner.safety.digests import digests
from planrunner.safety.project import policy_records, read_settings
from planrunner.source import Source, Span
from planrunner.statuses import ended

if TYPE_CHECKING:
    from planrunner.app.people.admission import check_again
    from planrunner.app.people.persons import require_person
    from planrunner.app.runs.control import answer_waiting
    from planrunner.app.runs.doubts import answers, left_alone, with_more
    from planrunner.engine.replay import replay
    from planrunner.engine.secrets import Vault
else:
    check_again = Later("planrunner.app.people.admission:check_again")
    require_person = Later("planrunner.app.people.persons:require_person")
    answer_waiting = Later("planrunner.app.runs.control:answer_waiting")
    answers = Later("planrunner.app.runs.doubts:answers")
    left_alone = Later("planrunner.app.runs.doubts:left_alone")
    with_more = Later("planrunner.app.runs.doubts:with_more")
    Vault = Later("planrunner.engine.secrets:Vault")
    replay = Later("planrunner.engine.replay:replay")


Json = Any


class Manner(Struct):
    """How a run continues: ``unattended`` never asks; ``accepts_policy`` applies only the current policy of the
    operator, where it differs from that of the start; ``unconfined`` runs without the sandbox, for this time only; a
    person has chosen both."""

    unattended: bool = False
    accepts_policy: bool = False
    unconfined: bool = False


_PLAIN = Manner()


def resume(
    run: str,
    settle: Sequence[tuple[str, str]],
    state: str | None,
    watch: Watch,
    manner: Manner = _PLAIN,
    switch: StopSwitch | None = None,
) -> RunResult:
    """Continue a run that was interrupted, killed or waits.

    ``settle`` answers doubts: (task, ``retry`` | ``completed`` | ``failed`` | ``rollback``).
    ``switch`` stops the run from another thread.
    Unattended, what is in doubt and can be undone is undone, and fails. Raises NotFound, PlanInvalid for a fault
    in the project's file or a capability that cannot be used any more, RunHeld, UsageError for a run that has ended or
    a task that is not in doubt, StorageFailed, Fenced. Raises Denied for what people alone may ask.
    """
    alone = left_alone() if manner.unattended else ()
    state_dir = find_state(None, state)
    for asked, act in ((settle, "settle"), (manner.accepts_policy, "policy"), (manner.unconfined, "sandbox")):
        if asked:
            require_person(act, state_dir)

    def following(found: State) -> list[Event]:
        if found.stop_reason not in FINAL_STOPS:  # what is to end ends, whatever the file says
            check_project(directory_of(found))
        held = accepted(found, directory_of(found)) if manner.accepts_policy else ()
        return [*held, *alone, *answers(found, settle, principal().name), *with_more(found, principal().name)]

    with closing(journal_at(state_dir, False)) as journal:
        site = Site(journal, Registry(), state_dir, watch, manner.unconfined, switch)
        with acting(principal(), workspace()):
            return _go_on(site, journal.find_run(run), following, "")


class Reopened(NamedTuple):
    """A run that is taken up for a reason (empty: it goes on as it is), also where it has ended, and what follows then;
    ``switch`` stops it from another thread."""

    run: str
    then: Callable[[State], Sequence[Event]]
    reason: str = ""
    switch: StopSwitch | None = None


def go_on(reopened: Reopened, state: str | None, watch: Watch) -> RunResult:
    """Take a run up and drive it. Raises as ``resume`` does, and what ``reopened.then`` raises."""
    run, then, reopening, switch = reopened
    state_dir = find_state(None, state)
    with closing(journal_at(state_dir, False)) as journal:
        site = Site(journal, Registry(), state_dir, watch, switch=switch)
        with acting(principal(), workspace()):
            return _go_on(site, journal.find_run(run), then, reopening)


def _go_on(site: Site, run_id: str, then: Callable[[State], Sequence[Event]], reopening: str) -> RunResult:
    row = site.journal.run(run_id)
    if row.status and not reopening:
        raise _has_ended(run_id, row.status)
    first = next(site.journal.entries(run_id)).event
    group = first.environment.get("group") if isinstance(first, RunStarted) else None
    return in_turn(site, str(group or ""), "queue", run_id, lambda there: _taken_up(there, run_id, then, reopening))


def _taken_up(site: Site, run_id: str, then: Callable[[State], Sequence[Event]], reopening: str) -> RunResult:
    handle = site.journal.acquire(run_id)
    state = begun(site.journal, run_id)
    with Held(site, state, handle) as held:
        line = TimeLine()
        for entry in site.journal.entries(run_id):
            evolve(state, entry.event, entry.at)
            line.see(entry)
        if state.ended_at is not None and not reopening:
            raise _has_ended(run_id, state.status)  # by another process, before this one had the run
        doubts = _check_version(site, state)
        keep_profile(directory_of(state), str(state.environment.get("profile", "")), run_id)
        here = boot()
        clock = line.clock(here)
        answer_waiting(site.journal, handle, state, clock.now())
        following = then(state)
        ends = state.stop_reason in FINAL_STOPS  # then it does so whatever the files say
        settings = {} if ends else other_settings(state, directory_of(state))
        held_to = [] if ends else changed(state, directory_of(state), following)
        notes = (*doubts, *voided(state, [*held_to, *following], program(site.state_dir)))
        site.registry.project = directory_of(state)
        if reopening != "rollback" and not ends:
            following = _with_services(state, following)
            _check_capabilities(site, state, every=reopening != "")
            if "trust" in state.environment:
                check_again(state.environment)
        vault = looked_up(state, directory_of(state))
        if reopening != "rollback" and not ends:
            _check_ready(site, state, following, vault)
        reap_run(run_id)  # processes that an earlier runner left behind end before anything else starts
        site.watch.started(run_id, state.plan, state)
        first: list[Event] = []
        if state.ended_at is not None:
            first.append(RunReopened(reopening, principal().name))
        away = max(0.0, clock.now() - line.last)
        how = (is_attended(site.watch), site.unconfined, settings)
        first.append(RunResumed(handle.epoch, principal().name, here, away, *how))
        result = held.drive((*first, *held_to, *following), live(site, state, clock, handle.epoch, vault))
        return result._replace(warnings=(*result.warnings, *notes)) if notes else result


def _has_ended(run_id: str, status: str) -> UsageError:
    return UsageError(ended(f"run {run_id}", status), NextStep("show", run_id))


def _check_version(site: Site, state: State) -> tuple[str, ...]:
    """A run that another version of planrunner began is decided again from its record; gives a warning where this
    version decides differently. Raises StorageFailed for a run that began by rules which this version does not know."""
    began = str(state.environment.get("planrunner", __version__))
    if state.environment.get("schema", SCHEMA) > SCHEMA:
        message = f"run {state.run_id} began with planrunner {began}, whose rules {__version__} does not know"
        raise StorageFailed(message, "upgrade planrunner to continue this run; nothing of it has changed")
    if began == __version__:
        return ()
    again, entries = begun(site.journal, state.run_id), list(site.journal.entries(state.run_id))
    difference = replay(again.plan, state.run_id, entries, again.plans).difference
    if difference is None:
        return ()
    what = f"{__version__} decides event {difference.seq} differently: {difference.message}"
    return (f"this run began with planrunner {began}; {what} (see: planrunner replay {state.run_id})",)


def _check_capabilities(site: Site, state: State, every: bool) -> None:
    """Let nothing go on that would fail for want of a plugin: raises PlanInvalid where a task that is still to run (or
    ``every`` one) names a capability that cannot be used now."""
    unusable: list[tuple[Task, str]] = []
    for task, kept in zip(state.plan.tasks, state.tasks):
        if every or kept.status not in SETTLED:
            wanted = sorted(capabilities_of((task,)) - TARGETS.keys())
            unusable += ((task, name) for name in wanted if site.registry.find(name) is None)
    if unusable:
        raise refused(site.journal.plan(text_key(state)).source(), site.registry, unusable)


def _with_services(state: State, following: Sequence[Event]) -> Sequence[Event]:
    """The events, and one by which the services of the plan start again, which ended with the runner before, where
    anything is still to run. What comes after them waits until they are ready."""
    if not any(task.ready for task in state.plan.tasks):
        return following
    following = [event._replace(services_first=True) if isinstance(event, TasksReset) else event for event in following]
    again = {name for event in following if isinstance(event, TasksReset) for name in event.tasks}
    pairs = list(zip(state.plan.tasks, state.tasks))
    ended = [task.id for task, kept in pairs if task.ready and kept.status == "completed" and task.id not in again]
    if not ended or not (again or any(kept.status not in SETTLED for _, kept in pairs)):
        return following
    return [*following, TasksReset(tuple(ended), "service", principal().name, services_first=True, named=tuple(ended))]


def _check_ready(site: Site, state: State, following: Sequence[Event], vault: Vault | None) -> None:
    """Raises Unready where something that a task which is still to run needs is missing."""
    again = {name for event in following if isinstance(event, TasksReset) for name in event.tasks}
    still = {task.id for task, kept in zip(state.plan.tasks, state.tasks) if kept.status not in SETTLED}
    capabilities = {name: site.registry.find(name) for name in capabilities_of(state.plan.tasks)}
    environment = state.environment
    needs = Needs(
        *(state.plan, state.params, environment.get("env", {}), state.traits, preconditions_of(capabilities)),
        *(directory_of(state), state.selected, vault, still | again, environment.get("policy")),
    )
    hint = Hint("nothing of it has changed: fix this, then ", NextStep("resume", state.run_id))
    warn(site.watch, require_ready(needs, f"run {state.run_id} cannot go on", hint))


def changed(state: State, directory: str, following: Iterable[Event]) -> list[Event]:
    """What is recorded where the operator's policy is not what the run is held to: both hold from now on. Nothing where
    a person accepts the current policy among the events that follow. Raises as ``read_settings``."""
    if any(isinstance(event, PolicyChanged) for event in following):
        return []
    now, held = _now(directory), _held(state)
    before = []
    for record in held:
        name = str(record["name"])
        if record in now or name.endswith(AS_BEFORE):
            before.append(record)
        else:  # a level that is fixed: it is no longer in any file
            before.append({**record, "name": name + AS_BEFORE, "file": ""})
    more = [record for record in now if record not in held]
    return [] if before == held and not more else [PolicyChanged((*before, *more), "changed", principal().name)]


def other_settings(state: State, directory: str) -> dict[str, Json]:
    """The digests of the settings of a directory where they are not those that the run has; else empty. Raises as
    ``read_settings``."""
    there = has_settings(directory) and os.path.isdir(directory)
    now = digests(read_settings(directory) if there else Settings(), directory)
    return {} if now == (state.environment.get("settings") or digests(Settings(), directory)) else now


def accepted(state: State, directory: str) -> list[Event]:
    """What is recorded where a person accepts that only the current policy applies. Raises as ``read_settings``."""
    now = _now(directory)
    return [] if _held(state) == now else [PolicyChanged(tuple(now), "accepted", principal().name)]


def voided(state: State, following: Iterable[Event], program: str) -> tuple[str, ...]:
    """For each task whose votes are void by a change of policy among the events that follow: the voters, and how to
    vote again. Before these events are folded."""
    if not any(isinstance(event, PolicyChanged) for event in following):
        return ()
    told = []
    for task, task_state in zip(state.specs, state.tasks, strict=True):
        gate = task_state.gate
        let_through = task_state.status in ("pending", "blocked") and task_state.cleared
        if gate is None or task_state.status in SETTLED or (gate.decision and not let_through):
            continue
        if who := dict.fromkeys(vote.by for vote in gate.votes):
            told.append(
                f"the policy has changed: the votes of {', '.join(who)} at `{task.id}` no longer count; "
                f"vote again: {program} gates {state.run_id}"
            )
    return tuple(told)


def _held(state: State) -> list[dict[str, Json]]:
    return list(state.environment.get("policy") or ())


def _now(directory: str) -> list[dict[str, Json]]:
    if not has_settings(directory) or not os.path.isdir(directory):
        return []
    return policy_records(directory)


def refused(source: Source, registry: Registry, unusable: Iterable[tuple[Task, str]]) -> PlanInvalid:
    """The error for capabilities that tasks (those around theirs) name and that cannot be used; ``source`` is the plan
    that the run is pinned to."""
    findings = []
    for task, name in unusable:
        at = source.text.find(name, task.span.start)
        span = Span(at, at + len(name)) if at >= 0 else task.span
        help_ = registry.missing(name) or "no plugin that is installed and may be loaded has it"
        findings.append(Diagnostic("PLAN007", f"the capability `{name}` cannot be used", span, help=help_))
    why = "the run cannot go on as things are; nothing of it has changed, fix this and resume it"
    return PlanInvalid(why, source, arrange(findings))
