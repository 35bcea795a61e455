"""A recorded run against an edited plan: the first difference names the task and what of it is another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rows import rows
from simulator.rehearsal import rehearse
from simulator.runs import RUN_ID

from planrunner.engine.replay import replay_edited
from planrunner.machine.events import Outcome, RunStarted
from planrunner.machine.replay import Difference, Replayed
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

REGISTRY = Registry()
Json = dict[str, Any]

BEFORE: Json = {
    "plan": "p",
    "defaults": {"timeout": "1h"},
    "params": {"who": {"type": "string", "default": "world"}},
    "tasks": [
        {"id": "a", "run": "make 'all'\nmake {{ params.who }}", "outputs": {"size": "int"}},
        {
            "id": "b",
            "needs": ["a"],
            "uses": "noop",
            "with": {"value": {"size": "{{ tasks.a.outputs.size }}", "x": [1]}},
        },
        {"id": "c", "needs": ["b"], "run": "publish", "env": {"LEVEL": "1"}, "retry": {"attempts": 2, "delay": "1s"}},
    ],
    "outputs": {"size": "{{ tasks.a.outputs.size }}"},
}
OUTCOMES = {
    "a": [Outcome(outputs={"size": 7}, exit_code=0)],
    "b": [Outcome(outputs={"value": 7})],
    "c": [Outcome("transient", "busy", exit_code=1, duration=1.0), Outcome(exit_code=0)],
}


def read(document: Json) -> Plan:
    loaded = load(Source(json.dumps(document), "p.json", "json"), REGISTRY)
    assert loaded.plan is not None, [finding.message for finding in loaded.findings]
    return loaded.plan


def edited(task: str = "", /, **changes: Any) -> Json:
    """The document with other keys of a task, or of the plan."""
    if not task:
        return {**BEFORE, **changes}
    tasks = [{**one, **changes} if one["id"] == task else one for one in BEFORE["tasks"]]
    return {**BEFORE, "tasks": tasks}


def compare(document: Json, params: Mapping[str, Any] = {"who": "world"}) -> Replayed:
    entries = rehearse(read(BEFORE), OUTCOMES, params={"who": "world"}).entries
    started = entries[0].event
    assert isinstance(started, RunStarted)
    return replay_edited(read(BEFORE), read(document), RUN_ID, entries, started._replace(params=dict(params)))


def first(document: Json, params: Mapping[str, Any] = {"who": "world"}) -> Difference:
    found = compare(document, params).difference
    assert found is not None
    return found


def test_an_edit_that_changes_no_decision_is_no_difference() -> None:
    calm = edited("c", title="Publish it", description="for all to see", retry={"attempts": 5, "delay": "1s"})
    replayed = compare({**calm, "title": "Another title"})
    assert replayed.difference is None
    assert replayed.decided + replayed.inputs == replayed.entries


@rows(
    ("task", "changes", "field", "expected", "got"),
    [
        ("b", {"with": {"value": {"size": "{{ tasks.a.outputs.size }}", "x": [2]}}}, "with.value.x[0]", 1, 2),
        ("c", {"run": "publish --all"}, "run", "publish", "publish --all"),
        ("c", {"env": {"LEVEL": "2"}}, "env.LEVEL", "1", "2"),
        ("c", {"cwd": "sub"}, "cwd", "/", "/sub"),
        ("c", {"timeout": "2h"}, "timeout", 3600.0, 7200.0),
        ("c", {"stdout": "json"}, "stdout", "", "json"),
        ("a", {"outputs": {"size": "string"}}, "outputs.size.type", "int", "string"),
        ("c", {"effect": "idempotent"}, "effect", "unsafe", "idempotent"),
    ],
)
def test_what_a_task_is_called_with_is_compared(
    task: str, changes: Json, field: str, expected: object, got: object
) -> None:
    found = first(edited(task, **changes))
    assert (found.task, found.kind, found.field) == (task, "attempt_started", field)
    assert (found.expected, found.got) == (expected, got)


def test_a_parameter_shows_where_it_is_first_read() -> None:
    found = first(BEFORE, {"who": "moon"})
    assert (found.task, found.field) == ("a", "values.{{ params.who }}")
    assert (found.expected, found.got) == ("world", "moon")


def test_another_rule_shows_where_it_first_decides_otherwise() -> None:
    found = first(edited("c", retry=1))
    assert (found.task, found.kind, found.field) == ("c", "retry_scheduled", "kind")
    assert found.got == "task_settled of `c`"
    found = first(edited("b", expect=["outputs.value == 8"]))
    assert (found.task, found.field, found.expected, found.got) == ("b", "status", "completed", "failed")


def test_another_delay_shows_in_the_time_of_the_next_attempt() -> None:
    found = first(edited("c", retry={"attempts": 2, "delay": "9s"}))
    assert (found.task, found.kind, found.field) == ("c", "retry_scheduled", "due")


def test_a_task_that_is_new_is_named_where_it_would_start() -> None:
    found = first({**BEFORE, "tasks": [*BEFORE["tasks"], {"id": "z", "needs": ["a"], "run": "more"}]})
    assert (found.task, found.expected, found.got) == ("z", None, "z")
    assert found.message == "task `z` is new and would start here"


def test_a_task_that_is_gone_is_named_where_it_was_started() -> None:
    tasks = [one for one in BEFORE["tasks"] if one["id"] != "c"]
    found = first({**BEFORE, "tasks": tasks})
    assert (found.task, found.expected, found.got) == ("c", "c", None)
    assert found.message == "task `c` is not in the plan any more"


def test_a_task_that_is_new_at_the_very_end_is_named() -> None:
    found = first({**BEFORE, "tasks": [*BEFORE["tasks"], {"id": "z", "needs": ["c"], "run": "more"}]})
    assert found.task == "z"
    assert found.message == "task `z` is new and would start here"


def test_a_template_that_has_no_value_any_more_says_why() -> None:
    found = first(edited("b", **{"with": {"value": "{{ env.NOWHERE }}"}}))
    assert (found.task, found.field, found.expected) == ("b", "message", None)
    assert "NOWHERE" in found.got


def test_outputs_of_the_plan_show_at_the_end() -> None:
    found = first(edited(outputs={"size": "{{ tasks.b.outputs.value }}", "more": "x"}))
    assert (found.kind, found.task, found.field, found.got) == ("run_ended", "", "outputs.more", "x")


NESTED: Json = {
    "plan": "nested",
    "defaults": {"timeout": "1h"},
    "params": {"hosts": {"type": "list", "default": ["ada", "bob"]}},
    "tasks": [
        {"id": "visit", "foreach": "params.hosts", "as": "host", "max_items": 9, "run": "visit {{ host }}"},
        {
            "id": "polish",
            "needs": ["visit"],
            "loop": {
                "max": 3,
                "until": "loop.round == 2",
                "carry": {"draft": {"first": "begin", "next": "round {{ loop.round }}"}},
                "tasks": [{"id": "write", "run": "write {{ carry.draft }}"}],
            },
        },
    ],
}


def first_nested(document: Json, hosts: list[str]) -> Difference | None:
    entries = rehearse(read(NESTED), params={"hosts": ["ada", "bob"]}).entries
    started = entries[0].event
    assert isinstance(started, RunStarted)
    begun = started._replace(params={"hosts": hosts})
    return replay_edited(read(NESTED), read(document), RUN_ID, entries, begun).difference


def polished(**changes: Any) -> Json:
    visit, polish = NESTED["tasks"]
    return {**NESTED, "tasks": [visit, {**polish, "loop": {**polish["loop"], **changes}}]}


def test_items_rounds_and_steps_are_matched_by_their_paths() -> None:
    assert first_nested(NESTED, ["ada", "bob"]) is None
    found = first_nested(polished(tasks=[{"id": "write", "run": "write it {{ carry.draft }}"}]), ["ada", "bob"])
    assert found is not None
    assert (found.task, found.field) == ("polish#1/write", "run")
    more = [{"id": "write", "run": "write {{ carry.draft }}"}, {"id": "read", "run": "read"}]
    found = first_nested(polished(tasks=more), ["ada", "bob"])
    assert found is not None
    assert found.message == "task `polish#1/read` is new and would start here"


def test_other_items_and_carried_values_are_named_where_the_task_begins() -> None:
    found = first_nested(NESTED, ["ada", "eve"])
    assert found is not None
    assert (found.task, found.field, found.expected, found.got) == ("visit", "items[1]", "bob", "eve")
    found = first_nested(NESTED, ["ada", "bob", "eve"])
    assert found is not None
    assert (found.task, found.field, found.expected, found.got) == ("visit", "items[2]", None, "eve")
    carry = {"draft": {"first": "start", "next": "round {{ loop.round }}"}}
    found = first_nested(polished(carry=carry), ["ada", "bob"])
    assert found is not None
    assert (found.task, found.field, found.expected, found.got) == ("polish", "carry.draft", "begin", "start")


def test_another_end_of_a_loop_is_found_where_the_round_ends() -> None:
    found = first_nested(polished(until="loop.round == 1"), ["ada", "bob"])
    assert found is not None
    assert (found.task, found.kind, found.field) == ("polish", "frame_opened", "kind")
