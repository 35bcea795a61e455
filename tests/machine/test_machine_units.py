"""Outputs of declared types keep their unit wherever they are read, and are of that type whatever gives them."""

from __future__ import annotations

from typing import Any

import pytest
from rows import rows
from simulator.rehearsal import rehearse
from workbench import plan

from planrunner.engine.calls import plan_outputs
from planrunner.machine.events import Outcome
from planrunner.machine.scope import TaskScope
from planrunner.plan.templates import render

AMOUNTS = [
    ("duration", 90.0, "1m", "1m30s"),
    ("size", 2000, "1KB", "2KB"),
    ("money", 2.5, "$1", "$2.50"),
    ("percent", 0.25, "7%", "25%"),
]


@rows(("kind", "value", "less", "text"), AMOUNTS)
def test_an_output_with_a_unit_is_compared_and_written_with_it(kind: str, value: float, less: str, text: str) -> None:
    first = {"id": "o", "run": "work", "outputs": {"d": kind}, "expect": [f"outputs.d > {less}"]}
    then = {
        "id": "use",
        "needs": ["o"],
        "uses": "noop",
        "when": f"tasks.o.outputs.d > {less}",
        "with": {"value": "{{ tasks.o.outputs.d }}!"},
    }
    ran = rehearse(plan(first, then), {"o": [Outcome(outputs={"d": value}, exit_code=0)]})
    assert ran.statuses() == {"o": "completed", "use": "completed"}
    assert ran.state.tasks[0].outputs == {"d": value}, "the journal holds plain data"

    assert render(then["with"]["value"], TaskScope(ran.state, 1)) == f"{text}!"  # type: ignore[index]


@pytest.mark.parametrize(("given", "status"), [("7", "completed"), ("seven", "failed")])
def test_an_output_by_a_value_is_of_its_declared_type_or_the_task_fails(given: str, status: str) -> None:
    task = {"id": "a", "run": "work", "outputs": {"n": {"type": "int", "value": "{{ stdout }}"}}}
    ran = rehearse(plan(task), {"a": [Outcome(stdout=given, exit_code=0)]})
    assert ran.statuses() == {"a": status}
    if status == "completed":
        assert ran.state.tasks[0].outputs["n"] == 7


def test_a_fan_out_over_nothing_gives_its_standard_output_as_an_empty_list() -> None:
    ran = rehearse(plan({"id": "fan", "run": "work", "foreach": [], "stdout": "text"}))
    assert ran.state.tasks[0].outputs == {"value": []}


@pytest.mark.parametrize(
    ("kind", "given", "outputs", "words"),
    [
        ("int", "7", {"n": 7}, ""),
        ("duration", "1m30s", {"n": 90.0}, ""),
        ("int", "seven", {"n": None}, 'the output `n` is declared int, found "seven"'),
    ],
)
def test_an_output_of_the_plan_is_of_its_declared_type_or_the_plan_fails(
    kind: str, given: str, outputs: dict[str, Any], words: str
) -> None:
    declared = {"n": {"type": kind, "value": "{{ tasks.a.stdout }}"}}
    ran = rehearse(plan({"id": "a", "run": "work"}, outputs=declared), {"a": [Outcome(stdout=given, exit_code=0)]})
    assert ran.state.outputs == outputs
    assert (ran.state.status == "failed") == bool(words)
    found, problem = plan_outputs(ran.state)
    assert found == outputs
    assert words in problem


def test_an_empty_list_that_a_task_gave_is_empty_for_its_own_criteria_and_for_others() -> None:
    first = {"id": "a", "uses": "noop", "with": {"value": []}, "expect": ["outputs.value is empty"]}
    then = {"id": "b", "run": "work", "needs": ["a"], "when": "tasks.a.outputs.value is empty"}
    ran = rehearse(plan(first, then), {"a": [Outcome(outputs={"value": []}, exit_code=0)]})
    assert ran.statuses() == {"a": "completed", "b": "completed"}


def test_a_scope_shows_a_result_that_the_state_has_not() -> None:
    ran = rehearse(plan({"id": "o", "run": "work", "outputs": {"d": "any"}}), {"o": [Outcome(outputs={"d": 1})]})
    before = ran.state.tasks[0].outcome
    scope = TaskScope(ran.state, 0, overlay={0: ran.state.tasks[0].with_result(Outcome(outputs={"d": 2}), {"d": 2})})
    assert render("{{ outputs.d }} {{ tasks.o.outputs.d }}", scope) == "2 2"
    assert render("{{ outputs.d }} {{ tasks.o.outputs.d }}", TaskScope(ran.state, 0)) == "1 1"
    assert ran.state.tasks[0].outcome is before
