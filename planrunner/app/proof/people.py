"""What people decide in an imagined world, as the events that a decision leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.machine.events import TaskSettled
from planrunner.machine.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planrunner.machine.events import Event

Json = Any


def decided(state: State, number: int, decision: Json) -> Sequence[Event]:
    """The events of a decision about a task that waits: ``approve``, ``reject`` or ``expire``; None decides nothing."""
    if decision is None:
        return ()
    task = state.specs[number]
    word = decision if isinstance(decision, str) else str(decision.get("decision", "approve"))
    if word == "approve":
        return (TaskSettled(task.id, "completed", "approved"),)
    past = {"reject": "rejected", "expire": "expired"}.get(word, word)
    return (TaskSettled(task.id, "failed", past, f"{past} in the test", past),)
