"""The lint rules of plugins: registered under codes of their own, and guarded, so that a faulty one stops nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.faults import Overdue, interrupts, within
from planrunner.diagnostics import RULES, Diagnostic, Rule
from planrunner.plugins.problems import Problems, one_line
from planrunner.plugins.wellformed import odd_finding, odd_rule

if TYPE_CHECKING:
    from planrunner.plan.rules.view import PlanView
    from planrunner.plugins.hooks import Hooks

    Check = Callable[[PlanView], Iterable[Diagnostic]]


LIMIT = 10.0
"""Seconds that a check may take for one plan."""


def rules_of(hooks: Hooks, problems: Problems) -> tuple[tuple[Rule, Check], ...]:
    """Every rule that plugins register, each with its check."""
    found: dict[str, tuple[Rule, Check]] = {}

    def register(rule: Rule, check: Check) -> None:
        if why := odd_rule(rule):
            raise ValueError(f"a rule is left out: {why}")
        if rule.code.startswith("PLAN") or rule.code in found:
            raise ValueError(f"the code `{rule.code}` is taken")
        found[rule.code] = (rule, _guarded(rule, hooks.calling, check, problems))

    hooks.call("planrunner_register_rules", register=register)
    return tuple(found.values())


def _guarded(rule: Rule, plugin: str, check: Check, problems: Problems) -> Check:
    """A check that finds nothing where it raises or does not end, and nothing that is no finding: the plugin is named
    and lint goes on."""
    what = f"the rule {rule.code} ({rule.name}) of the plugin {plugin}"

    def guarded(view: PlanView) -> Iterable[Diagnostic]:
        try:
            found: list[Any] = within(LIMIT, what, lambda _: list(check(view)))
        except Overdue as late:
            problems.add(plugin, str(late))
            return []
        except BaseException as error:  # whatever a plugin raises is its own fault
            if interrupts(error):
                raise
            problems.add(plugin, f"{what} raised {one_line(error)}")
            return []
        odd = [odd_finding(each, RULES, len(view.source.text)) for each in found]
        if why := next(filter(None, odd), ""):
            problems.add(plugin, f"{what} gave {why}")
        return [each for each, why in zip(found, odd) if not why]

    return guarded
