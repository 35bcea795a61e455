"""The measures of a project as people and programs read them: rates, averages and counts over all its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planrunner.escapes import harmless
from planrunner.plan.expressions.quantities import duration_text
from planrunner.views.terminal import Terminal, pad, width

Json = Any


def measures_lines(terminal: Terminal, told: Mapping[str, Json]) -> list[str]:
    """A line for each measure that was taken, below the heading of its group."""
    lines: list[str] = []
    for group, rows in told.items():
        shown = [
            (name.replace("_", " "), _text(name, value)) for name, value in rows.items() if value not in (None, {})
        ]
        if not shown:
            continue
        lines.append(terminal.paint(group, "bold"))
        column = max(width(name) for name, _ in shown)
        lines += [f"  {pad(name, column)}  {harmless(text)}" for name, text in shown]
    return lines or ["nothing was measured yet: no run has started"]


def _text(name: str, value: Json) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{count:g} {kind}" for kind, count in value.items())
    if name.endswith("_rate"):
        return f"{value:.1%}"
    if name.endswith("_seconds"):
        return duration_text(value)
    if name.endswith("_dollars"):
        return f"${value:.4f}"
    return f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
