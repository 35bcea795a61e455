"""Points in time and spans of it as programs read them."""

from __future__ import annotations

import time


def rfc3339(at: float | None) -> str | None:
    """Seconds since 1970 as ``2026-11-23T13:09:01.825Z``; None stays None."""
    if at is None:
        return None
    milliseconds = int(at * 1000)
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000))
    return f"{whole}.{milliseconds % 1000:03d}Z"


def lasted(started: float | None, ended: float | None) -> float | None:
    """Seconds between two points in time; None where one of them is not known."""
    return None if started is None or ended is None else round(max(0.0, ended - started), 3)
