"""A list of runs, as data and as text, and the words and times of one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from planrunner.plan.expressions.quantities import duration_text
from planrunner.records import Struct
from planrunner.views.terminal import Terminal, table

Json = Any


class RunSummary(Struct):
    """A run as lists show it. Times are seconds since 1970; ``status`` is never a stored ``running``: that is asked of
    the kernel."""

    run: str
    plan_id: str
    revision: str
    status: str
    reason: str
    created: float
    ended: float | None


def listed_object(run: RunSummary) -> dict[str, Json]:
    """A run of the list, with the names that its own object has."""
    return {
        "run_id": run.run,
        "plan": run.plan_id,
        "revision": run.revision,
        "status": run.status,
        "reason": run.reason,
        "started": rfc3339(run.created),
        "ended": rfc3339(run.ended),
        "duration": lasted(run.created, run.ended),
    }


def run_lines(screen: Terminal, runs: Iterable[RunSummary]) -> list[str]:
    """The table of a list."""
    rows = [
        (
            run.run,
            run.plan_id,
            f"{screen.sign(run.status)} {run_words(run.status, run.reason)}",
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.created)),
            duration_text(run.ended - run.created) if run.ended is not None else "",
        )
        for run in runs
    ]
    return table(screen, ("RUN", "PLAN", "STATUS", "STARTED", "TOOK"), rows)


def because(status: str, reason: str) -> str:
    """``" (budget)"`` behind the status of a run, where its reason says more than that."""
    return f" ({reason})" if reason not in ("", status) and status != "completed" else ""


def run_words(status: str, reason: str) -> str:
    """How a run stands, for people: ``rolled back``, ``failed (budget)``."""
    undone = (status, reason) == ("cancelled", "rolled_back")
    return "rolled back" if undone else f"{status}{because(status, reason)}"


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
