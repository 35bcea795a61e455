"""Lint knows which words `run.status` may be, and the types of what `run` has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source


def found(when: str, last: str = "true", **keys: Any) -> list[tuple[str, str, str]]:
    """Code, message and help of what lint finds in conditions of a task and of one under ``finally``."""
    tasks = [{"id": "a", "run": "true", "when": when}]
    finals = [{"id": "z", "run": "true", "when": last}]
    document = {"plan": "p", "defaults": {"timeout": "1m"}, "tasks": tasks, "finally": finals, **keys}
    findings = load(Source(json.dumps(document), "p.json", "json"), Registry()).findings
    return [(each.code, each.message, each.help) for each in findings if "always true" not in each.message]


@pytest.mark.parametrize("word", ["completed", "failed", "cancelled"])
def test_a_word_that_the_run_may_come_to_is_fine_under_finally(word: str) -> None:
    assert found("true", f"run.status == '{word}'") == []


@pytest.mark.parametrize(
    ("when", "last", "help_"),
    [
        ("true", "run.status == 'succeeded'", "it is `completed`, `failed`, `cancelled`"),
        ("true", "run.status != 'complete'", "did you mean `completed`?"),
        ("true", "run.status == 'running'", "it is `completed`, `failed`, `cancelled`"),
        ("run.status == 'completed'", "true", "`completed` it is only under `finally`"),
    ],
)
def test_a_word_that_it_is_never_is_told(when: str, last: str, help_: str) -> None:
    ((code, message, help_of),) = found(when, last)
    assert (code, "`run.status` is never" in message, help_ in help_of) == ("PLAN206", True, True)


@pytest.mark.parametrize(
    "text",
    [
        "{% if run.status == 'succeeded' %}well{% endif %}",
        "{% for x in [1] %}{{ x if run.status != 'done' else 2 }}{% endfor %}",
        "{{ run.status == 'running' }}",
    ],
)
def test_a_word_that_it_is_never_is_told_inside_a_text(text: str) -> None:
    document = {"plan": "p", "defaults": {"timeout": "1m"}, "tasks": [{"id": "a", "run": "true"}]}
    finals = [{"id": "z", "uses": "noop", "with": {"value": text}}]
    findings = load(Source(json.dumps({**document, "finally": finals}), "p.json", "json"), Registry()).findings
    assert [(each.code, "`run.status` is never" in each.message) for each in findings] == [("PLAN206", True)]


def test_what_run_has_is_typed() -> None:
    assert found("true", "run.duration > 5m and run.failures[0].class == 'logic' and plan.name == 'p'") == []
    assert found("true", "run.duration > 5MB")[0][0] == "PLAN205"
    assert found("true", "run.failures[0].clas == 'logic'")[0][0] == "PLAN201"


def test_the_name_of_a_run_is_that_of_its_plan() -> None:
    ((code, message, help_),) = found("true", "run.name == 'p'")
    assert (code, message) == ("PLAN201", "`run` has no `name`") and "`plan.name`" in help_
