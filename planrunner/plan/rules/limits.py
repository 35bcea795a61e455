"""Every limit holds for the tasks of some label."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.rules.view import PlanView, every_task, label_of_no_task
from planrunner.source import Span

LIMIT_CODES = ("PLAN213",)

_KEY = r"(?m)(?:^|[{,])\s*[\"']?limits[\"']?\s*:"


def check_limits(view: PlanView) -> Iterable[Diagnostic]:
    if not view.plan.limits or not view.whole:
        return
    tasks = list(every_task(view.plan.tasks))
    if any(task.subplan_file and task.sub is None for task in tasks):
        return  # its tasks have labels that are not known here
    labels = dict.fromkeys(label for task in tasks for label in task.labels)
    for label, _ in view.plan.limits:
        if label not in labels:
            message = f"the limit `{label}` holds nothing back: no task has that label"
            yield label_of_no_task(view, ("PLAN213", message, _place(view, label)), label, list(labels))


def _place(view: PlanView, label: str) -> Span:
    """Where the label stands under `limits`, or the plan's name where it is written in another way."""
    text = view.source.text
    key = re.search(_KEY, text)
    found = re.compile(rf"(?<![\w-]){re.escape(label)}(?![\w-])").search(text, key.end()) if key else None
    return Span(*found.span()) if found else view.plan.span
