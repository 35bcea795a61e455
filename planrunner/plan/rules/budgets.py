"""What is to happen when a budget runs short is there, and subplans are no deeper than their budget allows."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Budgets, Task
from planrunner.plan.rules.view import PlanView, every_task, find_word, span_of
from planrunner.source import Span

CODES = ("PLAN503", "PLAN505")


def check(view: PlanView) -> Iterable[Diagnostic]:
    plan = view.plan
    if not view.outer:
        yield from _remedy(plan.budgets, plan.tasks, "the plan", _plan_place(view, "on_exhausted"))
        if plan.budgets.depth is not None:
            yield from _depth(plan.budgets.depth, _levels(plan.tasks), "the plan", _plan_place(view, "depth"))
    for task in plan.tasks:
        if task.budgets.on_exhausted:
            place = find_word(view, task, "on_exhausted", "budgets")
            yield from _remedy(task.budgets, (task,), f"`{task.id}`", place)
        if task.budgets.depth is not None:
            yield from _depth(task.budgets.depth, _levels((task,)), f"`{task.id}`", span_of(task, "budgets"))


def _remedy(budgets: Budgets, tasks: Iterable[Task], whose: str, place: Span) -> Iterable[Diagnostic]:
    if budgets.on_exhausted == "degrade" and not any(task.degraded for task in every_task(tasks)):
        message = f"nothing can be degraded: no task of {whose} says what is done instead"
        yield Diagnostic("PLAN505", message, place, help="give a task `degraded: {uses: …}` or `degraded: {run: …}`")
    if budgets.on_exhausted == "skip_optional" and not any(task.optional for task in every_task(tasks)):
        message = f"nothing can be left out: no task of {whose} is optional"
        yield Diagnostic("PLAN505", message, place, help="mark the tasks that may be left out with `optional: true`")


def _depth(most: int, levels: int, whose: str, place: Span) -> Iterable[Diagnostic]:
    if levels > most:
        message = f"{whose} nests {levels} levels of subplans, its budget allows {most}"
        yield Diagnostic("PLAN503", message, place, help=f"say `depth: {levels}`, or nest them less")


def _levels(tasks: Iterable[Task]) -> int:
    """How deep subplans stand in each other; a loop is no level of its own. The lowering has bounded the depth."""
    deepest = 0
    for task in tasks:
        inner = task.sub.tasks if task.sub is not None else task.subplan
        if inner or task.subplan_file:
            deepest = max(deepest, 1 + _levels(inner))
        elif task.loop is not None:
            deepest = max(deepest, _levels(task.loop.tasks))
    return deepest


def _plan_place(view: PlanView, key: str) -> Span:
    """Where a key of the plan's budgets stands, before its first task; else the plan's name."""
    end = min((task.span.start for task in view.plan.tasks), default=len(view.source.text))
    found = re.compile(rf"\b{key}\b").search(view.source.text, view.plan.span.start, end)
    return Span(*found.span()) if found else view.plan.span
