"""Tasks say how they are undone in a way that is carried out; where a failure rolls the run back, none is left out."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Task
from planrunner.plan.rules.view import PlanView, every_task, span_of


def check(view: PlanView) -> Iterable[Diagnostic]:
    for task in every_task(view.plan.tasks):
        if isinstance(task.notes, dict) and isinstance(task.notes.get("rollback"), str):
            message = f"how `{task.id}` is undone is described in words, which cannot be executed"
            help_ = (
                "write `rollback: {run: …}` or `rollback: {uses: …}`; if it cannot be undone, write"
                " `irreversible: true` and move the words into `description`"
            )
            yield Diagnostic("PLAN608", message, span_of(task, "rollback"), help=help_)
    if view.plan.on_failure != "rollback":
        return
    for task in view.plan.tasks:
        said = task.finally_ or task.rollback is not None or task.backup or task.irreversible
        if task.uses and not said and _stays(view, task):
            message = f"`{task.id}` changes something that a rollback does not revert"
            help_ = "add `rollback`, `backup`, an `effect` without changes, or `irreversible: true`"
            yield Diagnostic("PLAN604", message, task.span, help=help_)


def _stays(view: PlanView, task: Task) -> bool:
    """Whether something of it is left. What may be repeated changes things as well; a task that says so of itself, as
    one with a script does, has been thought about, and says with the same word what its script leaves."""
    capability = view.used.get(task.uses)
    if capability is not None and capability.undo:
        return False  # it takes back itself what it did
    if task.effect is not None:
        return task.effect in ("unsafe", "checkable")
    return capability is not None and capability.effect not in ("pure", "read")
