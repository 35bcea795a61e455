"""Figures as the page writes them: durations, moments, amounts and counts, each with its unit."""

from __future__ import annotations

import re
import time

from planrunner.escapes import harmless
from planrunner.plan.expressions.quantities import duration_text, format_money

_DAY = 86_400


def duration(seconds: float | None) -> str:
    """As ``duration_text``; empty where it is not known."""
    return "" if seconds is None else duration_text(seconds)


def amount_text(what: str, value: float) -> str:
    """``$0.084``, ``10,420``, ``13.4s``."""
    if what == "cost":
        return format_money(round(value, 6))
    return duration(value) if what == "time" else f"{value:,.0f}"


def largest_unit(seconds: float) -> str:
    """A duration by its largest unit: ``12s``, ``2m``, ``3h``, ``5d``."""
    whole = max(0, round(seconds))
    for size, unit in ((_DAY, "d"), (3600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def ago(at: float | None, now: float) -> str:
    """``just now``, ``2m ago``, ``in 3h``; a moment more than a week away as a date."""
    if at is None:
        return ""
    away = now - at
    if abs(away) > 7 * _DAY:
        return time.strftime("%Y-%m-%d", time.localtime(at))
    if abs(away) < 2:
        return "just now"
    return f"{largest_unit(away)} ago" if away > 0 else f"in {largest_unit(-away)}"


def moment(at: float | None, now: float) -> str:
    """The time of day, with the date where it is another day: ``08:04:51``, ``2026-11-23 08:04``."""
    if at is None:
        return ""
    there, here = time.localtime(at), time.localtime(now)
    same = there[:3] == here[:3]
    return time.strftime("%H:%M:%S" if same else "%Y-%m-%d %H:%M", there)


def stamp(at: float | None) -> str:
    """A moment as the attribute ``datetime`` has it, in UTC."""
    return "" if at is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def count(number: int, noun: str, many: str = "") -> str:
    """``1 run``, ``2,500 runs``; ``many`` is the plural where it is not the noun with an s."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def clock(at: float) -> str:
    """The time of day, ``08:04:51``."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def clipped(text: str, most: int) -> str:
    """A text in at most so many characters, with an ellipsis where something is left out."""
    return text if len(text) <= most else f"{text[: max(0, most - 1)]}…"


def sentence(text: str) -> str:
    """A message as a sentence: with a capital and a full stop; empty where there is none."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}." if text else ""


def digest(text: str) -> str:
    """The beginning of a digest: ``15505d5``."""
    return text.rpartition(":")[2][:8]


def anchor_of(place: str) -> str:
    """What stands behind ``#`` in the address of a task: its place with other signs than letters, digits, ``_`` and
    ``-`` as ``.`` and their number, so that no two places share one."""
    return "t-" + re.sub(r"[^A-Za-z0-9_-]", lambda sign: f".{ord(sign[0]):x}", place)


def plain(text: str) -> str:
    """A text of several lines made harmless, line by line."""
    return "\n".join(map(harmless, text.splitlines()))
