"""Lint finds a name that nothing has wherever a plan reads names, and points at it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rows import rows

from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

READ = "{{ params.nmae }}"


def found(task: dict[str, Any], **keys: Any) -> list[tuple[str, str]]:
    """The codes of what lint finds, with the text it points at."""
    tasks = [{"id": "t", **({} if task.keys() & {"gate", "ask", "command", "loop"} else {"run": ["true"]}), **task}]
    document = {"plan": "p", "params": {"name": "x"}, "defaults": {"timeout": "1m"}, "tasks": tasks, **keys}
    text = json.dumps(document, indent=1)
    findings = load(Source(text, "p.json", "json"), Registry()).findings
    return [(each.code, text[each.span.start : each.span.end]) for each in findings if each.severity != "note"]


@rows(
    "task",
    [
        {"command": f"Write down {READ}"},
        {"matrix": {"a": ["x"], "include": [{"a": READ}]}},
        {"matrix": {"a": ["x"], "exclude": [{"a": READ}]}},
        {"ask": "how many?", "form": {"n": {"type": "any", "default": READ}}},
        {"fresh": {"inputs": [READ]}},
        {"fresh": {"inputs": ["in"], "outputs": [READ]}},
    ],
)
def test_a_parameter_that_the_plan_lacks(task: dict[str, Any]) -> None:
    assert ("PLAN201", "nmae") in found(task)


@pytest.mark.parametrize("gate", [{"ask": READ}, {"checks": ["params.nmae == 1"]}, {"ask": "?", "evidence": [READ]}])
def test_a_parameter_that_the_plan_lacks_in_a_gate_that_a_label_demands(gate: dict[str, Any]) -> None:
    assert ("PLAN201", "nmae") in found({"labels": ["prod"]}, policy={"gates": {"prod": gate}})


@pytest.mark.parametrize(
    "keys", [{"artifacts": [{"name": "a", "path": "{{ outputs.n }}"}]}, {"outputs": {"n": {"path": "{{ stdout }}"}}}]
)
def test_what_an_attempt_gives_in_a_path_that_is_filled_in_before_it(keys: dict[str, Any]) -> None:
    assert [code for code, _ in found(keys)] == ["PLAN201"]


def test_a_filter_that_there_is_not() -> None:
    assert found({"run": ["echo", "{{ params.name | lenght }}"]}) == [("PLAN208", "lenght")]


def test_a_task_that_is_to_stand_in() -> None:
    mode = {"name": "oom", "detect": "exit_code == 137", "recover": "samller"}
    smaller = {"id": "smaller", "run": ["true"]}
    tasks = [{"id": "t", "run": ["true"], "failure_modes": [mode]}, smaller]
    assert ("PLAN101", '"samller"') in found({}, tasks=tasks)


def test_a_key_of_a_value_that_a_loop_carries() -> None:
    loop = {"max": 2, "tasks": [{"id": "w", "run": ["true"]}], "carry": {"n": {"first": 1, "nxt": 2}}}
    assert found({"loop": loop}) == [("PLAN003", '"nxt"')]


def test_the_items_of_a_fan_out_are_there_for_the_end_of_a_round_as_for_other_tasks() -> None:
    loop = {
        "max": 2,
        "tasks": [{"id": "w", "foreach": ["a"], "run": ["true"]}],
        "until": "all([w.ok for w in tasks.w.items])",
        "carry": {"n": {"first": [], "next": "{{ [w.item for w in tasks.w.items if w.faild] }}"}},
    }
    assert found({"loop": loop}) == [("PLAN201", "faild")]
