"""The lint rules of plugins: registered under codes of their own, and guarded, so that a faulty one stops nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.plugins.problems import FAULTS, Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from planrunner.diagnostics import Diagnostic, Rule
    from planrunner.plan.rules.view import PlanView
    from planrunner.plugins.hooks import Hooks

    Check = Callable[[PlanView], Iterable[Diagnostic]]


def rules_of(hooks: Hooks, problems: Problems) -> tuple[tuple[Rule, Check], ...]:
    """Every rule that plugins register, each with its check."""
    found: dict[str, tuple[Rule, Check]] = {}

    def register(rule: Rule, check: Check) -> None:
        if rule.code.startswith("PLAN") or rule.code in found:
            raise ValueError(f"the code `{rule.code}` is taken")
        found[rule.code] = (rule, _guarded(rule, check, problems))

    hooks.call("planrunner_register_rules", register=register)
    return tuple(found.values())


def _guarded(rule: Rule, check: Check, problems: Problems) -> Check:
    """A check that finds nothing where it raises: the plugin is named and lint goes on."""

    def guarded(view: PlanView) -> Iterable[Diagnostic]:
        try:
            return list(check(view))
        except FAULTS as error:  # whatever a plugin raises is its own fault
            problems.add("", f"the rule {rule.code} ({rule.name}) raised {type(error).__name__}: {error}")
            return []

    return guarded
