"""Secrets that tasks declare: there, handed over in the way they are meant to be, and received."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.rules.secret_checks import judged
from planrunner.plan.rules.view import PlanView
from planrunner.plan.wishes import named_credential

CODES = ("PLAN821", "PLAN822", "PLAN823", "PLAN824")


def check(view: PlanView) -> Iterable[Diagnostic]:
    if not view.credentials and not any(task.secrets or named_credential(task) for task in view.plan.tasks):
        return ()
    return judged(view)
