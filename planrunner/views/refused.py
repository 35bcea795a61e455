"""What sandboxes refused to the tasks of a run, and the lines that would allow it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from planrunner.machine.labels import label
from planrunner.views.symbols import plural
from planrunner.views.terminal import Terminal, harmless

if TYPE_CHECKING:
    from planrunner.machine.events import Outcome
    from planrunner.machine.state import State

Json = Any

_ROWS, _TASKS = 5, 10


def refused_text(outcome: Outcome | None) -> str:
    """What was refused during an attempt, a line each, with how it is allowed where its message does not say so yet."""
    return "" if outcome is None else "\n".join(_lines(outcome, outcome.message))


def tolerated_lines(terminal: Terminal, state: State) -> list[str]:
    """What was refused to tasks that did not fail: they did without it, and somebody may want to know."""
    found = [
        (number, task.outcome)
        for number, task in enumerate(state.tasks)
        if task.outcome is not None and task.outcome.refused and not task.outcome.failure
    ]
    lines = []
    for number, outcome in found[:_TASKS]:
        lines.append(f"  refused to `{label(state, number)}`, which went well without:")
        lines += [f"    {harmless(line)}" for line in _lines(outcome, "")]
    if len(found) > _TASKS:
        hint = f"{terminal.program} events {state.run_id} --type attempt_ended"
        lines.append(f"  and to {plural(len(found) - _TASKS, 'task')} more: {hint}")
    return lines


def _lines(outcome: Outcome, known: str) -> Iterator[str]:
    for row in outcome.refused[:_ROWS]:
        times = f", {row['count']} times" if row["count"] > 1 else ""
        message = row.get("message", "")
        yield f"{row['what'] or 'others'} ({row['rule']}{times})"
        if message and message not in known:
            yield f"  {message}"
    if len(outcome.refused) > _ROWS:
        yield f"and {len(outcome.refused) - _ROWS} more"
