"""How a project stands this moment, in gauges: runs by status, what people are asked, timers, the queue."""

from __future__ import annotations

import time
from collections.abc import Mapping

from planrunner.app.follow.measures import Labels
from planrunner.app.follow.summaries import STATUSES, Summaries
from planrunner.records import Struct

Gauges = dict[str, tuple[str, list[tuple[Labels, float]]]]
"""Name → what it says, and its values by labels."""


class Standing(Struct):
    """``runs`` by status; ``gates`` that wait for people and the seconds since the oldest was put; ``timers`` that runs
    wait for and the seconds until the first is due (negative: it is overdue). ``queue`` has items by state."""

    runs: Mapping[str, int]
    gates: int
    oldest: float
    timers: int
    first: float
    queue: Mapping[str, int]

    def gauges(self) -> Gauges:
        """What exporters send."""
        gauges: Gauges = {
            "runs": ("Runs by status.", [_labelled("status", name, self.runs.get(name, 0)) for name in STATUSES]),
            "gates_waiting": ("Questions that wait for people.", [((), float(self.gates))]),
            "gate_oldest_seconds": ("Seconds since the oldest question that waits was put.", [((), self.oldest)]),
            "timers_waiting": ("Runs that wait for a time.", [((), float(self.timers))]),
            "timer_first_seconds": ("Seconds until the first timer is due.", [((), self.first)]),
        }
        if self.queue:
            items = [_labelled("state", name, count) for name, count in sorted(self.queue.items())]
            gauges["queue_items"] = ("Items of the queue by state.", items)
        return gauges


def _labelled(label: str, value: str, count: int) -> tuple[Labels, float]:
    return ((label, value),), float(count)


def standing_of(summaries: Summaries, queue: Mapping[str, int]) -> Standing:
    """How a project stands by the summaries of its runs."""
    now, going = time.time(), summaries.going()
    since = [asked.since for each in going for asked in each.questions if asked.since is not None]
    due = [each.due for each in going if each.due is not None]
    return Standing(
        runs=summaries.counts(),
        gates=sum(len(each.questions) for each in going),
        oldest=max(0.0, now - min(since)) if since else 0.0,
        timers=len(due),
        first=min(due) - now if due else 0.0,
        queue=queue,
    )
