"""Time in the state: one wheel of entries (at, kind, task) says when a run is to be looked at though nothing happens.

Entries are set and dropped when events are folded; ``decide`` reads those that are due, and when the next one is. A
task that waits for a retry, a delay, a breaker, the expiry of its gate or the end of the time it has as a whole has one
entry ``LOOK``: the last one set counts. The timebox, the deadline and each step of the watchdog have one of their own.

Two times are computed instead, since they move with every second in which no process acts on the run: the end of the
run, by its budget of time or its deadline, and the warning before that; as entries they would have to be renewed with
every event that starts or stops the clock of the run. The budgets of time of tasks (``TimeMeter``) stand still more
rarely, so each sets the entry of its task.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping

from planrunner.records import Mutable

LOOK, DEADLINE, TIMEBOX = -3, -2, -1
"""Kinds of entries: a task is looked at again; its deadline; the end of its timebox. Others are numbers of steps of a
watchdog."""

Timer = tuple[float, int, int]
"""When, what kind of entry, and the number of the task."""


class Wheel(Mutable):
    """``entries`` in the order of their times; ``times`` are the same by task and kind."""

    entries: list[Timer] = []
    times: dict[int, dict[int, float]] = {}

    def set(self, at: float, number: int, kind: int = LOOK) -> None:
        """Set the entry of a task, in place of one of the same kind."""
        self.drop(number, kind)
        self.times.setdefault(number, {})[kind] = at
        insort(self.entries, (at, kind, number))

    def drop(self, number: int, kind: int = LOOK) -> None:
        times = self.times.get(number)
        if times is not None and kind in times:
            del self.entries[bisect_left(self.entries, (times.pop(kind), kind, number))]
            if not times:
                del self.times[number]

    def drop_alarms(self, number: int) -> None:
        """Drop every entry of a task but the one at which it is looked at again."""
        for kind in [kind for kind in self.times.get(number, ()) if kind != LOOK]:
            self.drop(number, kind)

    def due(self, number: int) -> float | None:
        """When a task is looked at again; None while nothing says so."""
        times = self.times.get(number)
        return None if times is None else times.get(LOOK)

    def waiting(self) -> Iterator[int]:
        """The tasks that are looked at again, the first one first."""
        return (number for _, kind, number in self.entries if kind == LOOK)

    def renumber(self, to: Mapping[int, int]) -> None:
        """Give tasks other numbers; entries of those that get none are dropped."""
        self.entries = sorted((at, kind, to[number]) for at, kind, number in self.entries if number in to)
        self.times = {to[number]: times for number, times in self.times.items() if number in to}


class TimeMeter(Mutable):
    """``left`` are the seconds that were left when the time last began to count, at ``since`` (None: it stands still);
    ``due`` is when the task ends in any case, on the time line of the run."""

    left: float
    since: float | None
    due: float | None
    paused: float = 0.0
    """When it was paused last."""


class Alarms(Mutable):
    """What alarms come to: ``begun`` is when each task with a timebox first started, with its visit; ``stopping`` are
    attempts that have to end, with the class of failure and the sentence they end with; ``asked`` are running tasks
    that a watchdog has asked people about: the seconds of the attempt, and when it asked."""

    begun: dict[int, tuple[int, float]] = {}
    asked: dict[int, tuple[float, float]] = {}
    stopping: dict[int, tuple[str, str]] = {}
