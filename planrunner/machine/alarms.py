"""Times at which somebody looks after an attempt that goes on: kept apart from the timers of tasks that wait."""

from __future__ import annotations

from bisect import bisect_left, insort

TIMEBOX = -1
"""The step of an alarm that ends a timebox; others are numbers of steps of a watchdog."""


DEADLINE = -2
"""The step of an alarm at the deadline of a task."""


class Alarms:
    """``due`` are (time, task, step) in their order; ``begun`` is when each task with a timebox first started, with its
    visit; ``stopping`` are attempts that have to end, with the class of failure and the sentence they end with;
    ``asked`` are running tasks that a watchdog has asked people about: the seconds of the attempt, and when it
    asked."""

    __slots__ = ("asked", "begun", "due", "stopping")

    def __init__(self) -> None:
        self.due: list[tuple[float, int, int]] = []
        self.begun: dict[int, tuple[int, float]] = {}
        self.asked: dict[int, tuple[float, float]] = {}
        self.stopping: dict[int, tuple[str, str]] = {}

    def set(self, at: float, number: int, step: int) -> None:
        insort(self.due, (at, number, step))

    def drop(self, number: int, step: int | None = None) -> None:
        """Forget the alarms of a task, or the one of a step."""
        self.due = [each for each in self.due if each[1] != number or step not in (None, each[2])]

    def before(self, now: float) -> list[tuple[float, int, int]]:
        """Those that are due, the first one first."""
        return self.due[: bisect_left(self.due, (now, 1 << 60))]
