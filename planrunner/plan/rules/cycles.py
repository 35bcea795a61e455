"""No task waits for itself, directly or in a circle."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.rules.view import PlanView, find_word

CYCLE_CODES = ("PLAN103", "PLAN104")

LABELS = 12
"""A label for each step, up to this many: a longer circle is printed whole in the message and labelled in part."""


def check_cycles(view: PlanView) -> Iterable[Diagnostic]:
    graph = view.graph
    for here in graph.loners:
        task = graph.tasks[here]
        yield Diagnostic("PLAN104", f"`{task.id}` needs itself", find_word(view, task, task.id, "needs"))
    for cycle in graph.cycles():
        yield _circle(view, cycle)


def _circle(view: PlanView, cycle: list[int]) -> Diagnostic:
    tasks = [view.graph.tasks[here] for here in cycle]
    steps = list(zip(tasks, tasks[1:] + tasks[:1], strict=True))
    places = [
        (find_word(view, task, need.id, "needs"), f"`{task.id}` needs `{need.id}`") for task, need in steps[:LABELS]
    ]
    path = " -> ".join(f"`{task.id}`" for task in [*tasks, tasks[0]])
    (span, label), rest = places[0], places[1:]
    return Diagnostic(
        "PLAN103",
        f"tasks wait for each other in a circle: {path}",
        span,
        label=label,
        labels=tuple(Label(*place) for place in rest),
        help="remove one of these needs; to repeat tasks until they succeed use `loop` or a gate's `rework`",
    )
