"""Lint asks for a limit where a capability spends what a budget limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planrunner.plan.load import load
from planrunner.plan.model import Capability
from planrunner.plan.rules import budgets
from planrunner.plan.rules.view import view_of
from planrunner.plugins.registry import Registry
from planrunner.source import Source

SPENDING = {"shell": Capability("shell", takes_run=True, spends=("cost", "calls"))}


def found(*tasks: dict[str, Any], **keys: Any) -> list[str]:
    source = Source(json.dumps({"plan": "p", "tasks": list(tasks), **keys}), "p.json", "json")
    plan = load(source, Registry()).plan
    assert plan is not None
    return [finding.message for finding in budgets.check_spending(view_of(plan, source, SPENDING))]


def test_spending_without_a_limit_of_its_own_is_found_at_any_depth() -> None:
    task = {"id": "a", "run": "work"}
    [message] = found(task, budgets={"cost": "$1"})
    assert "`shell` of `a` spends cost" in message
    assert len(found({"id": "sub", "subplan": [task], "budgets": {"cost": "$1"}})) == 1
    assert len(found({"id": "loop", "loop": {"max": 2, "tasks": [task]}}, budgets={"cost": "$1"})) == 1


def test_what_says_its_limit_or_is_not_limited_is_fine() -> None:
    capped = {"id": "a", "run": "work", "budgets": {"cost": "$0.10"}}
    assert not found(capped, budgets={"cost": "$1"})
    assert not found({"id": "a", "run": "work"}, budgets={"calls": 5, "tokens": 10})
    assert not found({"id": "a", "run": "work"}, budgets={"cost": "$1"}, defaults={"budgets": {"cost": "$0.10"}})


REPORTS = {"id": "a", "run": "work; echo 'cost=$0.1' >> \"$PLANRUNNER_USAGE\""}


def findings(*tasks: dict[str, Any], **keys: Any) -> list[tuple[str, str]]:
    source = Source(json.dumps({"plan": "p", "tasks": list(tasks), **keys}), "p.json", "json")
    return [
        (finding.code, finding.help)
        for finding in load(source, Registry()).findings
        if finding.code in ("PLAN506", "PLAN511")
    ]


def test_a_script_that_reports_what_a_budget_limits_is_asked_for_a_limit_of_its_own() -> None:
    asked = [("PLAN511", "add `budgets: {cost: …}`")]
    assert findings(REPORTS, budgets={"cost": "$1", "tokens": 5}) == asked
    assert findings({"id": "sub", "subplan": [REPORTS], "budgets": {"cost": "$1"}}) == asked
    assert findings({**REPORTS, "foreach": [1, 2]}, budgets={"cost": "$1"}) == asked
    unnamed = {"id": "a", "run": './work --usage "$PLANRUNNER_USAGE"'}
    assert findings(unnamed, budgets={"cost": "$1", "tokens": 5}) == [
        ("PLAN511", "add `budgets: {cost: …, tokens: …}`")
    ]
    code = {"id": "a", "uses": "python.run", "with": {"code": "import os; open(os.environ['PLANRUNNER_USAGE'])"}}
    assert findings(code, budgets={"tokens": 5}) == [("PLAN511", "add `budgets: {tokens: …}`")]


def test_a_script_that_reports_within_its_own_limit_or_under_none_is_fine() -> None:
    assert not findings({**REPORTS, "budgets": {"cost": "$0.1"}}, budgets={"cost": "$1"})
    assert not findings(REPORTS, budgets={"cost": "$1"}, defaults={"budgets": {"cost": "$0.1"}})
    assert not findings(REPORTS, budgets={"tokens": 5, "calls": 3})
    assert not findings({"id": "a", "run": "work"}, budgets={"cost": "$1"})


def test_a_linked_plan_is_asked_for_limits_where_a_budget_around_it_counts() -> None:
    part = {"tasks": [{"id": "a", "run": "work"}]}
    link = {"id": "sub", "subplan": "part"}
    [message] = found(link, subplans={"part": part}, budgets={"cost": "$1"})
    assert message == "`sub/a` spends cost, which a budget here limits, without a limit of its own"
    assert len(found({**link, "budgets": {"cost": "$1"}}, subplans={"part": part})) == 1
    assert len(found({"id": "in", "subplan": [link]}, subplans={"part": part}, budgets={"cost": "$1"})) == 1
    limited = {**part, "defaults": {"budgets": {"cost": "$0.10"}}}
    assert not found(link, subplans={"part": limited}, budgets={"cost": "$1"})
    assert not found(link, subplans={"part": part}, budgets={"calls": 3})
    reports = {"tasks": [{"timeout": "1m", **REPORTS}]}
    assert [code for code, _ in findings(link, subplans={"part": reports}, budgets={"cost": "$1"})] == ["PLAN511"]


@pytest.mark.parametrize(("limit", "codes"), [("cost: 1 EUR", []), ("tokens: 10kB", ["PLAN511"])])
def test_a_limit_that_is_no_amount_is_not_reported_as_missing_too(limit: str, codes: list[str]) -> None:
    task = f"{{id: a, budgets: {{{limit}}}, run: 'echo cost=1 >> $PLANRUNNER_USAGE'}}"
    text = f"plan: p\nbudgets: {{cost: $1}}\ntasks:\n  - {task}\n"
    found = [each.code for each in load(Source(text, "p.yaml", "yaml"), Registry()).findings]
    assert [code for code in found if code in ("PLAN506", "PLAN511")] == codes and "PLAN006" in found
