"""Undoing what a run did: last-in first-out, one at a time, registered before each task starts.

A rollback begins when the plan says so after a failure, when an attempt of unknown end is settled that way, or when a
person asks. It is made of events like everything else, so that one cut off in the middle goes on: the undo that was
under way is issued again with its key, those that ended are never repeated.
"""

from __future__ import annotations

from planrunner.machine.commands import Record, Save, Undo
from planrunner.machine.events import (
    AttemptStarted,
    BackupAsked,
    BackupMade,
    LeftAlone,
    RollbackEnded,
    RollbackStarted,
    TaskSettled,
    UndoEnded,
    UndoScheduled,
    UndoSettled,
    UndoStarted,
)
from planrunner.machine.moves import after_settling, drop_timer, free_slot, main_part_done, move, set_timer
from planrunner.machine.statuses import FINAL_STOPS, SETTLED, IllegalMove
from planrunner.machine.undoing import Ledger, Owed
from planrunner.plan.model import Retry, RollbackPolicy
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from planrunner.machine.commands import Command
    from planrunner.machine.state import State

CUT_OFF = ("interrupted", "unstarted", "cancelled")
_GOES_ON = ("", "deadline", "rollback", "budget")
"""Reasons for a stop that do not keep a rollback from going on."""


# What is owed


def mine(state: State, number: int) -> list[int]:
    """The positions of what the present visit of a task owes, the first to undo first."""
    ledger = state.ledger
    if ledger is None:
        return []
    visit = state.tasks[number].visit
    return _in_order(ledger, [at for at in ledger.of.get(number, ()) if ledger.owed[at].visit == visit])


def outstanding(state: State) -> list[int]:
    """The positions of everything that is owed and not undone, in the order of undoing."""
    ledger = state.ledger
    return [] if ledger is None else _in_order(ledger, range(len(ledger.owed)))


def _in_order(ledger: Ledger, positions: Iterable[int]) -> list[int]:
    acted = [at for at in positions if ledger.owed[at].attempt and ledger.owed[at].fate != "undone"]
    return sorted(acted, key=lambda at: -ledger.owed[at].rank)


def selected(state: State, positions: Iterable[int], names: Sequence[str]) -> list[int]:
    """Those of ``positions`` whose task, or one that holds it, has one of ``names`` as id, last part of it or label."""
    if not names:
        return list(positions)
    wanted = frozenset(names)
    assert state.ledger is not None
    return [at for at in positions if not wanted.isdisjoint(_names(state, state.ledger.owed[at].number))]


def _names(state: State, number: int) -> set[str]:
    found: set[str] = set()
    for around in _around(state, number):
        task = state.specs[around]
        found |= {task.id, task.id.rpartition("/")[2], *task.labels}
    return found


def bare(state: State) -> list[int]:
    """The tasks that may have changed something and do not say how that is undone, nor does one that holds them."""
    ledger = state.ledger
    of = ledger.of if ledger is not None else {}
    return [
        number
        for number, found in enumerate(state.tasks)
        if found.attempts
        and number not in state.holders
        and state.trait(state.specs[number]).effect not in ("pure", "read")
        and not any(holder in of for holder in _around(state, number))
    ]


def _around(state: State, number: int) -> Iterator[int]:
    while number >= 0:
        yield number
        number = state.tasks[number].frame.owner


def started(state: State, by: RollbackStarted, positions: Sequence[int]) -> RollbackStarted:
    """The event that undoes ``positions`` in this order."""
    owed = state.ledger.owed if state.ledger is not None else []
    names = tuple(state.specs[owed[at].number].id for at in positions)
    return by._replace(tasks=names, owed=tuple(positions))


# Decisions


def comes_first(state: State) -> bool:
    """What stands under the plan's ``finally`` waits: something is undone before it."""
    return is_due(state) or bool(state.ledger is not None and state.ledger.active and state.ledger.reason != "doubt")


def is_due(state: State) -> bool:
    """The main part of a plan with ``on_failure: rollback`` is settled and failed, and nothing of it is undone yet. A
    run that somebody cancelled is left as it is."""
    if state.plan.on_failure != "rollback" or not (state.failures or state.stop_reason in ("deadline", "budget")):
        return False
    ledger = state.ledger
    if ledger is not None and (ledger.active or (ledger.status and ledger.ranks <= ledger.through)):
        return False
    return state.stop_reason in _GOES_ON and main_part_done(state, state.top)


def busy(state: State) -> bool:
    """An undo is under way, or waits for its next attempt."""
    ledger = state.ledger
    if ledger is None or not ledger.active:
        return False
    current = _current(ledger)
    if current is None or current.cut:
        return False
    return current.due is None or state.stop_reason in _GOES_ON


def by_doubt(state: State, number: int, by: str = "") -> Record | None:
    """The rollback that settles an attempt of unknown end; None where nothing says how the task is undone."""
    positions = mine(state, number)
    if not positions:
        return None
    return Record(started(state, RollbackStarted("doubt", (), (), by=by), positions))


def step(state: State, now: float) -> list[Command]:
    """What follows for the rollback of a run; nothing while an undo is under way or none is called for."""
    ledger = state.ledger
    if ledger is None or not ledger.active:
        return [_by_failure(state)] if is_due(state) else []
    current = _current(ledger)
    if state.stop_reason not in _GOES_ON:
        given_up = state.stop_reason in FINAL_STOPS and (current is None or current.cut)
        return [Record(RollbackEnded("rollback_failed"))] if given_up else []
    if current is None:
        return _next(state, ledger, now)
    if current.cut:
        assert ledger.current is not None
        return [Undo(ledger.current, current.last, current.reissues + 1)]
    if current.due is not None:
        return [_undo(ledger, _position(ledger))] if current.due <= now else []
    return [] if current.outcome is None else [_after(state, ledger, current, now)]


def _by_failure(state: State) -> Record:
    policy = state.plan.rollback or RollbackPolicy()
    positions = selected(state, outstanding(state), policy.only) if state.ledger is not None else []
    event = RollbackStarted("failure", (), (), policy.mode == "strict")
    if not policy.only:
        event = event._replace(bare=tuple(state.specs[number].id for number in bare(state)))
    return Record(started(state, event, positions))


def _next(state: State, ledger: Ledger, now: float) -> list[Command]:
    for number, positions in ledger.doubts.items():
        waits = state.tasks[number].status == "in_doubt" and state.tasks[number].reason == "rollback"
        if waits and not any(at in ledger.todo for at in positions):
            return [_settle_doubt(state, ledger, number, positions)]
    if not ledger.todo:
        failed = any(ledger.owed[at].fate != "undone" for at in ledger.done)
        return [Record(RollbackEnded("rollback_failed" if failed else "rolled_back"))]
    if why := _given_up(state, ledger, now):
        owed = ledger.owed[ledger.todo[0]]
        return [Record(UndoSettled(state.specs[owed.number].id, ledger.todo[0], "left", why))]
    return [_undo(ledger, ledger.todo[0])]


def _given_up(state: State, ledger: Ledger, now: float) -> str:
    if ledger.strict and (failed := [at for at in ledger.done if ledger.owed[at].fate == "failed"]):
        task = state.specs[ledger.owed[failed[0]].number].id
        return f"not tried: `{task}` could not be undone and the rollback is strict"
    left = reserve(state, now)
    return "not tried: the time reserved for the rollback is used up" if left is not None and left <= 0 else ""


def reserve(state: State, now: float) -> float | None:
    """Seconds that the rollback going on has left of its own budget; None where it has no limit. The budget of the run
    is none of its business."""
    policy, ledger = state.plan.rollback, state.ledger
    if policy is None or policy.budgets.time is None or ledger is None:
        return None
    return policy.budgets.time - (now - ledger.began)


def _undo(ledger: Ledger, position: int) -> Undo:
    return Undo(position, ledger.counts.get(ledger.owed[position].number, 0) + 1)


def _after(state: State, ledger: Ledger, owed: Owed, now: float) -> Record:
    """The end of an attempt to undo: undone, tried again, or given up."""
    task, position = state.specs[owed.number], _position(ledger)
    outcome = owed.outcome
    assert outcome is not None
    if not outcome.failure:
        return Record(UndoSettled(task.id, position, "undone"))
    from planrunner.machine.retry import again, delay  # late: most undo what they should at once

    retry = task.rollback.retry if task.rollback is not None and owed.kind == "action" else Retry()
    left = reserve(state, now)
    if again(retry, owed.tries, outcome.failure) and (left is None or left > 0):
        due = now + delay(retry, owed.tries, f"{state.seed}:{task.id}:undo:{owed.last}")
        return Record(UndoScheduled(task.id, owed.last, due, outcome.failure))
    return Record(UndoSettled(task.id, position, "failed", f"{outcome.failure}: {outcome.message}"))


def _settle_doubt(state: State, ledger: Ledger, number: int, positions: tuple[int, ...]) -> Record:
    task, found = state.specs[number], state.tasks[number]
    if all(ledger.owed[at].fate == "undone" for at in positions):
        detail = f"attempt {found.attempts} was cut off, and what it may have done is undone"
        return Record(TaskSettled(task.id, "failed", "doubt", detail, "doubt"))
    why = next(ledger.owed[at].detail for at in positions if ledger.owed[at].fate != "undone")
    detail = f"attempt {found.attempts} was cut off, and what it may have done could not be undone: {why}"
    return Record(TaskSettled(task.id, "in_doubt", "ask", detail))


# Folds


def register(state: State, event: AttemptStarted) -> None:
    """From the intent of an attempt on its task has to be undone, whatever becomes of it."""
    number = state.index[event.task]
    visit = state.tasks[number].visit
    ledger = _ledger(state)
    for position in ledger.of.get(number, ()):
        owed = ledger.owed[position]
        if owed.visit == visit:
            owed.attempt = event.attempt
            if owed.kind == "action":
                ledger.rank(owed)
                return
    if state.specs[number].rollback is not None:
        owed = Owed("action", number, visit)
        owed.attempt = event.attempt
        ledger.add(owed)


def backup_asked(state: State, event: BackupAsked, at: float) -> None:
    state.asked.add(state.index[event.task])


def backup_made(state: State, event: BackupMade, at: float) -> None:
    number = state.index[event.task]
    state.asked.discard(number)
    state.candidates[number] = None
    ledger = _ledger(state)
    if event.problem:
        ledger.problems[number] = event.problem
        return
    owed = Owed("files", number, event.visit)
    owed.files, owed.patterns = event.files, event.patterns
    ledger.add(owed)


def unsaved(state: State, number: int) -> Save | Record | None:
    """What comes before the start of a task that names files to save; None once they are saved."""
    task, found = state.specs[number], state.tasks[number]
    if found.uncertain or is_saved(state, number):
        return None
    problem = state.ledger.problems.get(number) if state.ledger is not None else None
    if problem is None:
        return Save(number)
    detail = f"not started, since its files could not be saved: {problem}"
    return Record(TaskSettled(task.id, "failed", "backup", detail, "policy"))


def is_saved(state: State, number: int) -> bool:
    """Whether files were saved already for the visit that a task is in."""
    ledger, visit = state.ledger, state.tasks[number].visit
    if ledger is None:
        return False
    return any((ledger.owed[at].kind, ledger.owed[at].visit) == ("files", visit) for at in ledger.of.get(number, ()))


def keep_outputs(state: State, number: int) -> None:
    """A task begins anew: what its visit gave is kept for undoing it."""
    found = state.tasks[number]
    _ledger(state).problems.pop(number, None)
    for position in _ledger(state).of.get(number, ()):
        owed = _ledger(state).owed[position]
        if owed.visit == found.visit:
            owed.outputs = found.outputs


def rollback_started(state: State, event: RollbackStarted, at: float) -> None:
    ledger = _ledger(state)
    if not ledger.active:
        ledger.began, ledger.status = at, ""
        ledger.reason, ledger.strict, ledger.by, ledger.comment = event.reason, event.strict, event.by, event.comment
        ledger.todo, ledger.done, ledger.doubts, ledger.active = [], {}, {}, True
        ledger.bare = event.bare
    elif event.reason != "doubt":
        ledger.reason, ledger.strict, ledger.by = event.reason, event.strict, event.by
    if event.reason != "doubt":
        ledger.through = ledger.ranks
    for position in event.owed:
        if position not in ledger.todo:
            ledger.todo.append(position)
            owed = ledger.owed[position]
            owed.fate, owed.detail, owed.tries = "", "", 0
    if event.reason == "doubt":
        number = state.index[event.tasks[0]]
        ledger.doubts[number] = event.owed
        _hold_in_doubt(state, number)
    elif event.reason == "person":
        _stop(state, ledger)


def _hold_in_doubt(state: State, number: int) -> None:
    found = state.tasks[number]
    free_slot(state, number)
    move(state, number, found, "in_doubt")
    found.reason, found.detail = "rollback", f"attempt {found.attempts} was cut off; what it may have done is undone"
    state.candidates.pop(number, None)


def _stop(state: State, ledger: Ledger) -> None:
    """A person rolls the run back: nothing else starts any more."""
    state.stop_reason, state.stop_by, state.stop_comment = "rollback", ledger.by, ledger.comment
    for number, found in enumerate(state.tasks):
        if found.status not in SETTLED:
            state.candidates[number] = None


def undo_started(state: State, event: UndoStarted, at: float) -> None:
    ledger = _ledger(state)
    owed = ledger.owed[event.owed]
    drop_timer(state, owed.number, state.tasks[owed.number])
    ledger.current = event.owed
    ledger.counts[owed.number] = max(event.attempt, ledger.counts.get(owed.number, 0))
    owed.tries += not event.reissue
    owed.last, owed.reissues = event.attempt, event.reissue
    owed.cut, owed.outcome, owed.due = False, None, None
    if owed.tries == 1 and not event.reissue:
        owed.began = at


def undo_ended(state: State, event: UndoEnded, at: float) -> None:
    ledger = _ledger(state)
    owed = _current(ledger)
    if owed is None or owed.last != event.attempt or state.specs[owed.number].id != event.task:
        raise IllegalMove(f"attempt {event.attempt} to undo task `{event.task}` ended without having started")
    owed.cut = event.outcome.failure in CUT_OFF
    owed.outcome = None if owed.cut else event.outcome
    owed.ended = at


def undo_scheduled(state: State, event: UndoScheduled, at: float) -> None:
    owed = _current(_ledger(state))
    assert owed is not None
    owed.outcome, owed.due = None, event.due
    set_timer(state, owed.number, event.due)


def undo_settled(state: State, event: UndoSettled, at: float) -> None:
    ledger = _ledger(state)
    owed = ledger.owed[event.owed]
    owed.fate, owed.detail, owed.outcome, owed.ended = event.status, event.detail, None, at
    ledger.current = None
    ledger.todo.remove(event.owed)
    ledger.done[event.owed] = None
    _mark(state, ledger, owed)


def _mark(state: State, ledger: Ledger, owed: Owed) -> None:
    """The task is rolled back once nothing of its last visit is left to undo; one that cannot be says so."""
    found = state.tasks[owed.number]
    if found.visit != owed.visit or found.status not in SETTLED:
        return
    if owed.fate != "undone":
        found.reason, found.detail = "rollback_failed", owed.detail
    elif found.status != "rolled_back" and not mine(state, owed.number):
        was = found.status
        move(state, owed.number, found, "rolled_back")
        if found.standing in ("completed", "tolerated"):
            found.standing = "cancelled"
        found.reason, found.detail = "rolled_back", f"it had {was}, and was undone"


def rollback_ended(state: State, event: RollbackEnded, at: float) -> None:
    ledger = _ledger(state)
    ledger.active, ledger.status, ledger.current = False, event.status, None
    after_settling(state, state.top)


def left_alone(state: State, event: LeftAlone, at: float) -> None:
    state.unattended = True


def resumed(state: State) -> None:
    """A runner took the run over: the end of an undo that was under way was not seen."""
    ledger = _ledger(state)
    current = _current(ledger)
    if ledger.active and current is not None and current.outcome is None and current.due is None:
        current.cut = True
    if ledger.active and ledger.reason == "person":
        _stop(state, ledger)


def _ledger(state: State) -> Ledger:
    if state.ledger is None:
        state.ledger = Ledger()
    return state.ledger


def _current(ledger: Ledger) -> Owed | None:
    return None if ledger.current is None else ledger.owed[ledger.current]


def _position(ledger: Ledger) -> int:
    assert ledger.current is not None
    return ledger.current


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
