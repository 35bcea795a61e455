"""Constructs that load and are checked but that a run does not carry out yet."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.rights import JUDGED
from planrunner.plan.rules.view import PlanView, names
from planrunner.source import Span

CODES = ("PLAN020",)

_CARRIED_OUT = frozenset({"gates", "labels", "requireGateForProd", *JUDGED, "sandbox"} - {"tools"})
"""Keys of a policy that a run obeys."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    if view.whole and isinstance(view.plan.policy, dict):
        off = {"autonomous"} if view.plan.policy.get("autonomous") is False else set()  # nothing plans on its own
        idle = [str(key) for key in view.plan.policy if key not in _CARRIED_OUT | off]
        if idle:
            place = _plan_key(view, "policies" if "\npolicies" in view.source.text else "policy")
            what = f"the plan's `policy` for {names(idle)}"
            yield _finding(what, place, "nothing is held back by it")
    for task in view.plan.tasks:
        if task.id[-1:] == "*" and task.fanout is None:
            yield _finding(f"the family `{task.id}`", task.span, "no member of it is made without `foreach`")


def _finding(what: str, span: Span, instead: str) -> Diagnostic:
    return Diagnostic("PLAN020", f"{what} is not executed by this version: {instead}", span)


def _plan_key(view: PlanView, key: str) -> Span:
    """The place of a key of the plan itself, which stands at the margin in both notations."""
    text = view.source.text
    at = 0 if text.startswith(key) else text.find(f"\n{key}") + 1
    return Span(at, at + len(key)) if text.startswith(key, at) else view.plan.span
