"""The lint rules of plugins: registered under codes of their own, and guarded, so that a faulty one stops nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.faults import Overdue, interrupts, within
from planrunner.diagnostics import RULES, Diagnostic, Edit, Fix, Label, Rule
from planrunner.plugins.reports import Problems, one_line
from planrunner.source import Span

if TYPE_CHECKING:
    from planrunner.plan.rules.view import PlanView
    from planrunner.plugins.hooks import Hooks

    Check = Callable[[PlanView], Iterable[Diagnostic]]

LIMIT = 10.0
"""Seconds that a check may take for one plan."""


def rules_of(hooks: Hooks, problems: Problems) -> tuple[tuple[Rule, Check], ...]:
    """Every rule that plugins register, each with its check."""
    rules: dict[str, tuple[Rule, Check]] = {}

    def register(rule: Rule, check: Check) -> None:
        if why := odd_rule(rule):
            raise ValueError(f"a rule is left out: {why}")
        if rule.code.startswith("PLAN") or rule.code in rules:
            raise ValueError(f"the code `{rule.code}` is taken")
        rules[rule.code] = (rule, _guarded(rule, hooks.calling, check, problems))

    hooks.call("planrunner_register_rules", register=register)
    return tuple(rules.values())


def _guarded(rule: Rule, plugin: str, check: Check, problems: Problems) -> Check:
    """A check that finds nothing where it raises or does not end, and nothing but findings: the plugin is named
    and lint goes on."""
    what = f"the rule {rule.code} ({rule.name}) of the plugin {plugin}"

    def guarded(view: PlanView) -> Iterable[Diagnostic]:
        try:
            findings: list[Any] = within(LIMIT, what, lambda _: list(check(view)))
        except Overdue as late:
            problems.add(plugin, str(late))
            return []
        except BaseException as error:  # whatever a plugin raises is its own fault
            if interrupts(error):
                raise
            problems.add(plugin, f"{what} raised {one_line(error)}")
            return []
        odd = [odd_finding(each, RULES, len(view.source.text)) for each in findings]
        if why := next(filter(None, odd), ""):
            problems.add(plugin, f"{what} gave {why}")
        return [each for each, why in zip(findings, odd) if not why]

    return guarded


_SEVERITIES = ("error", "warning", "note")


def odd_rule(rule: object) -> str:
    """Why something cannot be registered as a rule; empty where it can."""
    if not isinstance(rule, Rule):
        return f"it is a {type(rule).__name__}, not a Rule"
    for field in rule._fields:
        value: object = getattr(rule, field)
        if not isinstance(value, str) or not value:
            return f"its `{field}` is {_shown(value)}, which has to be a text"
    if rule.severity not in _SEVERITIES:
        return f"its severity is `{rule.severity}`, which is not one of {', '.join(_SEVERITIES)}"
    return ""


def odd_finding(finding: object, codes: Collection[str], size: int) -> str:
    """Why something is not a finding about a plan of ``size`` characters; empty where it is. ``codes`` are those of
    all rules."""
    if not isinstance(finding, Diagnostic):
        return f"a {type(finding).__name__}, not a Diagnostic"
    for field, fits, wanted in _FIELDS:
        if not fits(getattr(finding, field)):
            return f"a Diagnostic whose `{field}` is {_shown(getattr(finding, field))}, which has to be {wanted}"
    if finding.code not in codes:
        return f"a Diagnostic with the code `{finding.code}`, which no rule has"
    if beyond := next((span for span in _spans(finding) if not 0 <= span.start <= span.end <= size), None):
        return f"a Diagnostic with the place {tuple(beyond)}, and the plan has {size} characters"
    return ""


def _spans(finding: Diagnostic) -> Iterable[Span]:
    yield finding.span
    yield from (label.span for label in finding.labels)
    yield from (edit.span for edit in (finding.fix.edits if finding.fix is not None else ()))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_span(value: object) -> bool:
    return isinstance(value, Span) and all(isinstance(offset, int) for offset in value)


def _are_labels(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(each, Label) and _is_span(each.span) and _is_text(each.text) for each in value
    )


def _is_fix(value: object) -> bool:
    if not isinstance(value, Fix):
        return value is None
    edits: object = value.edits
    return _is_text(value.title) and isinstance(edits, tuple) and all(map(_is_edit, edits))


def _is_edit(value: object) -> bool:
    return isinstance(value, Edit) and _is_span(value.span) and _is_text(value.text)


_FIELDS: tuple[tuple[str, Callable[[object], bool], str], ...] = (
    ("code", _is_text, "a text"),
    ("message", _is_text, "a text"),
    ("span", _is_span, "a Span"),
    ("label", _is_text, "a text"),
    ("labels", _are_labels, "a tuple of Label"),
    ("help", _is_text, "a text"),
    ("fix", _is_fix, "a Fix or None"),
)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # it is an object of the plugin
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}…"
