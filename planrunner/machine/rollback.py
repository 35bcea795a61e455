"""Undoing what a run did: last-in first-out, one at a time, registered before each task starts.

A rollback begins when the plan says so after a failure, when an attempt of unknown end is settled that way, or when a
person asks. It is made of events like everything else, so that one cut off in the middle goes on: the undo that was
under way is issued again with its key, those that ended are never repeated.
"""

from __future__ import annotations

from planrunner.machine.commands import Record, Save, Start, Undo
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
from planrunner.machine.undoing import Debts, Owed
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
    debts = state.debts
    if debts is None:
        return []
    visit = state.tasks[number].visit
    return _in_order(debts, [at for at in debts.of.get(number, ()) if debts.owed[at].visit == visit])


def outstanding(state: State) -> list[int]:
    """The positions of everything that is owed and not undone, in the order of undoing."""
    debts = state.debts
    return [] if debts is None else _in_order(debts, range(len(debts.owed)))


def _in_order(debts: Debts, positions: Iterable[int]) -> list[int]:
    acted = [at for at in positions if debts.owed[at].attempt and debts.owed[at].fate != "undone"]
    return sorted(acted, key=lambda at: -debts.owed[at].rank)


def selected(state: State, positions: Iterable[int], names: Sequence[str]) -> list[int]:
    """Those of ``positions`` whose task, or one that holds it, has one of ``names`` as id, last part of it or label."""
    if not names:
        return list(positions)
    wanted = frozenset(names)
    assert state.debts is not None
    return [at for at in positions if not wanted.isdisjoint(_names(state, state.debts.owed[at].number))]


def _names(state: State, number: int) -> set[str]:
    found: set[str] = set()
    for around in _around(state, number):
        task = state.specs[around]
        found |= {task.id, task.id.rpartition("/")[2], *task.labels}
    return found


def bare(state: State) -> list[int]:
    """The tasks that may have changed something and do not say how that is undone, nor does one that holds them."""
    debts = state.debts
    of = debts.of if debts is not None else {}
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
    owed = state.debts.owed if state.debts is not None else []
    names = tuple(state.specs[owed[at].number].id for at in positions)
    return by._replace(tasks=names, owed=tuple(positions))


# Decisions


def comes_first(state: State) -> bool:
    """What stands under the plan's ``finally`` waits: something is undone before it."""
    return is_due(state) or bool(state.debts is not None and state.debts.active and state.debts.reason != "doubt")


def is_due(state: State) -> bool:
    """The main part of a plan with ``on_failure: rollback`` is settled and failed, and nothing of it is undone yet. A
    run that somebody cancelled is left as it is."""
    if state.plan.on_failure != "rollback" or not (state.failures or state.stop_reason in ("deadline", "budget")):
        return False
    debts = state.debts
    if debts is not None and (debts.active or (debts.status and debts.ranks <= debts.through)):
        return False
    return state.stop_reason in _GOES_ON and main_part_done(state, state.top)


def busy(state: State) -> bool:
    """An undo is under way, or waits for its next attempt."""
    debts = state.debts
    if debts is None or not debts.active:
        return False
    current = _current(debts)
    if current is None or current.cut:
        return False
    return current.due is None or state.stop_reason in _GOES_ON


def undoing(state: State, number: int, by: str = "") -> RollbackStarted | None:
    """The rollback that settles an attempt of unknown end; None where nothing says how the task is undone."""
    positions = mine(state, number)
    return started(state, RollbackStarted("doubt", (), (), by=by), positions) if positions else None


def step(state: State, now: float) -> list[Command]:
    """What follows for the rollback of a run; nothing while an undo is under way or none is called for."""
    debts = state.debts
    if debts is None or not debts.active:
        return [_by_failure(state)] if is_due(state) else []
    current = _current(debts)
    if state.stop_reason not in _GOES_ON:
        given_up = state.stop_reason in FINAL_STOPS and (current is None or current.cut)
        return [Record(RollbackEnded("rollback_failed"))] if given_up else []
    if current is None:
        return _next(state, debts, now)
    if current.cut:
        assert debts.current is not None
        return [Undo(debts.current, current.last, current.reissues + 1)]
    if current.due is not None:
        return [_undo(debts, _position(debts))] if current.due <= now else []
    return [] if current.outcome is None else [_after(state, debts, current, now)]


def _by_failure(state: State) -> Record:
    policy = state.plan.rollback or RollbackPolicy()
    positions = selected(state, outstanding(state), policy.only) if state.debts is not None else []
    event = RollbackStarted("failure", (), (), policy.mode == "strict")
    if not policy.only:
        event = event._replace(bare=tuple(state.specs[number].id for number in bare(state)))
    return Record(started(state, event, positions))


def _next(state: State, debts: Debts, now: float) -> list[Command]:
    for number, positions in debts.doubts.items():
        waits = state.tasks[number].status == "in_doubt" and state.tasks[number].reason == "rollback"
        if waits and not any(at in debts.todo for at in positions):
            return [_settle_doubt(state, debts, number, positions)]
    if not debts.todo:
        failed = any(debts.owed[at].fate != "undone" for at in debts.done)
        return [Record(RollbackEnded("rollback_failed" if failed else "rolled_back"))]
    if why := _given_up(state, debts, now):
        owed = debts.owed[debts.todo[0]]
        return [Record(UndoSettled(state.specs[owed.number].id, debts.todo[0], "left", why))]
    return [_undo(debts, debts.todo[0])]


def _given_up(state: State, debts: Debts, now: float) -> str:
    if debts.strict and (failed := [at for at in debts.done if debts.owed[at].fate == "failed"]):
        task = state.specs[debts.owed[failed[0]].number].id
        return f"not tried: `{task}` could not be undone and the rollback is strict"
    left = reserve(state, now)
    return "not tried: the time reserved for the rollback is used up" if left is not None and left <= 0 else ""


def reserve(state: State, now: float) -> float | None:
    """Seconds that the rollback going on has left of its own budget; None where it has no limit. The budget of the run
    is none of its business."""
    policy, debts = state.plan.rollback, state.debts
    if policy is None or policy.budgets.time is None or debts is None:
        return None
    return policy.budgets.time - (now - debts.began)


def _undo(debts: Debts, position: int) -> Undo:
    return Undo(position, debts.counts.get(debts.owed[position].number, 0) + 1)


def _after(state: State, debts: Debts, owed: Owed, now: float) -> Record:
    """The end of an attempt to undo: undone, tried again, or given up."""
    task, position = state.specs[owed.number], _position(debts)
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


def _settle_doubt(state: State, debts: Debts, number: int, positions: tuple[int, ...]) -> Record:
    task, found = state.specs[number], state.tasks[number]
    if all(debts.owed[at].fate == "undone" for at in positions):
        detail = f"attempt {found.attempts} was cut off, and what it may have done is undone"
        return Record(TaskSettled(task.id, "failed", "doubt", detail, "doubt"))
    why = next(debts.owed[at].detail for at in positions if debts.owed[at].fate != "undone")
    detail = f"attempt {found.attempts} was cut off, and what it may have done could not be undone: {why}"
    return Record(TaskSettled(task.id, "in_doubt", "ask", detail))


# Folds


def register(state: State, event: AttemptStarted) -> None:
    """From the intent of an attempt on its task has to be undone, whatever becomes of it."""
    number = state.index[event.task]
    visit = state.tasks[number].visit
    debts = _debts(state)
    for position in debts.of.get(number, ()):
        owed = debts.owed[position]
        if owed.visit == visit:
            owed.attempt = event.attempt
            if owed.kind == "action":
                debts.rank(owed)
                return
    if state.specs[number].rollback is not None:
        owed = Owed("action", number, visit)
        owed.attempt = event.attempt
        debts.add(owed)


def backup_asked(state: State, event: BackupAsked, at: float) -> None:
    state.asked.add(state.index[event.task])


def backup_made(state: State, event: BackupMade, at: float) -> None:
    number = state.index[event.task]
    state.asked.discard(number)
    state.candidates[number] = None
    debts = _debts(state)
    if event.problem:
        debts.problems[number] = event.problem
        return
    owed = Owed("files", number, event.visit)
    owed.files, owed.patterns = event.files, event.patterns
    debts.add(owed)


def saved_first(state: State, commands: Sequence[Command]) -> list[Command]:
    """The commands, with what has to be saved in place of each start that comes after it."""
    found: list[Command] = []
    for command in commands:
        if not isinstance(command, Start) or not state.specs[command.number].backup:
            found.append(command)
        elif command.number not in state.asked:
            found.append(_unsaved(state, command.number) or command)
    return found


def _unsaved(state: State, number: int) -> Save | Record | None:
    """What comes before the start of a task that names files to save; None once they are saved."""
    task, found = state.specs[number], state.tasks[number]
    if found.uncertain or is_saved(state, number):
        return None
    problem = state.debts.problems.get(number) if state.debts is not None else None
    if problem is None:
        return Save(number)
    detail = f"not started, since its files could not be saved: {problem}"
    return Record(TaskSettled(task.id, "failed", "backup", detail, "policy"))


def is_saved(state: State, number: int) -> bool:
    """Whether files were saved already for the visit that a task is in."""
    debts, visit = state.debts, state.tasks[number].visit
    if debts is None:
        return False
    return any((debts.owed[at].kind, debts.owed[at].visit) == ("files", visit) for at in debts.of.get(number, ()))


def keep_outputs(state: State, number: int) -> None:
    """A task begins anew: what its visit gave is kept for undoing it."""
    found = state.tasks[number]
    _debts(state).problems.pop(number, None)
    for position in _debts(state).of.get(number, ()):
        owed = _debts(state).owed[position]
        if owed.visit == found.visit:
            owed.outputs = found.outputs


def rollback_started(state: State, event: RollbackStarted, at: float) -> None:
    debts = _debts(state)
    if not debts.active:
        debts.began, debts.status = at, ""
        debts.reason, debts.strict, debts.by, debts.comment = event.reason, event.strict, event.by, event.comment
        debts.todo, debts.done, debts.doubts, debts.active = [], {}, {}, True
        debts.bare = event.bare
    elif event.reason != "doubt":
        debts.reason, debts.strict, debts.by = event.reason, event.strict, event.by
    if event.reason != "doubt":
        debts.through = debts.ranks
    for position in event.owed:
        if position not in debts.todo:
            debts.todo.append(position)
            owed = debts.owed[position]
            owed.fate, owed.detail, owed.tries = "", "", 0
    if event.reason == "doubt":
        number = state.index[event.tasks[0]]
        debts.doubts[number] = event.owed
        _hold_in_doubt(state, number)
    elif event.reason == "person":
        _stop(state, debts)


def _hold_in_doubt(state: State, number: int) -> None:
    found = state.tasks[number]
    free_slot(state, number)
    move(state, number, found, "in_doubt")
    found.reason, found.detail = "rollback", f"attempt {found.attempts} was cut off; what it may have done is undone"
    state.candidates.pop(number, None)


def _stop(state: State, debts: Debts) -> None:
    """A person rolls the run back: nothing else starts any more."""
    state.stop_reason, state.stop_by, state.stop_comment = "rollback", debts.by, debts.comment
    for number, found in enumerate(state.tasks):
        if found.status not in SETTLED:
            state.candidates[number] = None


def undo_started(state: State, event: UndoStarted, at: float) -> None:
    debts = _debts(state)
    owed = debts.owed[event.owed]
    drop_timer(state, owed.number, state.tasks[owed.number])
    debts.current = event.owed
    debts.counts[owed.number] = max(event.attempt, debts.counts.get(owed.number, 0))
    owed.tries += not event.reissue
    owed.last, owed.reissues = event.attempt, event.reissue
    owed.cut, owed.outcome, owed.due = False, None, None
    if owed.tries == 1 and not event.reissue:
        owed.began = at


def undo_ended(state: State, event: UndoEnded, at: float) -> None:
    debts = _debts(state)
    owed = _current(debts)
    if owed is None or owed.last != event.attempt or state.specs[owed.number].id != event.task:
        raise IllegalMove(f"attempt {event.attempt} to undo task `{event.task}` ended without having started")
    owed.cut = event.outcome.failure in CUT_OFF
    owed.outcome = None if owed.cut else event.outcome
    owed.ended = at


def undo_scheduled(state: State, event: UndoScheduled, at: float) -> None:
    owed = _current(_debts(state))
    assert owed is not None
    owed.outcome, owed.due = None, event.due
    set_timer(state, owed.number, event.due)


def undo_settled(state: State, event: UndoSettled, at: float) -> None:
    debts = _debts(state)
    owed = debts.owed[event.owed]
    owed.fate, owed.detail, owed.outcome, owed.ended = event.status, event.detail, None, at
    debts.current = None
    debts.todo.remove(event.owed)
    debts.done[event.owed] = None
    _mark(state, debts, owed)


def _mark(state: State, debts: Debts, owed: Owed) -> None:
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
    debts = _debts(state)
    debts.active, debts.status, debts.current = False, event.status, None
    after_settling(state, state.top)


def left_alone(state: State, event: LeftAlone, at: float) -> None:
    state.unattended = True


def resumed(state: State) -> None:
    """A runner took the run over: the end of an undo that was under way was not seen."""
    debts = _debts(state)
    current = _current(debts)
    if debts.active and current is not None and current.outcome is None and current.due is None:
        current.cut = True
    if debts.active and debts.reason == "person":
        _stop(state, debts)


def _debts(state: State) -> Debts:
    if state.debts is None:
        state.debts = Debts()
    return state.debts


def _current(debts: Debts) -> Owed | None:
    return None if debts.current is None else debts.owed[debts.current]


def _position(debts: Debts) -> int:
    assert debts.current is not None
    return debts.current


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
