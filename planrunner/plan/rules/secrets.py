"""Secrets that tasks declare: there, handed over in the way they are meant to be, and received."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Task
from planrunner.plan.rules.view import PlanView

CODES = ("PLAN821", "PLAN822", "PLAN823", "PLAN824")


def check(view: PlanView) -> Iterable[Diagnostic]:
    if not view.credentials and not any(task.secrets or named_credential(task) for task in view.plan.tasks):
        return ()
    from planrunner.plan.rules.secret_checks import judged  # late: few plans have secrets

    return judged(view)


def named_credential(task: Task) -> str:
    """The credential that the inputs of a task name; empty where they name none that is known before the run."""
    auth = task.inputs.get("auth") if isinstance(task.inputs, dict) else None
    name = auth.get("credential") if isinstance(auth, dict) else None
    return name if isinstance(name, str) and "{{" not in name else ""
