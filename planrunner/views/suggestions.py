"""What models that looked back on tasks and runs suggest: shown beside the results, never part of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planrunner.escapes import harmless
from planrunner.machine.state import State
from planrunner.plan.agents import CRITIQUE, REFLECTION

Json = Any

_MOST = 10
"""Suggestions that the end of a run shows."""


def suggestions(state: State) -> Iterator[dict[str, Json]]:
    """Each as {about, severity, where, what, suggestion, by}; ``about`` is a task, empty for the whole run."""
    if CRITIQUE not in state.traits:
        return
    for number, task in enumerate(state.specs):
        outcome = state.tasks[number].outcome
        if task.uses != CRITIQUE or REFLECTION not in (task.notes or {}) or outcome is None:
            continue
        level, name = task.id.rpartition("/")[0], task.notes[REFLECTION]
        about = f"{level}/{name}" if level and name else name
        for finding in outcome.outputs.get("findings") or ():
            yield {"about": about, **finding, "by": outcome.outputs.get("model", "")}


def suggestion_lines(state: State, about: str | None = None) -> list[str]:
    """What is suggested as text: all that is, or what is about one task."""
    rows = [row for row in suggestions(state) if about is None or row["about"] == about]
    if not rows:
        return []
    lines = [f"suggestions of `{rows[0]['by']}`, a model:", *(f"  {_line(row, about is None)}" for row in rows[:_MOST])]
    return lines + ([f"  and {len(rows) - _MOST:,} more (show --json)"] if len(rows) > _MOST else [])


def _line(row: dict[str, Json], names: bool) -> str:
    place = ", ".join(filter(None, (row["about"] if names else "", row["where"])))
    words = f"{row['severity']}: {place}: {row['what']} — {row['suggestion']}"
    return harmless(" ".join(words.split()))
