"""Circles: no task waits for itself, loops and edges that lead back carry a bound, and rework leads to a task that ran
before."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Label
from planrunner.plan.model import Task
from planrunner.plan.rules.view import PlanView, find_word, sent_back, span_of
from planrunner.source import Span

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
        f"dependency cycle: {path}",
        span,
        label=label,
        labels=tuple(Label(*place) for place in rest),
        help="remove one of these needs; to repeat tasks until they succeed use `loop` or a gate's `rework`",
    )


def check(view: PlanView) -> Iterable[Diagnostic]:
    for task in view.plan.tasks:
        for target, most, span in sent_back(task):
            if most <= 0:
                message = f"`{task.id}` may send the run back to `{target}` without a bound"
                help_ = f"set a bound: `{{rework: {target}, max: 3}}`"
                yield Diagnostic("PLAN109", message, span if span.end else task.span, help=help_)
        if task.loop is not None and task.loop.max == 0:
            help_ = "set a bound: `max: 5`"
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


def check_rework(view: PlanView) -> Iterable[Diagnostic]:
    sent: list[tuple[int, int, Span]] = []
    for here, task in enumerate(view.plan.tasks):
        if task.edges or task.gate is not None:
            for target, _, span in sent_back(task):
                there = view.graph.find(target)
                if there >= 0:
                    sent.append((there, here, span))
    if sent:
        earlier = view.graph.precedes([(there, here) for there, here, _ in sent])
        for (there, here, span), is_before in zip(sent, earlier, strict=True):
            if not is_before or there == here:
                yield _sent_ahead(view, there, here, span)


def _sent_ahead(view: PlanView, there: int, here: int, span: Span) -> Diagnostic:
    task, target = view.plan.tasks[here], view.plan.tasks[there]
    place = span if span.end else task.span
    if there == here:
        help_ = "to try it again use `retry`"
        return Diagnostic("PLAN115", f"`{task.id}` sends the run back to itself", place, help=help_)
    labels = (Label(target.span, f"`{target.id}` is defined here"),)
    message = f"`{task.id}` sends the run back to `{target.id}`, which is not guaranteed to run before it"
    help_ = f"name a task that `{task.id}` needs, directly or by others"
    return Diagnostic("PLAN115", message, place, labels=labels, help=help_)
