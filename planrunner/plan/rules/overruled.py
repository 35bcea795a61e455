"""An approval whose rejection holds nothing up is not an approval."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.model import Edge, Task
from planrunner.plan.rules.view import PlanView, span_of

REJECTION_CODES = ("PLAN611",)

_OF_PEOPLE = ("approval", "decision")
"""Kinds of gates that people decide."""


def check_rejections(view: PlanView) -> Iterable[Diagnostic]:
    for here, task in enumerate(view.plan.tasks):
        if task.gate is None or task.gate.kind not in _OF_PEOPLE:
            continue
        edge = next((edge for edge in task.edges if _lets_through(view, edge)), None)
        if not task.allow_failure and edge is None:
            continue
        follower = next((each for each in _followers(view, here) if not _asks_decision(each, task.id)), None)
        if follower is not None:
            yield _finding(task, follower, edge)


def _lets_through(view: PlanView, edge: Edge) -> bool:
    """Whether a task that nobody decides stands in for the gate that was rejected."""
    target = view.graph.find(edge.target)
    if not edge.recovers or edge.failure_class not in ("", "rejected") or target < 0:
        return False
    gate = view.graph.tasks[target].gate
    return gate is None or gate.kind not in _OF_PEOPLE


def _followers(view: PlanView, here: int) -> Iterable[Task]:
    return (view.graph.tasks[there] for there in view.graph.dependents[here])


def _asks_decision(task: Task, gate: str) -> bool:
    """Whether a task asks how the gate was decided before it starts."""
    read = [path[1:] for path in task.when.paths if path[0] == "tasks"] if task.when is not None else []
    if task.join.expression is not None:
        read += [path[1:] if path[0] == "tasks" else path for path in task.join.expression.paths]
    return any(path[:1] == (gate,) and path[1:2] != ("done",) for path in read)


def _finding(task: Task, follower: Task, edge: Edge | None) -> Diagnostic:
    label = Label(follower.span, f"`{follower.id}` needs `{task.id}`")
    if task.allow_failure:
        message = f"the rejection of `{task.id}` stops nothing: with `allow_failure` `{follower.id}` runs all the same"
        help_ = f"leave it out, or ask in `{follower.id}`: `when: tasks.{task.id}.completed`"
        return Diagnostic("PLAN611", message, span_of(task, "allow_failure"), labels=(label,), help=help_)
    assert edge is not None
    message = f"the rejection of `{task.id}` stops nothing: `{edge.target}` stands in for it, and `{follower.id}` runs"
    help_ = "leave `recovers` out, lead to another approval, or send the work back: `on_reject: {rework: TASK, max: 2}`"
    span = edge.span if edge.span.end else span_of(task, "on_failure", "next")
    return Diagnostic("PLAN611", message, span, labels=(label,), help=help_)
