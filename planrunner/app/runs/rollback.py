"""Undo what a run did, all of it or a part, and tell beforehand what that would be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from planrunner.app.history.state import stored_state
from planrunner.app.plans.tasks import missing, task_number
from planrunner.app.runs.execute import RunResult, Watch
from planrunner.app.runs.resume import Reopened, go_on
from planrunner.caller import principal
from planrunner.engine.poller import StopSwitch
from planrunner.errors import NextStep, UsageError
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.compensation import acted, bare, outstanding, selected, started, under_way
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, Event, RollbackStarted
from planrunner.machine.names import owners
from planrunner.machine.state import State, UndoStep
from planrunner.plan.model import RollbackPolicy
from planrunner.records import Struct
from planrunner.views.documents import document

Json = Any


class RollbackRequest(Struct):
    """``to`` is the task after which everything is undone, itself kept; ``only`` are ids, paths or labels of tasks.
    ``strict`` None leaves it to the plan."""

    run: str
    to: str = ""
    only: tuple[str, ...] = ()
    strict: bool | None = None
    comment: str = ""


class Step(NamedTuple):
    """One thing that would be undone: ``kind`` is action, files or capability, ``what`` how (as the plan writes it)."""

    task: str
    kind: str
    what: str


class Planned(Struct):
    """What a rollback would do, in its order, without what was refused before it did anything; ``bare`` are tasks that
    acted and do not say how they are undone."""

    run_id: str
    strict: bool
    steps: tuple[Step, ...]
    bare: tuple[str, ...]


def planned_document(planned: Planned) -> dict[str, Json]:
    """What a rollback would undo, in its order."""
    steps = [step._asdict() for step in planned.steps]
    return document(run_id=planned.run_id, strict=planned.strict, steps=steps, bare=planned.bare)


def preview(request: RollbackRequest, state_dir: str | None) -> Planned:
    """What ``roll_back`` would do. Raises NotFound and UsageError."""
    with closing(open_journal(find_state(None, state_dir), readonly=True)) as journal:
        row = journal.run(journal.find_run(request.run))
        entries = tuple(journal.entries(row.run))
        state = stored_state(journal, row.run, entries)
    event = _event(state, request, starts(entries))
    assert state.compensation_log is not None
    done = (at for at in (*under_way(state), *event.owed) if not _never_acted(state, at, entries))
    steps = tuple(_step(state, position) for position in done)
    return Planned(row.run, event.strict, steps, event.bare)


def roll_back(
    request: RollbackRequest, state_dir: str | None, watch: Watch, switch: StopSwitch | None = None
) -> RunResult:
    """Undo and drive the run to its end, whatever state it is in now; one that had ended is opened again for that.
    ``switch`` stops it from another thread.

    Raises NotFound, RunHeld, UsageError where there is nothing to undo, StorageFailed,
    Fenced.
    """

    with closing(open_journal(find_state(None, state_dir), readonly=True)) as journal:
        run = journal.find_run(request.run)

    def following(state: State) -> list[Event]:
        with closing(open_journal(find_state(None, state_dir), readonly=True)) as journal:
            return [_event(state, request, starts(journal.entries(state.run_id)))]

    return go_on(Reopened(run, following, "rollback", switch), state_dir, watch)


def starts(entries: Iterable[Entry]) -> dict[tuple[str, int], int]:
    """The number of the entry with which each attempt started, by task and attempt."""
    result: dict[tuple[str, int], int] = {}
    for entry in entries:
        if isinstance(entry.event, AttemptStarted):
            result.setdefault((entry.event.task, entry.event.attempt), entry.seq)
    return result


def _event(state: State, request: RollbackRequest, order: Mapping[tuple[str, int], int]) -> RollbackStarted:
    policy = state.plan.rollback or RollbackPolicy()
    known = {task.id for task in state.specs} | {task.id.rpartition("/")[2] for task in state.specs}
    known |= {label for task in state.specs for label in task.labels}
    for name in request.only:
        if name not in known:
            raise missing(f"the run has no task and no label `{name}`", name, sorted(known), state.run_id)
    positions = selected(state, outstanding(state), request.only or policy.only)
    naked = [] if request.only or policy.only else bare(state)
    if request.to:
        positions, naked = _after(state, request.to, order, positions, naked)
    if not positions and not under_way(state):
        told = ", ".join(f"`{state.specs[number].id}`" for number in naked[:5])
        told += f" and {len(naked) - 5} more" if len(naked) > 5 else ""
        say = "does not say how it is undone" if len(naked) == 1 else "do not say how they are undone"
        hint = f"{told} acted and {say}" if naked else NextStep("show", state.run_id)
        raise UsageError(f"there is nothing to undo in run {state.run_id}", hint)
    strict = policy.mode == "strict" if request.strict is None else request.strict
    names = tuple(state.specs[number].id for number in naked)
    return started(
        state, RollbackStarted("person", (), (), strict, principal().name, request.comment, names), positions
    )


def _after(
    state: State, name: str, order: Mapping[tuple[str, int], int], positions: Sequence[int], naked: Sequence[int]
) -> tuple[list[int], list[int]]:
    """What started after a task in its last visit, and does not stand inside it."""
    number = task_number(state, name)
    name = state.specs[number].id
    task_state = state.tasks[number]
    since = order.get((name, task_state.attempts if task_state.reason == "reused" else task_state.past + 1))
    if since is None:
        raise UsageError(f"task `{name}` did not start, so nothing came after it")
    assert state.compensation_log is not None
    steps = state.compensation_log.steps

    def later(other: int, attempt: int) -> bool:
        return order.get((state.specs[other].id, attempt), 0) > since and number not in (other, *owners(state, other))

    kept = [at for at in positions if later(steps[at].number, steps[at].attempt)]
    return kept, [other for other in naked if later(other, state.tasks[other].attempts)]


def _never_acted(state: State, position: int, entries: Iterable[Entry]) -> bool:
    """Whether a capability was refused in each attempt, as the look before them had found already (``late``), and none
    was cut off: the rollback will find nothing to take back."""
    assert state.compensation_log is not None
    step = state.compensation_log.steps[position]
    if step.kind != "capability" or "late" not in step.files[0]["before"] or not _refused(state, step):
        return False
    name, first = state.specs[step.number].id, state.tasks[step.number].past + 1
    starts, ends = 0, 0
    for entry in entries:
        event = entry.event
        if isinstance(event, (AttemptStarted, AttemptEnded)) and event.task == name and event.attempt >= first:
            starts += isinstance(event, AttemptStarted)
            ends += isinstance(event, AttemptEnded) and event.outcome.failure == "policy"
    return starts == ends


def _refused(state: State, step: UndoStep) -> bool:
    task_state = state.tasks[step.number]
    return (task_state.failure, task_state.visit) == ("policy", step.visit)


def _step(state: State, position: int) -> Step:
    assert state.compensation_log is not None
    step = state.compensation_log.steps[position]
    task = acted(state, step)
    if step.kind == "capability":
        what = "takes back what it did"
        what += " before it was refused, if anything" if _refused(state, step) else ""
        return Step(task.id, "capability", f"{task.uses} {what}")
    if step.kind == "files":
        count = sum(not record.get("folder") for record in step.files)
        return Step(task.id, "files", f"put back {count} file{'s' * (count != 1)} of {', '.join(step.patterns)}")
    action: Any = task.rollback
    run = action.run if isinstance(action.run, str) else " ".join(action.run or ())
    return Step(task.id, "action", (run or action.uses).strip())
