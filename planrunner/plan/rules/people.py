"""What no machine can do or decide: instructions without an agent, gates, criteria in plain words."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Criterion, Gate, Task
from planrunner.plan.rules.unexecuted import CALLS
from planrunner.plan.rules.view import PlanView, span_of

CODES = ("PLAN601", "PLAN602", "PLAN701")

_WAITS = "the run waits there with exit code 8; what a machine can do goes into `uses` or `run`"


def check(view: PlanView) -> Iterable[Diagnostic]:
    for task in view.plan.tasks:
        if not task.uses and not view.outer and _left_to_people(task):
            yield _instruction(task)
        if task.gate is not None and not view.outer and not task.id.endswith("*"):
            yield _undecided(task, task.gate)
        if task.expect or task.gate is not None or task.postconditions or task.preconditions:
            yield from _in_words(task)


def _left_to_people(task: Task) -> bool:
    if task.run is not None or task.gate or task.loop or task.subplan_file or task.id.endswith("*"):
        return False
    if task.command:
        return not CALLS.match(task.command)
    return all(isinstance(step, str) for step in task.steps)


def _instruction(task: Task) -> Diagnostic:
    if task.command or task.steps:
        message = f"`{task.id}` is an instruction in plain words, which nobody is named for"
        return Diagnostic("PLAN601", message, span_of(task, "command", "subplan"), help=_WAITS)
    return Diagnostic("PLAN601", f"nothing says how `{task.id}` is done", task.span, help=_WAITS)


def _undecided(task: Task, gate: Gate) -> Diagnostic:
    message = f"nothing decides the gate `{task.id}` ({gate.kind}): the run waits there for ever"
    help_ = "deciding gates comes with a later version; the run parks with exit code 8 and what needs it never starts"
    return Diagnostic("PLAN602", message, span_of(task, "gate", "kind", "ask", "checks"), help=help_)


def _in_words(task: Task) -> Iterable[Diagnostic]:
    groups = [
        ("expect", task.expect),
        ("postconditions", task.postconditions),
        ("preconditions", task.preconditions),
        ("checks", task.gate.checks if task.gate is not None else ()),
    ]
    for key, criteria in groups:
        for criterion in criteria:
            if criterion.expression is None:
                yield _unverifiable(task, key, criterion)


def _unverifiable(task: Task, key: str, criterion: Criterion) -> Diagnostic:
    span = criterion.span if criterion.span.end else span_of(task, key)
    message = f"`{_shortened(criterion.text)}` is in plain words: only a judge or a person can decide it"
    help_ = "the task waits for them; what a machine can check is an expression, such as `exit_code == 0`"
    return Diagnostic("PLAN701", message, span, help=help_)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:57] + "…"
