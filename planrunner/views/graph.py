"""A plan as a drawing: nodes with their roles, arrows with their labels. The formats beside this file write it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from planrunner.plan.graph import Graph
from planrunner.plan.holding import inner
from planrunner.plan.model import Edge, Fanout, Plan, Task
from planrunner.views.symbols import plural


class Node(NamedTuple):
    """One task. ``shape`` is its role, or ``GATE``; ``status`` is empty where no run colours the drawing. ``id`` is the
    place in the plan, ``polish/draft`` for a task inside another, whose place in ``Drawing.nodes`` is ``parent``.
    ``holds`` says how a task holds or multiplies others (``loop, at most 4 rounds``), ``group`` that they are drawn
    inside it."""

    id: str
    title: str
    role: str
    shape: str
    uses: str
    status: str
    holds: str = ""
    parent: int = -1
    group: bool = False


class Arrow(NamedTuple):
    """From one task to another on its level, by their places in ``Drawing.nodes``. ``kind`` is need, success, failure,
    always or condition; ``label`` says when the arrow is taken, empty for a need."""

    source: int
    target: int
    kind: str
    label: str


class Drawing(NamedTuple):
    plan: str
    title: str
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]


COLOURS: dict[str, tuple[str, str]] = {
    "completed": ("#d3f2d9", "#1a7f37"),
    "failed": ("#ffd7d5", "#b3261e"),
    "running": ("#cfe8ff", "#0b5cad"),
    "blocked": ("#fff1c2", "#8a6100"),
    "in_doubt": ("#f3d9fa", "#862e9c"),
    "skipped": ("#eeeeee", "#6b6b6b"),
    "omitted": ("#eeeeee", "#6b6b6b"),
    "cancelled": ("#ffe8cc", "#a04d00"),
    "abandoned": ("#ffe8cc", "#a04d00"),
    "rolled_back": ("#ffe8cc", "#a04d00"),
}
"""Status → (fill, line)."""


def drawing(plan: Plan, statuses: Mapping[str, str] | None = None) -> Drawing:
    """The drawing of a plan; ``statuses`` (place in the plan → status, as ``run_statuses`` gives them) colours it by a
    run. A task stands before those it holds."""
    nodes: list[Node] = []
    arrows: list[Arrow] = []
    todo = [(plan, "", -1)]
    while todo:
        level, prefix, parent = todo.pop()
        graph = Graph(level)
        first = len(nodes)
        for at, task in enumerate(level.tasks):
            held = inner(task)
            path = prefix + task.id
            nodes.append(_node(graph, at, path, (statuses or {}).get(path, ""))._replace(parent=parent))
            if held:
                todo.append((Plan("", tasks=held), f"{path}/", first + at))
        arrows += [
            Arrow(first + arrow.source, first + arrow.target, arrow.kind, arrow.label) for arrow in _arrows(graph)
        ]
    return Drawing(plan.id, plan.title, tuple(nodes), tuple(dict.fromkeys(arrows)))


def holds_text(task: Task) -> str:
    """``for each item of params.names``, ``loop, at most 4 rounds until …``, ``subplan``; both where it is both."""
    words = []
    fanout, loop = task.fanout, task.loop
    if fanout is not None:
        words.append(_each(fanout))
        if fanout.max_parallel:
            words.append(f"{fanout.max_parallel} at once")
    if loop is not None:
        until = f" until {loop.until.text}" if loop.until is not None else ""
        words.append(f"loop, at most {plural(loop.max, 'round')}{until}")
    elif task.sub is not None:
        words.append(f"subplan {task.subplan_file or task.sub.id}")
    elif inner(task):
        words.append("subplan")
    return ", ".join(words)


def _each(fanout: Fanout) -> str:
    if fanout.matrix is not None:
        return f"matrix of {', '.join(name for name in fanout.matrix if name not in ('include', 'exclude'))}"
    if fanout.foreach is not None:
        return f"for each of {fanout.foreach.text}"
    count = len(fanout.items) if isinstance(fanout.items, (list, tuple, dict)) else 0
    return f"for each of {plural(count, 'item')}" if count else f"for each of {fanout.items}"


def _arrows(graph: Graph) -> list[Arrow]:
    found: list[Arrow] = []
    for at, task in enumerate(graph.tasks):
        found += [Arrow(need, at, "need", "") for need in graph.needs[at]]
        for edge in task.edges:
            target = graph.find(edge.target)
            if target >= 0:
                found.append(Arrow(at, target, edge.on, _label(edge)))
    return found


def graph_object(drawn: Drawing) -> dict[str, Any]:
    """The drawing as JSON data."""
    names = [node.id for node in drawn.nodes]
    return {
        "format": 1,
        "plan": drawn.plan,
        "title": drawn.title,
        "nodes": [{**node._asdict(), "parent": names[node.parent] if node.parent >= 0 else ""} for node in drawn.nodes],
        "edges": [
            {"from": names[arrow.source], "to": names[arrow.target], "kind": arrow.kind, "label": arrow.label}
            for arrow in drawn.arrows
        ],
    }


def _node(graph: Graph, at: int, path: str, status: str) -> Node:
    task, role = graph.tasks[at], graph.role(at)
    shape = "GATE" if task.gate is not None else role
    return Node(path, task.title, role, shape, task.uses, status, holds_text(task), -1, bool(inner(task)))


def _label(edge: Edge) -> str:
    words = "when" if edge.on == "condition" else f"on {edge.on}"
    if edge.failure_class:
        words += f" ({edge.failure_class})"
    if edge.condition is not None:
        words += f" {edge.condition.text}" if edge.on == "condition" else f" when {edge.condition.text}"
    words += ", else" if edge.otherwise else ""
    return words + (", recovers" if edge.recovers else "") + (f", at most {edge.max} times" if edge.rework else "")
