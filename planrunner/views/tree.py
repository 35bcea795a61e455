"""A run as an indented tree of its tasks with their statuses: the picture that ``exec`` leaves and ``show`` prints."""

from __future__ import annotations

from planrunner.machine.state import State
from planrunner.plan.graph import Graph
from planrunner.views.outline import Line, outline
from planrunner.views.run import attempt_text, elapsed, is_resting, reason_text, shown_status
from planrunner.views.symbols import duration_text
from planrunner.views.terminal import Terminal, cut, harmless, pad, width

WHOLE = 60
"""A plan of up to that many tasks is shown whole; in a larger one, completed and untouched tasks are only counted."""

_NO_EDGE = 10_000
"""Columns of what is no terminal: names are not cut in a pipe or a file."""

_DULL = frozenset({"completed", "pending", "omitted", "skipped"})


def tree(terminal: Terminal, state: State, now: float) -> list[str]:
    """The lines of the tree; ``now`` (seconds since 1970) ends the durations of tasks that still run."""
    lines = outline(Graph(state.plan))
    if len(lines) > WHOLE:
        dull = sum(1 for line in lines if state.tasks[line.task].status in _DULL)
        lines = [line._replace(level=0) for line in lines if state.tasks[line.task].status not in _DULL]
        folded = [f"  {dull} tasks without anything to tell are not listed"] if dull else []
    else:
        folded = []
    columns = terminal.size()[0] if terminal.live else _NO_EDGE
    longest = max((width(state.specs[line.task].id) + 2 * line.level for line in lines), default=0)
    column = min(40, columns // 2, longest)
    return [_row(terminal, state, line, (column, columns), now) for line in lines] + folded


def _row(terminal: Terminal, state: State, line: Line, room: tuple[int, int], now: float) -> str:
    task, found = state.specs[line.task], state.tasks[line.task]
    column, columns = room
    status = shown_status(state, found)
    facts = [status.replace("_", " ")]
    if found.started is not None and (found.ended is not None or not is_resting(state)):
        facts.append(duration_text(elapsed(found, found.ended or now if is_resting(state) else now)))
    if found.attempts > 1:
        facts.append(attempt_text(task, found.attempts))
    if status != "completed":
        facts.append(cut(harmless(reason_text(state, found)), terminal.edge(), terminal.unicode))
    if found.recovered_by:
        facts.append(f"{found.recovered_by} stood in for it")
    name = "  " * line.level + task.id
    if terminal.live:
        name = cut(name, column, terminal.unicode)
    text = f"{pad(name, column)}  " + ", ".join(fact for fact in facts if fact)
    return f"{terminal.sign(status)} {cut(text, columns - 3, terminal.unicode)}"
