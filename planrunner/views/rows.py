"""The tasks of a run as lines of a picture: which of them, how deep, and under what name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from planrunner.views.outline import outlined

if TYPE_CHECKING:
    from planrunner.machine.frame import Frame
    from planrunner.machine.state import State, TaskState


WHOLE = 60
"""A run of up to that many tasks is shown whole; in a larger one, completed and untouched tasks are only counted."""

DULL = frozenset({"completed", "pending", "omitted", "skipped"})
TROUBLE = ("failed", "in_doubt", "blocked")


class Row(NamedTuple):
    """A line: a task by its number, how deep it stands and what it is called there; or a line of text (-1) with a
    status."""

    level: int
    task: int
    name: str
    status: str = ""


def is_idle(found: TaskState) -> bool:
    """Whether a failure, a stop or an edge kept a task from starting; a person who cancels a task gives another
    reason."""
    if found.attempts:
        return False
    return found.status == "omitted" or (found.status == "cancelled" and found.reason == "stopped")


def hidden(dull: int, idle: int = 0) -> list[Row]:
    """Lines for what is not listed: ``dull`` tasks with nothing to show, and ``idle`` ones that did not start."""
    rows = [Row(0, -1, f"  {idle:,} not started")] if idle else []
    return rows + ([Row(0, -1, f"  {dull:,} uneventful {'task' if dull == 1 else 'tasks'} hidden")] if dull else [])


def level_tasks(state: State, frame: Frame) -> list[int]:
    """The tasks of one frame by their numbers in the run, each after those it needs. They stand on one level: only what
    a task holds is indented."""
    first, shape = frame.first, state.shape
    numbers = range(first, first + frame.size)
    if frame.kind == "items":
        return list(numbers)
    needs = [[need - first for need in shape.needs[number]] for number in numbers]
    routed: Sequence[Sequence[int]] = [
        [route.source - first for route in shape.routes_in.get(number, ())] for number in numbers
    ]
    return [line.task + first for line in outlined(needs, routed)]
