"""Whose child an orphan is that shed every mark: told by when it was born and which attempts lived then."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable

from planrunner.engine.clocks import uptime

_KEPT = 4096
"""Lives of attempts that ended well and are remembered."""
_SLACK = 0.03
"""Seconds: the kernel keeps births in hundredths."""


class Descent:
    """Remembers when attempts lived that ended by themselves: what they left behind was left on purpose."""

    __slots__ = ("_forgotten", "_lives")

    def __init__(self) -> None:
        self._lives: deque[tuple[float, float]] = deque()
        self._forgotten = 0.0

    def ended_well(self, began: float) -> None:
        """An attempt that began at the uptime ``began`` ends now, not by force."""
        if len(self._lives) == _KEPT:
            self._forgotten = max(self._forgotten, self._lives.popleft()[1])
        self._lives.append((began, uptime()))

    def is_doomed(self, pid: int, going_on: Iterable[float]) -> bool:
        """Whether only attempts that were ended by force can have started the process; ``going_on`` are the uptimes at
        which those began that go on."""
        born = birth(pid)
        if born is None or born <= self._forgotten + _SLACK:
            return False
        if any(began <= born + _SLACK for began in going_on):
            return False
        return not any(began <= born + _SLACK and born <= ended + _SLACK for began, ended in self._lives)


def birth(pid: int) -> float | None:
    """The uptime in seconds at which a process was started; None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
        return int(text[text.rfind(b")") + 2 :].split()[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
