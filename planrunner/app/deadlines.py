"""Deadlines that are dates, held against the clock when a run begins."""

from __future__ import annotations

from planrunner.diagnostics import Diagnostic
from planrunner.errors import PlanInvalid
from planrunner.plan.model import Plan
from planrunner.plan.tasks import every
from planrunner.source import Source, Span, notation_of


def require_time(plan: Plan, text: str, path: str, now: float) -> None:
    """Raises PlanInvalid where the deadline of the plan or of a task has passed already."""
    source = Source(text, path, notation_of(path))
    findings = []
    if plan.due is not None and plan.due <= now:
        findings.append(_passed("the deadline of the plan", plan.notes, _place(text, plan.span)))
    for task in every(plan.tasks):
        if task.due is not None and task.due <= now:
            span = next((span for key, span in task.spans if key == "deadline"), task.span)
            findings.append(_passed(f"the deadline of `{task.id}`", task.notes, span))
    if findings:
        raise PlanInvalid(f"`{path}` cannot run", source, tuple(findings))


def _passed(what: str, notes: object, span: Span) -> Diagnostic:
    said = notes.get("deadline", "") if isinstance(notes, dict) else ""
    return Diagnostic("PLAN006", f"{what} has passed: {said}", span, help="give it a later one, or take it out")


def _place(text: str, otherwise: Span) -> Span:
    """The key of the plan, which stands at the margin."""
    at = 0 if text.startswith("deadline") else text.find("\ndeadline") + 1
    return Span(at, at + len("deadline")) if text.startswith("deadline", at) else otherwise
