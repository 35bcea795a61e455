"""Every expression reads names that exist there, of types that fit, and decides something."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.rules.expression_checks import judged
from planrunner.plan.rules.reading import expressions_of
from planrunner.plan.rules.view import PlanView

CODES = ("PLAN201", "PLAN202", "PLAN204", "PLAN205", "PLAN206", "PLAN207", "PLAN208", "PLAN703")


def check(view: PlanView) -> Iterable[Diagnostic]:
    sites = list(expressions_of(view))
    if not sites:
        return ()
    return judged(view, sites)
