"""What lint rules say and why: their table and their explanations."""

from __future__ import annotations

import os
from typing import Any

import planrunner
from planrunner.diagnostics import RULES, Rule
from planrunner.errors import NotFound
from planrunner.plan.nearest import nearest


def rule_objects(wanted: str | None = None) -> list[dict[str, Any]]:
    """The rules as JSON data: ``code, name, severity, title, explanation``. Raises NotFound for a code or name that no
    rule has."""
    rules = list(RULES.values()) if wanted is None else [_find(wanted)]
    return [{**rule._asdict(), "explanation": _explanation(rule.code)} for rule in rules]


def explain_rule(code: str) -> str:
    """A rule for people: its explanation, or its line of the table where none is installed."""
    rule = RULES[code]
    return _explanation(code).strip() or f"{rule.code} {rule.name} ({rule.severity}): {rule.title}"


def _find(wanted: str) -> Rule:
    for rule in RULES.values():
        if wanted.upper() == rule.code or wanted.lower() == rule.name:
            return rule
    near = nearest(wanted.upper(), RULES) or nearest(wanted.lower(), [rule.name for rule in RULES.values()])
    raise NotFound(f"there is no rule `{wanted}`", f"did you mean `{near}`?" if near else "planrunner rule --all")


def _explanation(code: str) -> str:
    path = os.path.join(os.path.dirname(planrunner.__file__), "explanations", f"{code}.md")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
