"""How the page shows a status: its colour, its icon and its word, the same in every list, graph and verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple


class Sign(NamedTuple):
    """``state`` is the value of ``data-s`` (which gives the colour), ``icon`` the symbol ``i-ICON``, ``word`` what
    stands beside it: colour alone never says anything."""

    state: str
    icon: str
    word: str


_UNKNOWN = Sign("off", "off", "Unknown")

RUNS: dict[str, Sign] = {
    "queued": Sign("wait", "wait", "Queued"),
    "pending": Sign("todo", "todo", "Not started"),
    "running": Sign("run", "run", "Running"),
    "blocked": Sign("gate", "gate", "Waiting"),
    "paused": Sign("wait", "pause", "Paused"),
    "completed": Sign("ok", "ok", "Succeeded"),
    "failed": Sign("bad", "bad", "Failed"),
    "cancelled": Sign("off", "cancelled", "Cancelled"),
    "rolled_back": Sign("undone", "undone", "Rolled back"),
}
"""By the status of a run."""

REASONS: dict[tuple[str, str], Sign] = {
    ("paused", "cut off"): Sign("doubt", "doubt", "Interrupted"),
    ("paused", "timer"): Sign("wait", "wait", "Waiting for a time"),
    ("blocked", "decided"): Sign("wait", "play", "Decided"),
    ("cancelled", "rolled_back"): RUNS["rolled_back"],
}
"""By status and reason of a run, where the reason makes a difference."""

TASKS: dict[str, Sign] = {
    "pending": Sign("todo", "todo", "Not started"),
    "queued": Sign("todo", "wait", "Queued"),
    "running": Sign("run", "run", "Running"),
    "retrying": Sign("retry", "wait", "Waiting to retry"),
    "blocked": Sign("gate", "gate", "Waiting for people"),
    "paused": Sign("wait", "pause", "Paused"),
    "completed": Sign("ok", "ok", "Succeeded"),
    "failed": Sign("bad", "bad", "Failed"),
    "in_doubt": Sign("doubt", "doubt", "In doubt"),
    "skipped": Sign("off", "off", "Skipped"),
    "omitted": Sign("off", "off", "Not run"),
    "cancelled": Sign("off", "cancelled", "Cancelled"),
    "abandoned": Sign("off", "cancelled", "Abandoned"),
    "rolled_back": Sign("undone", "undone", "Rolled back"),
}
"""By the status of a task."""


def counted(counts: Mapping[str, int]) -> str:
    """``10 succeeded, 2 not run``: tasks by status in the words of their signs, in the given order."""
    words: Counter[str] = Counter()
    for status, number in counts.items():
        words[task_sign(status).word.lower()] += number
    return ", ".join(f"{number:,} {word}" for word, number in words.items() if number)


def run_sign(status: str, reason: str = "") -> Sign:
    """The sign of a run."""
    return REASONS.get((status, reason)) or RUNS.get(status, _UNKNOWN)


def task_sign(status: str) -> Sign:
    """The sign of a task."""
    return TASKS.get(status, _UNKNOWN)
