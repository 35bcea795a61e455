"""Loops carry a bound: no edge leads back to an earlier task, no ``loop`` or ``rework`` stands without ``max``."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.model import Task
from planrunner.plan.rules.view import PlanView, sent_back, span_of
from planrunner.source import Span

CODES = ("PLAN109",)


def check(view: PlanView) -> Iterable[Diagnostic]:
    for task in view.plan.tasks:
        for target, most, span in sent_back(task):
            if most <= 0:
                message = f"`{task.id}` may send the run back to `{target}` without a bound"
                help_ = f"say how often at most: `{{rework: {target}, max: 3}}`"
                yield Diagnostic("PLAN109", message, span if span.end else task.span, help=help_)
        if task.loop is not None and task.loop.max == 0:
            help_ = "say how often at most: `max: 5`"
            yield Diagnostic("PLAN109", f"the loop of `{task.id}` has no `max`", span_of(task, "loop"), help=help_)
    for circuit in view.graph.circuits():
        yield _unbounded(view, circuit)


def _unbounded(view: PlanView, circuit: list[int]) -> Diagnostic:
    tasks = [view.graph.tasks[here] for here in circuit]
    last, first = tasks[-1], tasks[0]
    path = " -> ".join(f"`{task.id}`" for task in [*tasks, first])
    return Diagnostic(
        "PLAN109",
        f"the edge from `{last.id}` leads back to `{first.id}` without a bound: {path}",
        _edge_place(last, first),
        label="leads back",
        labels=(Label(first.span, "to here"),) if first is not last else (),
        help="bound it with `loop: {max: 3, until: …, tasks: […]}`, or send back with `{rework: …, max: 3}`",
    )


def _edge_place(task: Task, target: Task) -> Span:
    for edge in task.edges:
        if edge.target == target.id and edge.span.end:
            return edge.span
    return span_of(task, "next", "on_failure", "on_success")
