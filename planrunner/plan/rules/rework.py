"""The run is sent back only to a task that ran before."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.rules.view import PlanView, sent_back
from planrunner.source import Span

REWORK_CODES = ("PLAN115",)


def check_rework(view: PlanView) -> Iterable[Diagnostic]:
    found: list[tuple[int, int, Span]] = []
    for here, task in enumerate(view.plan.tasks):
        if task.edges or task.gate is not None:
            for target, _, span in sent_back(task):
                there = view.graph.find(target)
                if there >= 0:
                    found.append((there, here, span))
    if found:
        earlier = view.graph.precedes([(there, here) for there, here, _ in found])
        for (there, here, span), is_before in zip(found, earlier, strict=True):
            if not is_before or there == here:
                yield _sent_ahead(view, there, here, span)


def _sent_ahead(view: PlanView, there: int, here: int, span: Span) -> Diagnostic:
    task, target = view.plan.tasks[here], view.plan.tasks[there]
    place = span if span.end else task.span
    if there == here:
        help_ = "to try it again use `retry`"
        return Diagnostic("PLAN115", f"`{task.id}` sends the run back to itself", place, help=help_)
    labels = (Label(target.span, f"`{target.id}` is defined here"),)
    message = f"`{task.id}` sends the run back to `{target.id}`, which need not run before it"
    help_ = f"name a task that `{task.id}` needs, directly or by others"
    return Diagnostic("PLAN115", message, place, labels=labels, help=help_)
