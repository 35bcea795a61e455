"""Compensation: what a run has to undo, in which order, and the folds of undoing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from planrunner.machine import budgets
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    BackupAsked,
    BackupMade,
    LeftAlone,
    RollbackEnded,
    RollbackStarted,
    RunResumed,
    UndoEnded,
    UndoScheduled,
    UndoSettled,
    UndoStarted,
)
from planrunner.machine.graph import Rollback
from planrunner.machine.ledger import ROLLBACK
from planrunner.machine.names import is_within
from planrunner.machine.state import CompensationLog, State, UndoStep
from planrunner.machine.statuses import (
    SETTLED,
    IllegalMove,
    after_settling,
    forget,
    free_slot,
    move,
)

if TYPE_CHECKING:
    from planrunner.machine.graph import Frame
    from planrunner.plan.model import Task


def steps_of(state: State, number: int) -> list[int]:
    """The positions of what the present visit of a task owes, the first to undo first."""
    compensation_log = state.compensation_log
    if compensation_log is None:
        return []
    visit = state.tasks[number].visit
    return _in_order(
        compensation_log,
        [at for at in compensation_log.of.get(number, ()) if compensation_log.steps[at].shown_by == (number, visit)],
    )


def acted(state: State, step: UndoStep) -> Task:
    """The task as it was defined when it did what is to be undone."""
    return step.task or state.specs[step.number]


def handed_on(compensation_log: CompensationLog, before: tuple[int, int], now: tuple[int, int]) -> None:
    """A visit of a task keeps what another one gave: what that owes is undone as it is, and shows in the new one, which
    owes nothing of its own. Both are a number and a visit."""
    for at in compensation_log.of.get(now[0], ()):
        if compensation_log.steps[at].shown_by == now:
            compensation_log.steps[at].attempt = 0
    for at in list(compensation_log.of.get(before[0], ())):
        step = compensation_log.steps[at]
        if step.shown_by == before:
            step.shown_by = now
            compensation_log.of[before[0]].remove(at)
            compensation_log.of.setdefault(now[0], []).append(at)


def outstanding(state: State) -> list[int]:
    """The positions of everything that is owed and not undone, in the order of undoing; without what the rollback of a
    linked plan undoes by now."""
    compensation_log = state.compensation_log
    if compensation_log is None:
        return []
    taken = set(under_way(state))
    return [at for at in _in_order(compensation_log, range(len(compensation_log.steps))) if at not in taken]


def under_way(state: State) -> list[int]:
    """What the rollbacks of linked plans undo by now, in the order in which they began."""
    rollbacks = [] if state.compensation_log is None else state.compensation_log.frames.values()
    return [at for rollback in rollbacks for at in rollback.todo]


def inside(state: State, owner: int) -> list[int]:
    """The same for what started in the plan that ``owner`` links, in the attempt that goes on."""
    compensation_log = state.compensation_log
    if compensation_log is None:
        return []
    positions = compensation_log.inside.get(owner, ())
    return _in_order(
        compensation_log, [at for at in positions if is_within(state, compensation_log.steps[at].number, owner)]
    )


def _in_order(compensation_log: CompensationLog, positions: Iterable[int]) -> list[int]:
    acted = [
        at for at in positions if compensation_log.steps[at].attempt and compensation_log.steps[at].fate != "undone"
    ]
    return sorted(acted, key=lambda at: -compensation_log.steps[at].rank)


def selected(state: State, positions: Iterable[int], names: Sequence[str]) -> list[int]:
    """Those of ``positions`` whose task, or one that holds it, has one of ``names`` as id, last part of it or label."""
    if not names:
        return list(positions)
    wanted = frozenset(names)
    assert state.compensation_log is not None
    steps = state.compensation_log.steps
    return [
        at
        for at in positions
        if any(not wanted.isdisjoint(_names(state, number)) for number in {steps[at].number, steps[at].shown_by[0]})
    ]


def _names(state: State, number: int) -> set[str]:
    names: set[str] = set()
    for around in _around(state, number):
        task = state.specs[around]
        names |= {task.id, task.id.rpartition("/")[2], *task.labels}
    return names


def bare(state: State, owner: int = -1) -> list[int]:
    """The tasks that may have changed something and do not say how that is undone, nor does one that holds them; with
    an ``owner`` those in the plan that it links."""
    compensation_log = state.compensation_log
    of = compensation_log.of if compensation_log is not None else {}
    frame = state.tasks[owner].inner if owner >= 0 else None
    return [
        number
        for number in range(0 if frame is None else frame.first, len(state.tasks))
        if state.tasks[number].attempts
        and not _is_refused(state, number)
        and number not in state.containers
        and state.trait(state.specs[number]).effect not in ("pure", "read")
        and (frame is None or is_within(state, number, owner))
        and not any(holder in of for holder in _around(state, number, frame))
    ]


def _is_refused(state: State, number: int) -> bool:
    """Whether its only attempt started nothing."""
    task_state = state.tasks[number]
    return task_state.attempts == 1 and task_state.outcome is not None and not task_state.outcome.acted


def undone_containers(state: State) -> set[int]:
    """The tasks that hold others and completed, of which something inside was undone and nothing is left to undo."""
    compensation_log = state.compensation_log
    assert compensation_log is not None
    undone: set[int] = set()
    left: set[int] = set()
    for step in compensation_log.steps:
        if step.attempt:
            (undone if step.fate == "undone" else left).update(_around(state, step.number))
    for number in bare(state) if undone else ():
        left.update(_around(state, number))
    return {number for number in undone - left if state.tasks[number].status == "completed"}


def _around(state: State, number: int, outermost: Frame | None = None) -> Iterator[int]:
    """A task and those around it, up to the level ``outermost``."""
    while number >= 0:
        yield number
        frame = state.tasks[number].frame
        number = -1 if frame is outermost else frame.owner


def started(state: State, by: RollbackStarted, positions: Sequence[int]) -> RollbackStarted:
    """The event that undoes ``positions`` in this order."""
    steps = state.compensation_log.steps if state.compensation_log is not None else []
    names = tuple(state.specs[steps[at].number].id for at in positions)
    return by._replace(tasks=names, owed=tuple(positions))


def rests_on(state: State, later: int, earlier: int) -> bool:
    """Whether a task, or one around it, waited for another one or for one around that, however far back."""
    wanted = set(_around(state, earlier))
    todo, seen = [later], {later}
    for number in todo:
        needs = state.shape.needs[number]
        if not wanted.isdisjoint(needs):
            return True
        owner = state.tasks[number].frame.owner
        todo += [other for other in (*needs, owner) if other >= 0 and other not in seen]
        seen.update(todo)
    return False


def takes_back(state: State, task: Task) -> bool:
    """Whether the capability of a task itself undoes what it did, since the plan says nothing else about that."""
    said = task.rollback is not None or task.backup or task.irreversible
    return not said and bool(task.uses) and state.trait(task).undo


def is_saved(state: State, number: int) -> bool:
    """Whether files were saved already for the visit that a task is in."""
    compensation_log, now = state.compensation_log, (number, state.tasks[number].visit)
    if compensation_log is None:
        return False
    return any(
        compensation_log.steps[at].kind != "action" and compensation_log.steps[at].shown_by == now
        for at in compensation_log.of.get(number, ())
    )


def current(compensation_log: CompensationLog, rollback: Rollback) -> UndoStep | None:
    """What a rollback is undoing; None between two undos."""
    return None if rollback.current is None else compensation_log.steps[rollback.current]


def of_task(compensation_log: CompensationLog, number: int) -> UndoStep | None:
    """What is being undone of a task."""
    return compensation_log.steps[compensation_log.doing[number]] if number in compensation_log.doing else None


def under(compensation_log: CompensationLog, position: int) -> Rollback:
    """The rollback that undoes a position."""
    return compensation_log.under[position]


CUT_OFF = ("interrupted", "unstarted", "cancelled")


def attempt_started(state: State, event: AttemptStarted, at: float) -> None:
    """From the intent of an attempt on its task has to be undone, whatever becomes of it."""
    if not event.undo:
        return
    number = state.index[event.task]
    visit = state.tasks[number].visit
    compensation_log = _log_of(state)
    for position in compensation_log.of.get(number, ()):
        step = compensation_log.steps[position]
        if (step.number, step.visit) == (number, visit):
            step.attempt = event.attempt
            if step.kind == "action":
                compensation_log.rank(step)
                return
    if state.specs[number].rollback is not None:
        step = UndoStep("action", number, visit)
        step.attempt = event.attempt
        _add(state, compensation_log, step)


def attempt_ended(state: State, event: AttemptEnded, at: float) -> None:
    """An attempt that started nothing leaves owed what the one before it did."""
    number, compensation_log = state.index[event.task], state.compensation_log
    if compensation_log is None:
        return
    for position in compensation_log.of.get(number, ()):
        step = compensation_log.steps[position]
        if (step.number, step.visit) == (number, state.tasks[number].visit) and step.attempt == event.attempt:
            if event.outcome.acted:
                step.acted = event.attempt
            else:
                step.attempt = step.acted


def _add(state: State, compensation_log: CompensationLog, step: UndoStep) -> None:
    position = compensation_log.add(step)
    frame = state.tasks[step.number].frame
    while frame.owner >= 0:
        if frame.linked is not None and frame.linked.on_failure == "rollback":
            compensation_log.inside.setdefault(frame.owner, []).append(position)
        frame = state.tasks[frame.owner].frame


def backup_asked(state: State, event: BackupAsked, at: float) -> None:
    state.asked.add(state.index[event.task])


def backup_made(state: State, event: BackupMade, at: float) -> None:
    number = state.index[event.task]
    state.asked.discard(number)
    state.candidates[number] = None
    if event.failure == "interrupted":
        return  # asked again when the run goes on
    compensation_log = _log_of(state)
    if event.problem:
        compensation_log.problems[number] = (event.problem, event.failure, event.rule)
        return
    noted = bool(event.files) and "before" in event.files[0]
    step = UndoStep("capability" if noted else "files", number, event.visit)
    step.files, step.patterns = event.files, event.patterns
    _add(state, compensation_log, step)


def keep_outputs(state: State, number: int) -> None:
    """A task is reset: what its visit gave is kept for undoing it."""
    task_state = state.tasks[number]
    _log_of(state).problems.pop(number, None)
    for position in _log_of(state).of.get(number, ()):
        step = _log_of(state).steps[position]
        if (step.number, step.visit) == (number, task_state.visit):
            step.outputs = task_state.outputs


def rollback_started(state: State, event: RollbackStarted, at: float) -> None:
    compensation_log = _log_of(state)
    owner = state.index[event.within] if event.within else -1
    rollback = compensation_log.main
    if owner >= 0 or not rollback.active:
        rollback = compensation_log.begin(owner)
        rollback.began, rollback.bare, rollback.comment = at, event.bare, event.comment
        rollback.account, rollback.policy = ROLLBACK - len(compensation_log.rollbacks), state.plan.rollback
        rollback.reason, rollback.strict, rollback.by = event.reason, event.strict, event.by
    elif event.reason != "doubt":
        rollback.reason, rollback.strict, rollback.by = event.reason, event.strict, event.by
    if owner >= 0:
        _hold_open(state, rollback, event, at)
    elif event.reason != "doubt":
        compensation_log.through = compensation_log.ranks
    for position in event.owed:
        compensation_log.under[position] = rollback
        if position not in rollback.todo:
            rollback.todo.append(position)
            step = compensation_log.steps[position]
            step.fate, step.detail, step.tries = "", "", 0
    if event.reason == "doubt":
        number = state.index[event.tasks[0]]
        rollback.doubts[number] = event.owed
        task_state = state.tasks[number]
        free_slot(state, number)
        move(state, number, task_state, "in_doubt")
        task_state.reason = "rollback"
        task_state.detail = f"attempt {task_state.attempts} was cut off; what it may have done is undone"
        state.candidates.pop(number, None)
    elif event.reason == "person":
        _stop(state, rollback)


def _hold_open(state: State, rollback: Rollback, event: RollbackStarted, at: float) -> None:
    """The attempt that links the plan ends once it is undone; its time stands still meanwhile."""
    task_state = state.tasks[rollback.owner]
    assert task_state.inner is not None, "a linked plan was under way"
    task_state.inner.undoing = rollback
    rollback.policy = None if task_state.inner.linked is None else task_state.inner.linked.rollback
    rollback.attempt, rollback.failure, rollback.message = task_state.attempts, event.failure, event.message
    due = state.wheel.due(rollback.owner)
    rollback.left = None if due is None else due - at
    state.wheel.drop(rollback.owner)
    state.candidates.pop(rollback.owner, None)


def _stop(state: State, rollback: Rollback) -> None:
    """A person rolls the run back: nothing else starts any more."""
    state.stop_reason, state.stop_by, state.stop_comment = "rollback", rollback.by, rollback.comment
    for number, task_state in enumerate(state.tasks):
        if task_state.status not in SETTLED:
            state.candidates[number] = None


def undo_started(state: State, event: UndoStarted, at: float) -> None:
    compensation_log = _log_of(state)
    step = compensation_log.steps[event.owed]
    state.wheel.drop(step.number)
    rollback = under(compensation_log, event.owed)
    rollback.current = event.owed
    compensation_log.doing[step.number] = event.owed
    compensation_log.counts[step.number] = max(event.attempt, compensation_log.counts.get(step.number, 0))
    step.tries += not event.reissue
    step.last, step.reissues = event.attempt, event.reissue
    step.cut, step.outcome, step.due = False, None, None
    if step.tries == 1 and not event.reissue:
        step.began = at
    if state.ledger is not None or rollback.policy is not None:
        budgets.undo_started(state, event)


def undo_ended(state: State, event: UndoEnded, at: float) -> None:
    compensation_log = _log_of(state)
    step = of_task(compensation_log, state.index.get(event.task, -1))
    if step is None or step.outcome is not None or step.last != event.attempt:
        raise IllegalMove(f"attempt {event.attempt} to undo task `{event.task}` ended without having started")
    step.cut = event.outcome.failure in CUT_OFF
    step.outcome = None if step.cut else event.outcome
    step.ended = at
    if state.ledger is not None or event.outcome.usage:
        budgets.undo_ended(state, compensation_log.doing[step.number], event)


def undo_scheduled(state: State, event: UndoScheduled, at: float) -> None:
    step = of_task(_log_of(state), state.index[event.task])
    assert step is not None
    step.outcome, step.due = None, event.due
    state.wheel.set(event.due, step.number)


def undo_settled(state: State, event: UndoSettled, at: float) -> None:
    compensation_log = _log_of(state)
    step = compensation_log.steps[event.owed]
    step.fate, step.detail, step.outcome, step.ended = event.status, event.detail, None, at
    rollback = under(compensation_log, event.owed)
    rollback.current = None
    rollback.todo.remove(event.owed)
    rollback.done[event.owed] = None
    compensation_log.doing.pop(step.number, None)
    _mark(state, compensation_log, step)


_UNDO_FAILED = "; what undoes it failed as well: "


def _mark(state: State, compensation_log: CompensationLog, step: UndoStep) -> None:
    """The task is rolled back once nothing of its last visit is left to undo; one that cannot be says so."""
    number, visit = step.shown_by
    task_state = state.tasks[number]
    if task_state.visit != visit or task_state.status not in SETTLED:
        return
    if step.fate != "undone":
        own = task_state.detail.partition(_UNDO_FAILED)[0] if task_state.status == "failed" else ""
        task_state.reason, task_state.detail = (
            "rollback_failed",
            f"{own}{_UNDO_FAILED}{step.detail}" if own else step.detail,
        )
    elif task_state.status != "rolled_back" and not steps_of(state, number):
        was = task_state.status
        move(state, number, task_state, "rolled_back")
        forget(state, number)
        if task_state.dependency_outcome in ("completed", "tolerated"):
            task_state.dependency_outcome = "cancelled"
        why = f": {task_state.detail}" if was == "failed" and task_state.detail else ""
        task_state.reason, task_state.detail = "rolled_back", f"it had {was}, and was undone{why}"


CUT_HALF_WAY = "cut off: whether it was undone is not known"


def rollback_ended(state: State, event: RollbackEnded, at: float) -> None:
    compensation_log = _log_of(state)
    owner = state.index[event.within] if event.within else -1
    rollback = compensation_log.main if owner < 0 else compensation_log.frames.pop(owner)
    if rollback.current is not None:
        budgets.undo_given_up(state, rollback.current)
        step = compensation_log.steps[rollback.current]
        _left_half_way(state, step)
        number = step.number
        compensation_log.doing.pop(number, None)
        state.wheel.drop(number)
    rollback.active, rollback.status, rollback.current, rollback.ended = False, event.status, None, at
    if owner < 0:
        after_settling(state, state.top)
        return
    frame = state.tasks[owner].inner
    assert frame is not None
    if frame.finals_open and rollback.left is not None:
        state.wheel.set(at + max(rollback.left, 0.0), owner)
    state.candidates[owner] = None
    after_settling(state, frame)


def _left_half_way(state: State, step: UndoStep) -> None:
    """A rollback ends while something is being undone, or waits to be tried again."""
    step.detail = CUT_HALF_WAY if step.due is None else "failed, and was not tried again"
    number, visit = step.shown_by
    task_state = state.tasks[number]
    if task_state.visit == visit and task_state.status in SETTLED:
        task_state.reason, task_state.detail = "rollback_failed", step.detail


def left_alone(state: State, event: LeftAlone, at: float) -> None:
    state.unattended = True


def run_resumed(state: State, event: RunResumed, at: float) -> None:
    """A runner took the run over: the ends of undos that were under way were not seen."""
    compensation_log = state.compensation_log
    if compensation_log is None:
        return
    for rollback in (compensation_log.main, *compensation_log.frames.values()):
        doing = current(compensation_log, rollback)
        if rollback.active and doing is not None and doing.outcome is None and doing.due is None:
            doing.cut = True
    if compensation_log.main.active and compensation_log.main.reason == "person":
        _stop(state, compensation_log.main)


def _log_of(state: State) -> CompensationLog:
    if state.compensation_log is None:
        state.use("undo")
        state.compensation_log = CompensationLog()
    return state.compensation_log


def is_undoable(state: State, number: int) -> bool:
    """Whether what a task did can be rolled back."""
    task = state.specs[number]
    return task.rollback is not None or bool(task.backup) or bool(steps_of(state, number))
