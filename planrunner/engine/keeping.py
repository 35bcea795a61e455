"""Whether a task that begins anew would be called as it was: its call is rendered and compared by digest."""

from __future__ import annotations

from planrunner.engine.calls import Place, prepare
from planrunner.machine.commands import Start
from planrunner.machine.events import TaskSettled
from planrunner.machine.state import State


def kept(state: State, number: int, place: Place) -> TaskSettled | None:
    """The event with which a task keeps its result; None where it has to run. Nothing is reserved, and no slot is
    needed."""
    before, found = state.tasks[number].kept, state.tasks[number]
    assert before is not None
    prepared = prepare(state, Start(number, found.attempts + 1), place)
    if prepared.call is None or prepared.intent.inputs != before.inputs:
        return None
    then = f"in attempt {found.attempts}" if before.number == number else f"`{state.specs[before.number].id}` was"
    return TaskSettled(prepared.intent.task, "completed", "reused", f"kept: it would be called as {then}")
