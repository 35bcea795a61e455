"""Constructs that load and are checked but that a run does not carry out yet."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.diagnostics import Diagnostic
from planrunner.plan.rules.view import PlanView, has_key, names, plan_key, span_of
from planrunner.source import Span

CODES = ("PLAN020", "PLAN021")

NOT_OBEYED = frozenset(["tools", "data", "foreign", "autonomous", "budgets", "plans"])
"""Keys of a policy that no run obeys where a plan says them."""


def check(view: PlanView) -> Iterable[Diagnostic]:
    if view.whole and isinstance(view.plan.policy, dict):
        off = {"autonomous"} if view.plan.policy.get("autonomous") is False else set()  # nothing plans on its own
        idle = [str(key) for key in view.plan.policy if key in NOT_OBEYED - off]
        if idle:
            place = plan_key(view, "policies" if "\npolicies" in view.source.text else "policy")
            what = f"the plan's `policy` for {names(idle)}"
            instead = "no plan makes plans on its own here" if idle == ["autonomous"] else "it limits nothing"
            yield _finding(what, place, instead)

    if not view.outer:
        yield from _idle_keys(view)
    for task in view.plan.tasks:
        if isinstance(task.notes, dict) and "validation" in task.notes and has_key(task, "validation"):
            what = f"`validation` of `{task.id}`"
            yield without_effect(what, span_of(task, "validation"), "a list of expressions or words is checked")


IDLE = {
    "hypotheses": "nothing tracks them",
    "memory": "nothing is remembered between runs",
    "labels": "limits and policies look at the labels of tasks",
}
"""Keys of a plan that nothing looks at, and what that means."""


def _idle_keys(view: PlanView) -> Iterable[Diagnostic]:
    notes = view.plan.notes if isinstance(view.plan.notes, dict) else {}
    for key, instead in IDLE.items():
        if notes.get(key) or (key == "hypotheses" and view.plan.hypotheses):
            yield without_effect(f"`{key}` of a plan", plan_key(view, key), instead)


def without_effect(what: str, span: Span, instead: str) -> Diagnostic:
    return Diagnostic("PLAN021", f"{what} has no effect in this version: {instead}", span)


def _finding(what: str, span: Span, instead: str) -> Diagnostic:
    return Diagnostic("PLAN020", f"{what} is not executed by this version: {instead}", span)
