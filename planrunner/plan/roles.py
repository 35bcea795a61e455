"""The seven roles that a task can play in the graph: what the arrows around it make of it."""

from __future__ import annotations

from planrunner.plan.model import Edge, Role, Task


def roles_of(task: Task, into: int, out: int, followers: int) -> tuple[Role, ...]:
    """The roles of a task with so many arrows to it and away from it, the first one being what it is called.

    ``followers`` are the tasks that follow whatever happens. In this order:

    ======== =====================================================
    START    no arrow leads to it
    EXIT     no arrow leads away from it
    SPLIT    it becomes several: fan-out, loop or subplan
    DECISION an outcome or a condition chooses where it leads
    BRANCH   more than one task follows whatever happens
    MERGE    more than one arrow leads to it
    LINEAR   one in, one out, and nothing of the above
    ======== =====================================================
    """
    found: list[Role] = []
    if not into:
        found.append("START")
    if not out:
        found.append("EXIT")
    if task.fanout or task.loop or task.subplan or task.subplan_file:
        found.append("SPLIT")
    if _decides(task):
        found.append("DECISION")
    if followers > 1:
        found.append("BRANCH")
    if into > 1:
        found.append("MERGE")
    return tuple(found) or ("LINEAR",)


def chooses(edge: Edge) -> bool:
    """Whether an edge is followed in some cases only; success is what a plan counts on."""
    return edge.on in ("failure", "condition") or edge.condition is not None or edge.otherwise


def _decides(task: Task) -> bool:
    return any(chooses(edge) for edge in task.edges) or (task.gate is not None and task.gate.kind == "decision")
