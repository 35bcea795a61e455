"""Deadlines that have passed before a run begins: lint and the start of a run say the same of them."""

from __future__ import annotations

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Plan
from planrunner.plan.tasks import every
from planrunner.source import Source, Span


def passed_deadlines(plan: Plan, source: Source, now: float) -> tuple[Diagnostic, ...]:
    """The deadlines of the plan and its tasks that lie before ``now``, in seconds since 1970."""
    findings = []
    if plan.due is not None and plan.due <= now:
        text = source.text
        at = 0 if text.startswith("deadline") else text.find("\ndeadline") + 1  # the key stands at the margin
        span = Span(at, at + len("deadline")) if text.startswith("deadline", at) else plan.span
        findings.append(_passed("the deadline of the plan", plan.notes, span))
    for task in every(plan.tasks):
        if task.due is not None and task.due <= now:
            span = next((span for key, span in task.spans if key == "deadline"), task.span)
            findings.append(_passed(f"the deadline of `{task.id}`", task.notes, span))
    return tuple(findings)


def _passed(what: str, notes: object, span: Span) -> Diagnostic:
    said = notes.get("deadline", "") if isinstance(notes, dict) else ""
    return Diagnostic("PLAN006", f"{what} has passed: {said}", span, help="give it a later one, or take it out")
