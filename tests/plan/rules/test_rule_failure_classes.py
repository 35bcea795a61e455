"""Names of outcomes and failure classes that look like a misspelt one are findings at their place."""

from __future__ import annotations

import pytest

from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

HEAD = "plan: p\ndefaults: {timeout: 5m}\ntasks:\n"


def found(task: str) -> list[tuple[str, str, str]]:
    text = f"{HEAD}  - {task}\n  - {{id: b, run: y}}\n"
    findings = load(Source(text, "p.yaml", "yaml"), Registry()).findings
    return [
        (each.code, text[each.span.start : each.span.end], each.message) for each in findings if each.code == "PLAN201"
    ]


@pytest.mark.parametrize(
    ("task", "wrong", "meant"),
    [
        ("{id: a, run: x, next: [{on: succes, to: b}]}", "succes", "success"),
        ("{id: a, run: x, next: [{on: failre, to: b}]}", "failre", "failure"),
        ("{id: a, run: x, retry: {attempts: 2, on: [transiet]}}", "transiet", "transient"),
        ("{id: a, run: x, failure_modes: [{name: full}], next: [{on: ful, to: b}]}", "ful", "full"),
    ],
)
def test_a_misspelt_outcome_or_class_is_an_error_at_its_place(task: str, wrong: str, meant: str) -> None:
    [(_, words, message)] = found(task)
    assert words == wrong
    assert f"did you mean `{meant}`?" in message


@pytest.mark.parametrize("name", ["any", "timeout", "quota_of_a_plugin"])
def test_classes_that_occur_and_those_of_plugins_are_left_alone(name: str) -> None:
    assert found(f"{{id: a, run: x, retry: {{attempts: 2, on: [{name}]}}}}") == []


def errors(text: str, name: str, notation: str) -> list[tuple[str, str, str]]:
    findings = load(Source(text, name, notation), Registry()).findings
    return [
        (each.code, text[each.span.start : each.span.end], each.message)
        for each in findings
        if each.severity == "error"
    ]


@pytest.mark.parametrize(
    "retry", ["retry: {attempts: 3, on: [transiet]}", "retry:\n    attempts: 3\n    on: [transiet]"]
)
@pytest.mark.parametrize("task", ["{id: a, run: x}", "{id: a, run: x, retry: {attempts: 2}}"])
def test_a_misspelt_class_of_the_defaults_is_one_error_at_its_place(task: str, retry: str) -> None:
    text = f"plan: p\ndefaults:\n  timeout: 5m\n  {retry}\ntasks:\n  - {task}\n  - {{id: transie, run: x}}\n"
    message = "`transiet` is not a failure class, did you mean `transient`?"
    assert errors(text, "p.yaml", "yaml") == [("PLAN201", "transiet", message)]


TEXT = """\
plan p
defaults:
  timeout: 5m
  retry: {attempts: 3, on: [transiet]}

task nop
  run: x

task c
  run: x
  on failre -> nop
  retry: {attempts: 2, on: [timout]}
  failure_modes: [{name: full, recover: nopp}]
"""


def test_the_text_notation_has_the_same_findings() -> None:
    assert errors(TEXT, "p.plan", "text") == [
        ("PLAN201", "transiet", "`transiet` is not a failure class, did you mean `transient`?"),
        ("PLAN201", "failre", "`failre` is not an outcome or failure class, did you mean `failure`?"),
        ("PLAN201", "timout", "`timout` is not a failure class, did you mean `timeout`?"),
        ("PLAN101", "nopp", "the plan has no task `nopp`, did you mean `nop`?"),
    ]
