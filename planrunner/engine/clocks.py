"""The time line of a run: seconds since 1970 that go on evenly, whatever becomes of the clock on the wall.

Inside one boot the time since it began is the measure, the sleep of the machine included; the wall clock is asked only
at the start of a run and after a reboot, and never takes the line back.
"""

from __future__ import annotations

import os
import time
from typing import Any

from planrunner.machine.events import Entry, RunResumed, RunStarted

Json = Any

_EVEN = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def uptime() -> float:
    """Seconds since the machine was started, those in which it slept included."""
    return time.clock_gettime(_EVEN)


def boot() -> dict[str, Json]:
    """What RunStarted and RunResumed keep: ``uptime``, and the ``id`` of this boot, empty where the system has none."""
    found = uptime()
    try:
        file = os.open(_BOOT_ID, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return {"id": "", "uptime": found}
    try:
        return {"id": os.read(file, 64).decode().strip(), "uptime": found}
    finally:
        os.close(file)


class Clock:
    """A time line that stands at ``at`` (seconds since 1970) when the machine has been up for ``up`` seconds."""

    __slots__ = ("_zero",)

    def __init__(self, at: float, up: float | None = None) -> None:
        self._zero = at - (uptime() if up is None else up)

    def now(self) -> float:
        return self._zero + time.clock_gettime(_EVEN)


class TimeLine:
    """Where the time line of a stored run stands: shown every entry in order, it gives the clock to go on with."""

    __slots__ = ("_at", "_boot", "last")

    def __init__(self) -> None:
        self.last = 0.0
        """Time of the last entry."""
        self._at = 0.0
        self._boot: dict[str, Json] = {}

    def see(self, entry: Entry) -> None:
        self.last = entry.at
        event = entry.event
        if isinstance(event, (RunStarted, RunResumed)):
            self._at, self._boot = entry.at, event.boot

    def clock(self, here: dict[str, Json]) -> Clock:
        """The clock that continues the line; ``here`` is what ``boot`` gives now. In the same boot the line goes on as
        if nothing had happened; after another one, by the wall clock. It never goes back behind the last entry, so no
        wait that is left gets longer than it was."""
        up = float(here["uptime"])
        known = self._boot.get("uptime")
        same = bool(here["id"]) and self._boot.get("id") == here["id"] and type(known) in (int, float)
        now = self._at + up - float(known or 0) if same else time.time()
        return Clock(max(now, self.last), up)
