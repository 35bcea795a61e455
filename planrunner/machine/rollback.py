"""Undoing what a run did: last-in first-out, one at a time, registered before each task starts.

A rollback begins when the plan says so after a failure, when an attempt of unknown end is settled that way, or when a
person asks. It is made of events like everything else, so that one cut off in the middle goes on: the undo that was
under way is issued again with its key, those that ended are never repeated.
"""

from __future__ import annotations

from planrunner.machine.commands import Record, Start
from planrunner.machine.events import RollbackEnded, RollbackStarted, TaskSettled, UndoScheduled, UndoSettled
from planrunner.machine.moves import main_part_done
from planrunner.machine.owing import bare, current, is_saved, mine, outstanding, position, selected, started
from planrunner.machine.rare_commands import Save, Undo
from planrunner.machine.statuses import FINAL_STOPS
from planrunner.machine.undoing import Debts, Owed
from planrunner.plan.model import Retry, RollbackPolicy
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planrunner.machine.commands import Command
    from planrunner.machine.state import State

_GOES_ON = ("", "deadline", "rollback", "budget")
"""Reasons for a stop that do not keep a rollback from going on."""


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
    doing = current(debts)
    if doing is None or doing.cut:
        return False
    return doing.due is None or state.stop_reason in _GOES_ON


def undoing(state: State, number: int, by: str = "") -> RollbackStarted | None:
    """The rollback that settles an attempt of unknown end; None where nothing says how the task is undone."""
    positions = mine(state, number)
    return started(state, RollbackStarted("doubt", (), (), by=by), positions) if positions else None


def step(state: State, now: float) -> list[Command]:
    """What follows for the rollback of a run; nothing while an undo is under way or none is called for."""
    debts = state.debts
    if debts is None or not debts.active:
        return [_by_failure(state)] if is_due(state) else []
    doing = current(debts)
    if state.stop_reason not in _GOES_ON:
        given_up = state.stop_reason in FINAL_STOPS and (doing is None or doing.cut)
        return [Record(RollbackEnded("rollback_failed"))] if given_up else []
    if doing is None:
        return _next(state, debts, now)
    if doing.cut:
        assert debts.current is not None
        return [Undo(debts.current, doing.last, doing.reissues + 1)]
    if doing.due is not None:
        return [_undo(debts, position(debts))] if doing.due <= now else []
    return [] if doing.outcome is None else [_after(state, debts, doing, now)]


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


def _undo(debts: Debts, at: int) -> Undo:
    return Undo(at, debts.counts.get(debts.owed[at].number, 0) + 1)


def _after(state: State, debts: Debts, owed: Owed, now: float) -> Record:
    """The end of an attempt to undo: undone, tried again, or given up."""
    task, at = state.specs[owed.number], position(debts)
    outcome = owed.outcome
    assert outcome is not None
    if not outcome.failure:
        return Record(UndoSettled(task.id, at, "undone"))
    from planrunner.machine.retry import again, delay  # late: most undo what they should at once

    retry = task.rollback.retry if task.rollback is not None and owed.kind == "action" else Retry()
    left = reserve(state, now)
    if again(retry, owed.tries, outcome.failure) and (left is None or left > 0):
        due = now + delay(retry, owed.tries, f"{state.seed}:{task.id}:undo:{owed.last}")
        return Record(UndoScheduled(task.id, owed.last, due, outcome.failure))
    return Record(UndoSettled(task.id, at, "failed", f"{outcome.failure}: {outcome.message}"))


def _settle_doubt(state: State, debts: Debts, number: int, positions: tuple[int, ...]) -> Record:
    task, found = state.specs[number], state.tasks[number]
    if all(debts.owed[at].fate == "undone" for at in positions):
        detail = f"attempt {found.attempts} was cut off, and what it may have done is undone"
        return Record(TaskSettled(task.id, "failed", "doubt", detail, "doubt"))
    why = next(debts.owed[at].detail for at in positions if debts.owed[at].fate != "undone")
    detail = f"attempt {found.attempts} was cut off, and what it may have done could not be undone: {why}"
    return Record(TaskSettled(task.id, "in_doubt", "ask", detail))


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
