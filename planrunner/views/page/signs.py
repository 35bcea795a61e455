"""How the page shows a status: its colour, its icon and its word, the same in every list, graph and verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from planrunner.statuses import SHOWN


class Sign(NamedTuple):
    """``state`` is the value of ``data-s`` (which gives the colour), ``icon`` the symbol ``i-ICON``, ``word`` what
    stands beside it: colour alone never says anything."""

    state: str
    icon: str
    word: str


_UNKNOWN = Sign("off", "off", "Unknown")

_SIGNS = {status: Sign(shown.tone, shown.icon, shown.word.capitalize()) for status, shown in SHOWN.items()}

REASONS: dict[tuple[str, str], Sign] = {
    ("paused", "cut off"): Sign("doubt", "doubt", "Interrupted"),
    ("paused", "timer"): Sign("wait", "wait", "Waiting for a time"),
    ("blocked", "decided"): Sign("wait", "play", "Decided"),
    ("cancelled", "rolled_back"): _SIGNS["rolled_back"],
}
"""By status and reason of a run, where the reason makes a difference."""


def counted(counts: Mapping[str, int]) -> str:
    """``10 completed, 2 not run``: tasks by status in the words of their signs, in the given order."""
    words: Counter[str] = Counter()
    for status, number in counts.items():
        words[task_sign(status).word.lower()] += number
    return ", ".join(f"{number:,} {word}" for word, number in words.items() if number)


def run_sign(status: str, reason: str = "") -> Sign:
    """The sign of a run."""
    return REASONS.get((status, reason)) or task_sign(status)


def task_sign(status: str) -> Sign:
    """The sign of a task."""
    return _SIGNS.get(status, _UNKNOWN)
