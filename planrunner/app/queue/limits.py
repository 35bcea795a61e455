"""How much of a project runs at once: ``scheduler`` of its settings."""

from __future__ import annotations

import os
import time
from typing import Any

from planrunner.app.queue.items import Limits
from planrunner.app.queue.store import Store
from planrunner.app.runs.setup import has_settings
from planrunner.errors import PlanrunnerError
from planrunner.fileio import stamp_of
from planrunner.safety.project import FILE, read_data, read_settings

Json = Any


def limits_of(directory: str) -> Limits:
    """The limits that the settings of a project set. Raises as ``read_settings``."""
    if not has_settings(directory):
        return Limits()
    said: dict[str, Json] = read_settings(directory).data.get("scheduler") or {}
    if not said.get("enabled", True):
        return Limits(None, queued=False)
    rate = said.get("rate_limit") or {}
    return Limits(
        said.get("max_concurrency", Limits().concurrency),
        said.get("max_queue_size"),
        rate.get("requests_per_minute"),
        rate.get("burst"),
    )


class CurrentLimits:
    """The limits of a project as its file says now. While the file has a fault those before it hold; ``problem`` says
    what is wrong; ``has_triggers`` is whether runs start by themselves."""

    __slots__ = ("_file", "_limits", "_root", "_seen", "has_triggers", "problem")

    def __init__(self, root: str) -> None:
        self._root = root
        self._file = os.path.join(root, FILE)
        self._seen: tuple[int, ...] | None = None
        self._limits = Limits()
        self.problem = ""
        self.has_triggers = False

    def now(self) -> Limits:
        stamp = stamp_of(self._file)
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._limits, self.problem = limits_of(self._root), ""
                self.has_triggers = has_settings(self._root) and bool(read_data(self._root).get("triggers"))
            except PlanrunnerError as error:
                self.problem = error.message
        return self._limits


def allowance(limits: Limits, store: Store, now: float | None = None) -> tuple[int, float]:
    """How many runs may begin now by the limits on time, and the seconds until there may be more."""
    if limits.per_minute is None:
        return MANY, 60.0
    at = time.time() if now is None else now
    begun = store.begun_since(at - 60.0)
    burst = min(limits.burst or limits.per_minute, limits.per_minute)
    windows = ((limits.per_minute, 60.0), (burst, 60.0 * burst / limits.per_minute))
    left, wait = MANY, 0.0
    for most, seconds in windows:
        inside = [each for each in begun if each > at - seconds]
        left = min(left, most - len(inside))
        if len(inside) >= most:
            wait = max(wait, inside[len(inside) - most] + seconds - at)
    return max(left, 0), wait if left <= 0 else 60.0


MANY = 1_000_000
