"""How much of a project runs at once: ``scheduler`` of its settings."""

from __future__ import annotations

from typing import Any

from planrunner.app.queue.items import Limits
from planrunner.app.runs.setup import has_settings
from planrunner.safety.project import read_settings

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
        said.get("max_concurrency", 1),
        said.get("max_queue_size"),
        rate.get("requests_per_minute"),
        rate.get("burst"),
    )
