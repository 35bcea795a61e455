"""Entries of policies in a plan that deny or ask and can never fit."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Task
from planrunner.plan.policyentries import Known, Misfit, misfits
from planrunner.plan.rules.places import Within, value_place
from planrunner.plan.rules.policy import written
from planrunner.plan.rules.view import PlanView
from planrunner.source import Span

ENTRY_CODES = ("PLAN802", "PLAN803")


def check_entries(view: PlanView) -> Iterable[Diagnostic]:
    if not view.whole:
        return
    owners = [Task(view.plan.id, policy=view.plan.policy, spans=_spans(view))] if view.plan.policy else []
    owners += [task for task in written(view) if task.policy]
    if not owners:
        return
    built_in = getattr(view.capabilities, "built_in", view.capabilities.keys)
    known = Known(view.capabilities.get, built_in, view.capabilities.keys)
    for owner in owners:
        yield from (_finding(view, owner, found) for found in misfits(owner.policy, known))


def _finding(view: PlanView, owner: Task, found: Misfit) -> Diagnostic:
    place, _ = value_place(view, Within(owner, "policy", owner.policy), found.path)
    return Diagnostic(found.code, found.message, place, help=found.help)


def _spans(view: PlanView) -> tuple[tuple[str, Span], ...]:
    """Where the plan's own policy stands; its tasks are indented deeper."""
    key = r"[\"']?(polic(?:y|ies))[\"']?\s*[:={]"
    text = view.source.text
    match = re.search(rf"(?m)^{key}", text) or re.search(rf"(?m)(?:^\s+|[{{,]\s*){key}", text)
    return (("policy", Span(*match.span(1)) if match is not None else view.plan.span),)
