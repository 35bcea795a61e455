"""``defaults: {with: …}``: inputs for every call of a capability, wherever the plan calls it."""

from __future__ import annotations

from typing import Any

import pytest
import workbench

from planrunner.plan.load import Loaded
from planrunner.plan.tasks import every

GIVEN = {"http.get": {"headers": {"Accept": "text/plain"}, "retries": 2}}
URL = "https://example.org/"


def loaded(*tasks: dict[str, Any], given: dict[str, Any] = GIVEN, **keys: Any) -> Loaded:
    return workbench.loaded(*tasks, **{"defaults": {"timeout": "1m", "with": given}, **keys})


def inputs(*tasks: dict[str, Any], **keys: Any) -> dict[str, Any]:
    plan = loaded(*tasks, **keys).plan
    assert plan is not None
    return {task.id: task.inputs for task in every(plan.tasks) if task.uses}


def get(name: str, **given: Any) -> dict[str, Any]:
    return {"id": name, "uses": "http.get", "with": {"url": URL, **given}}


def test_every_call_of_the_capability_has_them_and_its_own_come_first() -> None:
    found = inputs(
        get("a"), get("b", headers={}), {"id": "c", "uses": "noop"}, given={"http.get": {"headers": {"A": "b"}}}
    )
    assert found["a"] == {"url": URL, "headers": {"A": "b"}}
    assert found["b"] == {"url": URL, "headers": {}}
    assert not found["c"]


@pytest.mark.parametrize(
    "task",
    [
        {"id": "x", "subplan": [get("in")]},
        {"id": "x", "loop": {"max": 2, "tasks": [get("in")]}},
        {"id": "x", "foreach": [URL], "uses": "http.get", "with": {"url": "{{ item }}"}},
        {"id": "x", "using": "http", "run": "get", "with": {"url": URL}},
        {"id": "x", "command": f'http.get("{URL}") -> page'},
    ],
)
def test_calls_inside_containers_and_commands_have_them_too(task: dict[str, Any]) -> None:
    found = inputs(task, given={"http.get": {"headers": {"A": "b"}}})
    assert [each["headers"] for each in found.values() if each] == [{"A": "b"}]


def test_what_undoes_a_task_has_them_too() -> None:
    undo = {"id": "a", "run": "x", "rollback": {"uses": "noop"}}
    plan = loaded(undo, given={"noop": {"value": 7}}).plan
    assert plan is not None
    assert plan.tasks[0].rollback is not None
    assert plan.tasks[0].rollback.inputs == {"value": 7}


def findings(*tasks: dict[str, Any], given: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each.code, each.message, each.help) for each in loaded(*tasks, given=given).findings]


def test_inputs_for_what_nothing_calls_are_a_finding_with_the_name_that_was_meant() -> None:
    said = "`defaults` gives inputs to `http.gett`, which no task calls"
    assert ("PLAN021", said, "did you mean `http.get`?") in findings(get("a"), given={"http.gett": {"headers": {}}})


def test_an_input_that_the_capability_does_not_take_is_a_finding() -> None:
    found = findings(get("a"), given={"http.get": {"haeders": {}}})
    assert [code for code, message, _ in found if "`haeders`" in message] == ["PLAN008"]
    assert any("`value` " in message or "path" in message for _, message, _ in findings(
        {"id": "a", "uses": "files.read"}, given={"files.read": {"path": ["x"]}}
    ))  # fmt: skip
