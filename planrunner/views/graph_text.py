"""A plan's graph for a terminal: an indented list, with what the indentation cannot show behind each task."""

from __future__ import annotations

from collections.abc import Mapping

from planrunner.plan.graph import Graph
from planrunner.plan.holding import inner
from planrunner.plan.model import Plan, Task
from planrunner.views.graph import Drawing, drawing
from planrunner.views.outline import outline
from planrunner.views.terminal import Terminal, harmless, pad, width


def render_text(plan: Plan, terminal: Terminal, statuses: Mapping[str, str] | None = None) -> str:
    """The text; with ``statuses`` each task has its sign and status. What a task holds stands below it."""
    drawn = drawing(plan, statuses)
    at = {node.id: number for number, node in enumerate(drawn.nodes)}
    found = _text_rows(plan.tasks, "", 0)
    routes = _text_routes(drawn, "→" if terminal.unicode else "->")
    column = min(40, max((2 * level + width(task.id) for _, task, level, _ in found), default=0))
    rows = []
    for path, task, level, also in found:
        node = drawn.nodes[at[path]]
        sign = f"{terminal.sign(node.status)} " if statuses is not None else ""
        facts = [node.role.lower(), _what(task), node.holds, node.status.replace("_", " "), also]
        facts += routes.get(at[path], [])
        name = pad("  " * level + task.id, column)
        rows.append(f"{sign}{name}  {', '.join(harmless(fact) for fact in facts if fact)}")
    return "\n".join(rows) + "\n"


def _text_rows(tasks: tuple[Task, ...], prefix: str, level: int) -> list[tuple[str, Task, int, str]]:
    """Place in the plan, task, level and what else it comes after, for one level and all below it."""
    found = []
    for line in outline(Graph(Plan("", tasks=tasks))):
        task = tasks[line.task]
        names = ", ".join(tasks[other].id for other in line.also)
        found.append((prefix + task.id, task, level + line.level, f"also after {names}" if names else ""))
        found += _text_rows(inner(task), f"{prefix}{task.id}/", level + line.level + 1)
    return found


def _text_routes(drawn: Drawing, sign: str) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for arrow in drawn.arrows:
        if arrow.label:
            target = drawn.nodes[arrow.target].id.rpartition("/")[2]
            found.setdefault(arrow.source, []).append(f"{arrow.label} {sign} {target}")
    return found


def _what(task: Task) -> str:
    if task.concluding:
        return f"done: {'; '.join(each.text for each in task.expect)}"
    return f"gate: {task.gate.kind}" if task.gate is not None else task.uses
