"""A plan as a drawing: nodes with their roles, arrows with their labels. The formats beside this file write it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planrunner.plan.graph import Graph
from planrunner.plan.model import Edge, Plan, Task
from planrunner.record import NamedTuple


class Node(NamedTuple):
    """One task. ``shape`` is its role, or ``GATE``; ``status`` is empty where no run colours the drawing."""

    id: str
    title: str
    role: str
    shape: str
    uses: str
    status: str


class Arrow(NamedTuple):
    """From one task to another, by their places in ``Drawing.nodes``. ``kind`` is need, success, failure, always or
    condition; ``label`` says when the arrow is taken, empty for a need."""

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
    """The drawing of a plan; ``statuses`` (task id → status) colours it by a run."""
    graph = Graph(plan)
    found = statuses or {}
    nodes = tuple(_node(graph, at, task, found.get(task.id, "")) for at, task in enumerate(plan.tasks))
    arrows: list[Arrow] = []
    for at, task in enumerate(plan.tasks):
        arrows += [Arrow(need, at, "need", "") for need in graph.needs[at]]
        for edge in task.edges:
            target = graph.find(edge.target)
            if target >= 0:
                arrows.append(Arrow(at, target, edge.on, _label(edge)))
    return Drawing(plan.id, plan.title, nodes, tuple(dict.fromkeys(arrows)))


def graph_object(drawn: Drawing) -> dict[str, Any]:
    """The drawing as JSON data."""
    names = [node.id for node in drawn.nodes]
    return {
        "format": 1,
        "plan": drawn.plan,
        "title": drawn.title,
        "nodes": [node._asdict() for node in drawn.nodes],
        "edges": [
            {"from": names[arrow.source], "to": names[arrow.target], "kind": arrow.kind, "label": arrow.label}
            for arrow in drawn.arrows
        ],
    }


def _node(graph: Graph, at: int, task: Task, status: str) -> Node:
    role = graph.role(at)
    return Node(task.id, task.title, role, "GATE" if task.gate is not None else role, task.uses, status)


def _label(edge: Edge) -> str:
    words = "when" if edge.on == "condition" else f"on {edge.on}"
    if edge.failure_class:
        words += f" ({edge.failure_class})"
    if edge.condition is not None:
        words += f" {edge.condition.text}" if edge.on == "condition" else f" when {edge.condition.text}"
    return words + (", recovers" if edge.recovers else "")
