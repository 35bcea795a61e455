"""Gates that a policy demands for labels: some task has the label, and people are told what they decide."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Gate
from planrunner.plan.rules.view import PlanView, every_task, label_of_no_task
from planrunner.source import Span

LABEL_CODES = ("PLAN605", "PLAN606")

_BY_PEOPLE = frozenset({"approval", "decision"})


def check_labels(view: PlanView) -> Iterable[Diagnostic]:
    if not view.plan.gated or not view.whole:
        return
    tasks = list(every_task(view.plan.tasks))
    elsewhere = any(task.subplan_file and task.sub is None for task in tasks)  # labels that are not known here
    labels = list(dict.fromkeys(label for task in tasks for label in task.labels))
    for label, gate in view.plan.gated:
        if label not in labels:
            if not elsewhere and _is_named(view, label):
                message = f"the gate for the label `{label}` stops nothing: no task has that label"
                yield label_of_no_task(view, ("PLAN606", message, label_place(view, label)), label, labels)
        elif _is_mute(gate):
            yield _mute(view, label)


def _is_named(view: PlanView, label: str) -> bool:
    """Whether the policy names the label itself; `requireGateForProd` stands in plans that deploy nothing as well."""
    policy = view.plan.policy if isinstance(view.plan.policy, dict) else {}
    named = [policy.get(key) for key in ("gates", "labels")]
    return any(isinstance(labels, (dict, list, tuple, str)) and label in labels for labels in named)


def _is_mute(gate: Gate) -> bool:
    """Whether people are asked and nothing is said or shown but the call."""
    asks = gate.kind in _BY_PEOPLE or gate.roles or gate.people
    return bool(asks) and not (gate.ask or gate.options or gate.form or gate.checks or gate.evidence)


def _mute(view: PlanView, label: str) -> Diagnostic:
    message = f"the gate for the label `{label}` has no question: people see the call and nothing else"
    help_ = f'say what they decide: `gates: {{{label}: {{ask: "…"}}}}`'
    return Diagnostic("PLAN605", message, label_place(view, label), help=help_)


def label_place(view: PlanView, label: str) -> Span:
    """Where a label stands under `gates` or `labels` of the policy, else the word that demands a gate for it, else the
    plan's name."""
    text = view.source.text
    policy = re.search(r"(?m)(?:^|[{,])\s*[\"']?polic(?:y|ies)[\"']?\s*:", text)
    if policy is None:
        return view.plan.span
    word = re.compile(rf"(?<![\w-]){re.escape(label)}(?![\w-])")
    lists = re.compile(r"[\"']?\b(?:gates|labels)[\"']?\s*:")
    found = [word.search(text, key.end()) for key in lists.finditer(text, policy.end())]
    first = min((match.span() for match in found if match is not None), default=None)
    if _is_named(view, label) and first is not None:
        return Span(*first)
    at = text.find("requireGateForProd", policy.end())
    return Span(at, at + len("requireGateForProd")) if at >= 0 else view.plan.span
