"""Every parameter is read somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.reading import strings
from planrunner.plan.rules.view import PlanView, every_task

PARAM_CODES = ("PLAN209",)

_READ = r"params\s*(?:\.\s*([A-Za-z_][A-Za-z0-9_-]*)|\[\s*[\"']([^\"']+)[\"']|(\[\s*[A-Za-z_]|\}\}|\||\)))"
"""One parameter, or (last group) all of them: ``{{ params }}`` and ``params[name]``."""


def check_params(view: PlanView) -> Iterable[Diagnostic]:
    """Looks at the text as it stands: a read in a comment is one too, and so is a misspelt one, reported elsewhere."""
    if not view.plan.params or view.outer:
        return
    known = [param.name for param in view.plan.params]
    missing = set(known)
    read: set[str] = set()
    for match in re.finditer(_READ, view.source.text):
        if match[3]:
            return
        name = match[1] or match[2]
        if name not in read:
            read.add(name)
            missing.discard(name)
            if not missing:
                return
    missing -= _read_by_commands(view)
    missing -= {nearest(name, known) for name in read.difference(known)}
    for param in view.plan.params:
        if param.name in missing and not _subtracted(param.name, read):
            yield Diagnostic("PLAN209", f"nothing reads the parameter `{param.name}`", param.span)


def _read_by_commands(view: PlanView) -> set[str]:
    """The parameters that commands name without ``params``."""
    calls = [call for task in every_task(view.plan.tasks) if task.command for call in task.subplan]
    return {match[1] for call in calls for text in strings(call.inputs) for match in re.finditer(_READ, text)}


def _subtracted(name: str, read: set[str]) -> bool:
    """``params.a-b`` may be a subtraction that reads ``a``."""
    return any(other.startswith(f"{name}-") for other in read)
