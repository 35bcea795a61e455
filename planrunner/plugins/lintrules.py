"""The lint rules of plugins: registered under codes of their own, and guarded, so that a faulty one stops nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.capabilities.bounding import Overdue, within
from planrunner.diagnostics import Diagnostic
from planrunner.plugins.problems import Problems, interrupts, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from planrunner.diagnostics import Rule
    from planrunner.plan.rules.view import PlanView
    from planrunner.plugins.hooks import Hooks

    Check = Callable[[PlanView], Iterable[Diagnostic]]


LIMIT = 10.0
"""Seconds that a check may take for one plan."""


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
    """A check that finds nothing where it raises or does not end: the plugin is named and lint goes on."""

    def guarded(view: PlanView) -> Iterable[Diagnostic]:
        what = f"the rule {rule.code} ({rule.name})"
        try:
            found: list[Any] = within(LIMIT, what, lambda _: list(check(view)))
        except Overdue as late:
            problems.add("", str(late))
            return []
        except BaseException as error:  # whatever a plugin raises is its own fault
            if interrupts(error):
                raise
            problems.add("", f"{what} raised {one_line(error)}")
            return []
        odd = [each for each in found if not isinstance(each, Diagnostic)]
        if odd:
            problems.add("", f"{what} gave a {type(odd[0]).__name__}, not a Diagnostic")
        return [each for each in found if isinstance(each, Diagnostic)]

    return guarded
