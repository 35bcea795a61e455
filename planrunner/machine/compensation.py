"""The folds of undoing: what is owed from the intent of an attempt on, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.machine import reserves
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    BackupAsked,
    BackupMade,
    LeftAlone,
    RollbackEnded,
    RollbackStarted,
    UndoEnded,
    UndoScheduled,
    UndoSettled,
    UndoStarted,
)
from planrunner.machine.ledger import ROLLBACK
from planrunner.machine.moves import after_settling, drop_timer, free_slot, move, set_timer
from planrunner.machine.owing import current, mine, of_task, under
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED, IllegalMove
from planrunner.machine.undoing import Debts, Owed, Rollback

CUT_OFF = ("interrupted", "unstarted", "cancelled")


def register(state: State, event: AttemptStarted) -> None:
    """From the intent of an attempt on its task has to be undone, whatever becomes of it."""
    number = state.index[event.task]
    visit = state.tasks[number].visit
    debts = _debts(state)
    for position in debts.of.get(number, ()):
        owed = debts.owed[position]
        if (owed.number, owed.visit) == (number, visit):
            owed.attempt = event.attempt
            if owed.kind == "action":
                debts.rank(owed)
                return
    if state.specs[number].rollback is not None:
        owed = Owed("action", number, visit)
        owed.attempt = event.attempt
        _add(state, debts, owed)


def ended(state: State, event: AttemptEnded) -> None:
    """An attempt that started nothing leaves owed what the one before it did."""
    number = state.index[event.task]
    debts = _debts(state)
    for position in debts.of.get(number, ()):
        owed = debts.owed[position]
        if (owed.number, owed.visit) == (number, state.tasks[number].visit) and owed.attempt == event.attempt:
            if event.outcome.acted:
                owed.acted = event.attempt
            else:
                owed.attempt = owed.acted


def _add(state: State, debts: Debts, owed: Owed) -> None:
    position = debts.add(owed)
    frame = state.tasks[owed.number].frame
    while frame.owner >= 0:
        if frame.linked is not None and frame.linked.on_failure == "rollback":
            debts.inside.setdefault(frame.owner, []).append(position)
        frame = state.tasks[frame.owner].frame


def backup_asked(state: State, event: BackupAsked, at: float) -> None:
    state.asked.add(state.index[event.task])


def backup_made(state: State, event: BackupMade, at: float) -> None:
    number = state.index[event.task]
    state.asked.discard(number)
    state.candidates[number] = None
    if event.failure == "interrupted":
        return  # asked again when the run goes on
    debts = _debts(state)
    if event.problem:
        debts.problems[number] = (event.problem, event.failure, event.rule)
        return
    noted = bool(event.files) and "before" in event.files[0]
    owed = Owed("capability" if noted else "files", number, event.visit)
    owed.files, owed.patterns = event.files, event.patterns
    _add(state, debts, owed)


def keep_outputs(state: State, number: int) -> None:
    """A task begins anew: what its visit gave is kept for undoing it."""
    found = state.tasks[number]
    _debts(state).problems.pop(number, None)
    for position in _debts(state).of.get(number, ()):
        owed = _debts(state).owed[position]
        if (owed.number, owed.visit) == (number, found.visit):
            owed.outputs = found.outputs


def rollback_started(state: State, event: RollbackStarted, at: float) -> None:
    debts = _debts(state)
    owner = state.index[event.within] if event.within else -1
    rollback = debts.main
    if owner >= 0 or not rollback.active:
        rollback = debts.begin(owner)
        rollback.began, rollback.bare, rollback.comment = at, event.bare, event.comment
        rollback.account, rollback.policy = ROLLBACK - len(debts.rollbacks), state.plan.rollback
        rollback.reason, rollback.strict, rollback.by = event.reason, event.strict, event.by
    elif event.reason != "doubt":
        rollback.reason, rollback.strict, rollback.by = event.reason, event.strict, event.by
    if owner >= 0:
        _hold_open(state, rollback, event, at)
    elif event.reason != "doubt":
        debts.through = debts.ranks
    for position in event.owed:
        debts.under[position] = rollback
        if position not in rollback.todo:
            rollback.todo.append(position)
            owed = debts.owed[position]
            owed.fate, owed.detail, owed.tries = "", "", 0
    if event.reason == "doubt":
        number = state.index[event.tasks[0]]
        rollback.doubts[number] = event.owed
        _hold_in_doubt(state, number)
    elif event.reason == "person":
        _stop(state, rollback)


def _hold_open(state: State, rollback: Rollback, event: RollbackStarted, at: float) -> None:
    """The attempt that links the plan ends once it is undone; its time stands still meanwhile."""
    found = state.tasks[rollback.owner]
    assert found.inner is not None, "a linked plan was under way"
    found.inner.undoing = rollback
    rollback.policy = None if found.inner.linked is None else found.inner.linked.rollback
    rollback.attempt, rollback.failure, rollback.message = found.attempts, event.failure, event.message
    rollback.left = None if found.due is None else found.due - at
    drop_timer(state, rollback.owner, found)
    state.candidates.pop(rollback.owner, None)


def _hold_in_doubt(state: State, number: int) -> None:
    found = state.tasks[number]
    free_slot(state, number)
    move(state, number, found, "in_doubt")
    found.reason, found.detail = "rollback", f"attempt {found.attempts} was cut off; what it may have done is undone"
    state.candidates.pop(number, None)


def _stop(state: State, rollback: Rollback) -> None:
    """A person rolls the run back: nothing else starts any more."""
    state.stop_reason, state.stop_by, state.stop_comment = "rollback", rollback.by, rollback.comment
    for number, found in enumerate(state.tasks):
        if found.status not in SETTLED:
            state.candidates[number] = None


def undo_started(state: State, event: UndoStarted, at: float) -> None:
    debts = _debts(state)
    owed = debts.owed[event.owed]
    drop_timer(state, owed.number, state.tasks[owed.number])
    rollback = under(debts, event.owed)
    rollback.current = event.owed
    debts.doing[owed.number] = event.owed
    debts.counts[owed.number] = max(event.attempt, debts.counts.get(owed.number, 0))
    owed.tries += not event.reissue
    owed.last, owed.reissues = event.attempt, event.reissue
    owed.cut, owed.outcome, owed.due = False, None, None
    if owed.tries == 1 and not event.reissue:
        owed.began = at
    if state.ledger is not None or rollback.policy is not None:
        reserves.started(state, event)


def undo_ended(state: State, event: UndoEnded, at: float) -> None:
    debts = _debts(state)
    owed = of_task(debts, state.index.get(event.task, -1))
    if owed is None or owed.outcome is not None or owed.last != event.attempt:
        raise IllegalMove(f"attempt {event.attempt} to undo task `{event.task}` ended without having started")
    owed.cut = event.outcome.failure in CUT_OFF
    owed.outcome = None if owed.cut else event.outcome
    owed.ended = at
    if state.ledger is not None or event.outcome.usage:
        reserves.ended(state, debts.doing[owed.number], event)


def undo_scheduled(state: State, event: UndoScheduled, at: float) -> None:
    owed = of_task(_debts(state), state.index[event.task])
    assert owed is not None
    owed.outcome, owed.due = None, event.due
    set_timer(state, owed.number, event.due)


def undo_settled(state: State, event: UndoSettled, at: float) -> None:
    debts = _debts(state)
    owed = debts.owed[event.owed]
    owed.fate, owed.detail, owed.outcome, owed.ended = event.status, event.detail, None, at
    rollback = under(debts, event.owed)
    rollback.current = None
    rollback.todo.remove(event.owed)
    rollback.done[event.owed] = None
    debts.doing.pop(owed.number, None)
    _mark(state, debts, owed)


_UNDO_FAILED = "; what undoes it failed as well: "


def _mark(state: State, debts: Debts, owed: Owed) -> None:
    """The task is rolled back once nothing of its last visit is left to undo; one that cannot be says so."""
    number, visit = owed.shown_by
    found = state.tasks[number]
    if found.visit != visit or found.status not in SETTLED:
        return
    if owed.fate != "undone":
        own = found.detail.partition(_UNDO_FAILED)[0] if found.status == "failed" else ""
        found.reason, found.detail = "rollback_failed", f"{own}{_UNDO_FAILED}{owed.detail}" if own else owed.detail
    elif found.status != "rolled_back" and not mine(state, number):
        was = found.status
        move(state, number, found, "rolled_back")
        if found.standing in ("completed", "tolerated"):
            found.standing = "cancelled"
        why = f": {found.detail}" if was == "failed" and found.detail else ""
        found.reason, found.detail = "rolled_back", f"it had {was}, and was undone{why}"


CUT_HALF_WAY = "cut off: whether it was undone is not known"


def rollback_ended(state: State, event: RollbackEnded, at: float) -> None:
    debts = _debts(state)
    owner = state.index[event.within] if event.within else -1
    rollback = debts.main if owner < 0 else debts.frames.pop(owner)
    if rollback.current is not None:
        reserves.given_up(state, rollback.current)
        owed = debts.owed[rollback.current]
        _left_half_way(state, owed)
        number = owed.number
        debts.doing.pop(number, None)
        drop_timer(state, number, state.tasks[number])
    rollback.active, rollback.status, rollback.current, rollback.ended = False, event.status, None, at
    if owner < 0:
        after_settling(state, state.top)
        return
    frame = state.tasks[owner].inner
    assert frame is not None
    if frame.finals_open and rollback.left is not None:
        set_timer(state, owner, at + max(rollback.left, 0.0))
    state.candidates[owner] = None
    after_settling(state, frame)


def _left_half_way(state: State, owed: Owed) -> None:
    """A rollback ends while something is being undone, or waits to be tried again."""
    owed.detail = CUT_HALF_WAY if owed.due is None else "failed, and was not tried again"
    number, visit = owed.shown_by
    found = state.tasks[number]
    if found.visit == visit and found.status in SETTLED:
        found.reason, found.detail = "rollback_failed", owed.detail


def left_alone(state: State, event: LeftAlone, at: float) -> None:
    state.unattended = True


def resumed(state: State) -> None:
    """A runner took the run over: the ends of undos that were under way were not seen."""
    debts = _debts(state)
    for rollback in (debts.main, *debts.frames.values()):
        doing = current(debts, rollback)
        if rollback.active and doing is not None and doing.outcome is None and doing.due is None:
            doing.cut = True
    if debts.main.active and debts.main.reason == "person":
        _stop(state, debts.main)


def _debts(state: State) -> Debts:
    if state.debts is None:
        state.debts = Debts()
    return state.debts


FOLDS: dict[type, Callable[[State, Any, float], None]] = {
    LeftAlone: left_alone,
    BackupAsked: backup_asked,
    BackupMade: backup_made,
    RollbackStarted: rollback_started,
    UndoStarted: undo_started,
    UndoEnded: undo_ended,
    UndoScheduled: undo_scheduled,
    UndoSettled: undo_settled,
    RollbackEnded: rollback_ended,
}
