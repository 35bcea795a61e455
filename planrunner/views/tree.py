"""A run as an indented tree of its tasks with their statuses: the picture that ``exec`` leaves and ``show`` prints."""

from __future__ import annotations

from planrunner.machine.labels import labelled
from planrunner.machine.owing import undone_holders
from planrunner.machine.state import State, TaskState
from planrunner.views.nesting import counted, end_text, progress_text
from planrunner.views.rows import DULL, WHOLE, Row, hidden, is_idle, level_tasks
from planrunner.views.run import reason_text
from planrunner.views.standing import attempt_text, elapsed, is_resting, shown_status
from planrunner.views.symbols import duration_text
from planrunner.views.terminal import Terminal, cut, harmless, pad, width
from planrunner.views.tree_nested import rows

_NO_EDGE = 10_000
"""Columns of what is no terminal: names are not cut in a pipe or a file."""


def tree(terminal: Terminal, state: State, now: float, whole: bool = False) -> list[str]:
    """The lines of the tree; ``now`` (seconds since 1970) ends the durations of tasks that still run. With ``whole``
    every task has a line, whatever there is to tell."""
    if state.holders and len(state.specs) > state.top.size:
        found = rows(state, whole)
    else:
        found = _flat(state, whole)
    columns = terminal.size()[0] if terminal.live else _NO_EDGE
    longest = max((width(row.name) + 2 * row.level for row in found if row.task >= 0), default=0)
    column = min(40, columns // 2, longest)
    undone = _undone(state)
    return [_text(terminal, state, row, (column, columns), now, row.task in undone) for row in found]


def _undone(state: State) -> set[int]:
    """Tasks that went well and of which everything inside was undone since."""
    if state.debts is None or not state.holders:
        return set()
    return undone_holders(state)


def _flat(state: State, whole: bool) -> list[Row]:
    tasks = level_tasks(state, state.top)
    every = whole or len(tasks) <= WHOLE
    idle = set() if every else {number for number in tasks if is_idle(state.tasks[number])}
    shown = [number for number in tasks if every or (number not in idle and state.tasks[number].status not in DULL)]
    rows = [Row(0, number, state.specs[number].id) for number in shown]
    return rows + hidden(len(tasks) - len(shown) - len(idle), len(idle))


def _text(terminal: Terminal, state: State, row: Row, room: tuple[int, int], now: float, undone: bool) -> str:
    column, columns = room
    name = "  " * row.level + row.name
    if row.task < 0:
        text = cut(name, columns - 3, terminal.unicode)
        return f"{terminal.sign(row.status)} {text}" if row.status else text
    if terminal.live:
        name = cut(name, column, terminal.unicode)
    status = "rolled_back" if undone else shown_status(state, state.tasks[row.task])
    facts = _facts(terminal, state, row.task, now)
    if undone:
        facts[0] += " and undone"
    text = f"{pad(name, column)}  " + ", ".join(fact for fact in facts if fact)
    return f"{terminal.sign(status)} {cut(text, columns - 3, terminal.unicode)}"


def _facts(terminal: Terminal, state: State, number: int, now: float) -> list[str]:
    task, found = state.specs[number], state.tasks[number]
    status = shown_status(state, found)
    facts = [status.replace("_", " ")]
    if found.started is not None and (found.ended is not None or not is_resting(state)):
        facts.append(duration_text(elapsed(found, found.ended or now if is_resting(state) else now)))
    if found.attempts - found.past > 1:
        facts.append(attempt_text(task, found.attempts, found.past))
    if found.inner is not None:
        facts.append(end_text(state, found.inner) if found.standing else progress_text(state, found.inner))
        facts += [counted(state, found.inner)] if status == "cancelled" else []
    if found.visit > 1:
        facts.append(f"visit {found.visit}")
    if status != "completed" and not _told_inside(found):
        facts.append(cut(harmless(labelled(state, reason_text(state, found))), terminal.edge(), terminal.unicode))
    if number in state.degraded:
        facts.append("did its `degraded` action")
    if found.recovered_by:
        facts.append(f"{found.recovered_by} stood in for it")
    return facts


def _told_inside(found: TaskState) -> bool:
    """Whether a line below a task says why it ended as it did."""
    inner = found.inner
    return (
        inner is not None
        and not inner.closing
        and (len(inner.failures) > inner.tolerate or found.status == "cancelled")
    )
