"""Constructs that load and are checked but that a run does not carry out yet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Task
from planrunner.plan.rules.view import PlanView, span_of
from planrunner.source import Span

CODES = ("PLAN020",)

CALLS = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_.]*\([^()]*\)\s*(?:->|;|$)")
"""A command in the command language, ``search(query) -> top10``, and not an instruction in plain words."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    plan = view.plan
    if plan.policy:
        place = _plan_key(view, "policies" if "\npolicies" in view.source.text else "policy")
        yield _finding("the `policy` of the plan", place, "nothing is held back by it")
    for task in plan.tasks:
        if task.fanout or task.loop or task.command or task.subplan or task.subplan_file or task.gate:
            for what, key, instead in _constructs(task):
                yield _finding(f"`{what}` of `{task.id}`", span_of(task, key), instead)
        if task.id[-1:] == "*":
            yield _finding(f"the family `{task.id}`", task.span, "no member of it is made")


def _constructs(task: Task) -> Iterator[tuple[str, str, str]]:
    if task.command and CALLS.match(task.command):
        yield "command", "command", "its calls are not made"
    if task.loop is not None:
        yield "loop", "loop", "its tasks are not run"
    if task.fanout is not None:
        key = "matrix" if task.fanout.matrix is not None else "foreach"
        yield key, key, "the task is not multiplied"
    if task.subplan_file or any(_acts(step) for step in task.subplan):
        yield "subplan", "subplan", "its steps are not run"
    if task.gate is not None and task.gate.on_reject.action != "fail":
        yield "on_reject", "on_reject", "a rejected gate fails"


def _acts(step: Task) -> bool:
    return bool(step.uses or step.run is not None or step.subplan or step.gate or step.loop)


def _finding(what: str, span: Span, instead: str) -> Diagnostic:
    return Diagnostic("PLAN020", f"{what} is not executed by this version: {instead}", span)


def _plan_key(view: PlanView, key: str) -> Span:
    """The place of a key of the plan itself, which stands at the margin in both notations."""
    text = view.source.text
    at = 0 if text.startswith(key) else text.find(f"\n{key}") + 1
    return Span(at, at + len(key)) if text.startswith(key, at) else view.plan.span
