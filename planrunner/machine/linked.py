"""Linked plans that are undone when they fail: when that begins, and what the task that links such a plan ends as.

Such a plan is undone before its own ``finally`` and before the attempt of the task that links it ends, so that another
attempt, a handler or the plan around it finds nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.machine.commands import Record
from planrunner.machine.events import RollbackStarted
from planrunner.machine.owing import bare, inside, selected, started
from planrunner.machine.statuses import OUT_OF_BUDGET
from planrunner.machine.stops import GOES_ON, closed, cut
from planrunner.machine.undoing import Rollback
from planrunner.plan.model import RollbackPolicy

if TYPE_CHECKING:
    from planrunner.machine.frame import Frame
    from planrunner.machine.state import State


_NAMED = 3
"""Tasks that a sentence names."""


def is_due(state: State, frame: Frame, failure: str) -> bool:
    """Whether a linked plan whose main part came to ``failure`` is undone now, or once the run goes on. What somebody
    cancelled is left as it is; what was cut off since something around it failed is undone."""
    if not failure or state.stop_reason in ("rollback", "cancelled", "killed"):
        return False
    if failure == "cancelled" and not _cut_off(state, frame.owner):
        return False
    positions, naked = _chosen(state, frame)
    return bool(positions or naked)


def _cut_off(state: State, number: int) -> bool:
    around = closed(state, number) in ("timeout", "budget") or state.stop_reason in OUT_OF_BUDGET
    return around or cut(state, number) is not None


def _chosen(state: State, frame: Frame) -> tuple[list[int], list[int]]:
    """The positions to undo, and the tasks that do not say how they are undone."""
    only = _policy(frame).only
    positions = inside(state, frame.owner)
    return (selected(state, positions, only), []) if only else (positions, bare(state, frame.owner))


def _policy(frame: Frame) -> RollbackPolicy:
    assert frame.linked is not None, "only a linked plan has a policy of its own"
    return frame.linked.rollback or RollbackPolicy()


def begin_undoing(state: State, number: int, failure: str, message: str) -> Record | None:
    """The beginning of the rollback of a linked plan that failed; None while it goes on, or the run rests."""
    frame = state.tasks[number].inner
    assert frame is not None
    if frame.undoing is not None or state.stop_reason not in GOES_ON:
        return None
    positions, naked = _chosen(state, frame)
    names = tuple(state.specs[other].id for other in naked)
    strict, within = _policy(frame).mode == "strict", state.specs[number].id
    event = RollbackStarted("failure", (), (), strict, "", "", names, within, failure, message)
    return Record(started(state, event, positions))


def came_to(state: State, rollback: Rollback) -> tuple[str, str]:
    """Failure class and sentence for a linked plan that was undone, with what could not be."""
    debts = state.debts
    assert debts is not None
    left = [debts.owed[at] for at in (*rollback.done, *rollback.todo) if debts.owed[at].fate != "undone"]
    said = [f"`{state.specs[owed.number].id}` ({owed.detail or 'not tried'})" for owed in left]
    said += [f"`{name}` (it does not say how)" for name in rollback.bare]
    undone = sum(debts.owed[at].fate == "undone" for at in rollback.done)
    done = f"; {undone} {'step was' if undone == 1 else 'steps were'} undone" if undone else ""
    if not said:
        return rollback.failure, f"{rollback.message}{done}"
    more = f" and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    again = ""
    if unclean(rollback) and state.specs[rollback.owner].retry.attempts > 1:
        again = "; not tried again, since its rollback is strict"
    return rollback.failure, f"{rollback.message}{done}; not undone: {', '.join(said[:_NAMED])}{more}{again}"


def unclean(rollback: Rollback) -> bool:
    """Whether a strict rollback left something behind, so that nothing may begin from there."""
    return rollback.strict and rollback.status != "rolled_back"
