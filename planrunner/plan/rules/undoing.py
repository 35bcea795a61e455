"""Where a failure rolls the run back, tasks that leave something behind say how they are undone."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Task
from planrunner.plan.rules.view import PlanView

CODES = ("PLAN604",)


def check(view: PlanView) -> Iterable[Diagnostic]:
    if view.plan.on_failure != "rollback":
        return
    for task in view.plan.tasks:
        said = task.finally_ or task.rollback is not None or task.backup or task.irreversible
        if task.uses and not said and _unsafe(view, task):
            message = f"`{task.id}` changes something that a rollback leaves as it is"
            help_ = (
                "give it `rollback`, `backup` or an `effect` that says it changes nothing, or say `irreversible: true`"
            )
            yield Diagnostic("PLAN604", message, task.span, help=help_)


def _unsafe(view: PlanView, task: Task) -> bool:
    capability = view.used.get(task.uses)
    if capability is not None and capability.undo:
        return False  # it takes back itself what it did
    effect = task.effect or (capability.effect if capability is not None else "pure")
    return effect in ("unsafe", "checkable")
