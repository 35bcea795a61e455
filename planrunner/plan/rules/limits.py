"""Every limit holds for the tasks of some label."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.view import PlanView, every_task, names
from planrunner.source import Span

CODES = ("PLAN213",)

_KEY = r"(?m)(?:^|[{,])\s*[\"']?limits[\"']?\s*:"


def check(view: PlanView) -> Iterable[Diagnostic]:
    if not view.plan.limits or not view.whole:
        return
    tasks = list(every_task(view.plan.tasks))
    if any(task.subplan_file and task.sub is None for task in tasks):
        return  # its tasks have labels that are not known here
    labels = dict.fromkeys(label for task in tasks for label in task.labels)
    for label, _ in view.plan.limits:
        if label not in labels:
            yield _unused(view, label, list(labels))


def _unused(view: PlanView, label: str, labels: list[str]) -> Diagnostic:
    span = _place(view, label)
    close = nearest(label, labels)
    message = f"the limit `{label}` holds nothing back: no task has that label"
    if close is None:
        help_ = f"the labels are {names(labels)}" if labels else "no task has `labels`"
        return Diagnostic("PLAN213", message, span, help=help_)
    written = view.source.text[span.start : span.end] == label
    fix = Fix(f"rename it to `{close}`", (Edit(span, close),), safe=False) if written else None
    return Diagnostic("PLAN213", f"{message}, did you mean `{close}`?", span, fix=fix)


def _place(view: PlanView, label: str) -> Span:
    """Where the label stands under `limits`, or the plan's name where it is written in another way."""
    text = view.source.text
    key = re.search(_KEY, text)
    found = re.compile(rf"(?<![\w-]){re.escape(label)}(?![\w-])").search(text, key.end()) if key else None
    return Span(*found.span()) if found else view.plan.span
