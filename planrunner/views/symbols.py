"""Signs and colours of statuses. A sign and a word always stand together: colour alone never carries meaning."""

from __future__ import annotations

SIGNS: dict[str, tuple[str, str, str]] = {
    "pending": ("·", ".", "dim"),
    "queued": ("·", ".", "dim"),
    "running": ("●", "*", "cyan"),
    "retrying": ("↻", "~", "yellow"),
    "blocked": ("◷", "?", "yellow"),
    "paused": ("◷", "?", "yellow"),
    "completed": ("✔", "+", "green"),
    "failed": ("✘", "x", "red"),
    "skipped": ("○", "-", "dim"),
    "omitted": ("○", "-", "dim"),
    "cancelled": ("⊘", "/", "yellow"),
    "abandoned": ("⊘", "/", "yellow"),
    "in_doubt": ("?", "?", "magenta"),
    "rolled_back": ("↩", "<", "yellow"),
}
"""Status → (sign, sign in ASCII, colour)."""

CODES: dict[str, str] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
}


def plural(count: int, noun: str) -> str:
    """``1 task``, ``2 tasks``, ``10,000 items``."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration_text(seconds: float) -> str:
    """A duration for people: ``250ms``, ``12.3s``, ``4m05s``, ``2h03m``, ``3d04h``."""
    if seconds < 0.9995:
        return f"{max(0, round(seconds * 1000))}ms"  # an imagined clock may be a hair behind
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"
