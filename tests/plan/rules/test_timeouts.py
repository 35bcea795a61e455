"""Tasks without a timeout are told once where one line would give it to all of them."""

from __future__ import annotations

from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

SUBPLANS = """
plan: def
defaults: {timeout: 1m}
subplans:
  s:
    tasks:
      - {id: one, run: sleep 70}
      - {id: two, run: sleep 70}
  t:
    defaults: {timeout: 1m}
    tasks:
      - {id: one, run: sleep 70}
tasks:
  - {id: call, subplan: s}
  - {id: other, subplan: t}
"""


def found(text: str) -> list[tuple[str, str, str]]:
    findings = load(Source(text, "p.yaml", "yaml"), Registry()).findings
    return [(each.code, each.message, each.help) for each in findings]


def test_a_subplan_without_defaults_is_told_once_that_those_of_the_plan_do_not_hold_in_it() -> None:
    ((code, message, help_),) = found(SUBPLANS)
    assert (code, message) == ("PLAN501", "`one`, `two` in the subplan `s` have no timeout and could run forever")
    assert "`defaults` of the plan do not apply inside `subplans`: add `defaults: {timeout: 10m}` to `s`" in help_


def test_a_wrong_default_timeout_is_told_alone() -> None:
    text = "plan: p\ndefaults: {timeout: 5 min}\ntasks:\n  - {id: a, run: sleep 1}\n  - {id: b, run: sleep 1}\n"
    assert [code for code, _, _ in found(text)] == ["PLAN006"]
