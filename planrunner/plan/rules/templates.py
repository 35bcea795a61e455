"""Every template parses, reads names that exist, and is safe where it stands."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.rules.reading import has_templates
from planrunner.plan.rules.template_checks import judged
from planrunner.plan.rules.view import PlanView

CODES = ("PLAN201", "PLAN202", "PLAN205", "PLAN207", "PLAN208", "PLAN210", "PLAN211", "PLAN217")


def check(view: PlanView) -> Iterable[Diagnostic]:
    if not has_templates(view):
        return ()
    return judged(view)
