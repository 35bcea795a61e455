"""A plan's graph for a terminal: an indented list, with what the indentation cannot show behind each task."""

from __future__ import annotations

from collections.abc import Mapping

from planrunner.plan.graph import Graph
from planrunner.plan.model import Plan, Task
from planrunner.views.graph import drawing
from planrunner.views.outline import Line, outline
from planrunner.views.terminal import Terminal, harmless, pad, width


def render(plan: Plan, terminal: Terminal, statuses: Mapping[str, str] | None = None) -> str:
    """The text; with ``statuses`` each task has its sign and status."""
    lines = outline(Graph(plan))
    drawn = drawing(plan, statuses)
    routes: dict[int, list[str]] = {}
    arrow_sign = "→" if terminal.unicode else "->"
    for arrow in drawn.arrows:
        if arrow.label:
            text = f"{arrow.label} {arrow_sign} {drawn.nodes[arrow.target].id}"
            routes.setdefault(arrow.source, []).append(text)
    column = min(40, max((2 * line.level + width(plan.tasks[line.task].id) for line in lines), default=0))
    rows = []
    for line in lines:
        node = drawn.nodes[line.task]
        sign = f"{terminal.sign(node.status)} " if statuses is not None else ""
        facts = [node.role.lower(), _what(plan.tasks[line.task]), node.status.replace("_", " "), *_also(plan, line)]
        facts += routes.get(line.task, [])
        name = pad("  " * line.level + node.id, column)
        rows.append(f"{sign}{name}  {', '.join(harmless(fact) for fact in facts if fact)}")
    return "\n".join(rows) + "\n"


def _what(task: Task) -> str:
    if task.gate is not None:
        return f"gate: {task.gate.kind}"
    return task.uses


def _also(plan: Plan, line: Line) -> list[str]:
    names = ", ".join(plan.tasks[other].id for other in line.also)
    return [f"also after {names}"] if names else []
