"""Watchdogs and heartbeats act before the timeout does, one step after the other."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.expressions.quantities import format_duration as clock
from planrunner.plan.model import Task
from planrunner.plan.rules.view import PlanView, span_of

WATCHDOG_CODES = ("PLAN502",)


def check_watchdogs(view: PlanView) -> Iterable[Diagnostic]:
    for task in view.plan.tasks:
        if task.heartbeat is not None and task.timeout is not None and task.heartbeat >= task.timeout:
            message = f"the heartbeat of `{task.id}` never counts: it is {clock(task.heartbeat)}, {_ends(task)}"
            help_ = "a heartbeat is the longest silence inside an attempt: make it shorter than the timeout"
            yield Diagnostic("PLAN502", message, span_of(task, "heartbeat"), help=help_)
        if task.watchdog:
            yield from _watchdog(task)


def _watchdog(task: Task) -> Iterable[Diagnostic]:
    last = 0.0
    span = span_of(task, "watchdog")
    for step in task.watchdog:
        if step.after <= last:
            message = f"the watchdog of `{task.id}` goes back in time: {clock(step.after)} stands after {clock(last)}"
            yield Diagnostic("PLAN502", message, span, help="list its steps by rising time")
        elif task.timeout is not None and step.after >= task.timeout:
            message = f"the watchdog of `{task.id}` never comes to `{step.do}` after {clock(step.after)}: {_ends(task)}"
            yield Diagnostic("PLAN502", message, span, help="let it act earlier, or make the timeout longer")
        last = max(last, step.after)


def _ends(task: Task) -> str:
    assert task.timeout is not None
    return f"an attempt ends after {clock(task.timeout)}"
