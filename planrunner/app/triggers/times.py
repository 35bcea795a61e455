"""The times of a time table, in its time zone: over changes of the clock each once, none twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from planrunner.errors import UsageError, missing_extra
from planrunner.safety.timetables import cron_fault
from planrunner.safety.triggers import Trigger

try:
    from cronsim import CronSim, CronSimError
except ImportError as error:
    raise missing_extra("triggers need", "serve", error) from None

GRACE = 60.0
"""Seconds by which a time may be late without having been missed."""
MOST = 1000
"""Missed times that are made up for at once."""


def times_after(trigger: Trigger, after: float) -> Iterator[float]:
    """When a trigger is due after a time, without an end; seconds since 1970. A time that the clock jumps over in
    spring is due right after the jump; one that it passes twice in autumn is due once, unless the hour is ``*``. Raises
    UsageError for a time table that never comes true."""
    if wrong := cron_fault(trigger.cron):
        raise UsageError(f"the trigger `{trigger.name}`: {wrong}")
    try:
        zone = ZoneInfo(trigger.timezone)
        for each in CronSim(trigger.cron, datetime.fromtimestamp(after, UTC).astimezone(zone)):
            if (at := each.timestamp()) > after:
                yield at
    except (CronSimError, OSError, ValueError, KeyError) as error:
        raise UsageError(f"the trigger `{trigger.name}`: `{trigger.cron}` in {trigger.timezone}: {error}") from None


def next_times(trigger: Trigger, after: float, count: int) -> list[float]:
    """The next times, ``count`` at most. Raises as ``times_after``."""
    return list(islice(times_after(trigger, after), count))


def due_times(trigger: Trigger, since: float, now: float) -> list[float]:
    """The times after ``since`` up to ``now`` at which runs start now: those that are on time, and of those that were
    missed what the trigger says. Raises as ``times_after``."""
    passed = list(islice(takewhile(lambda at: at <= now, times_after(trigger, since)), MOST))
    if trigger.missed == "all":
        return passed
    on_time = [at for at in passed if now - at <= GRACE]
    if trigger.missed == "skip" or on_time:
        return on_time
    return passed[-1:]
