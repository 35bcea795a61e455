"""What a task may read of its own attempt: the number, the time, an identifier and why the last one failed."""

from __future__ import annotations

from typing import Any

import pytest
from rows import rows
from simulator.rehearsal import Rehearsal, rehearse
from workbench import plan

from planrunner.app.proof.lives import START
from planrunner.machine.events import AttemptStarted, Outcome
from planrunner.machine.scope import task_record, utc, uuid


def outputs(ran: Rehearsal, number: int = 0) -> Any:
    return ran.state.tasks[number].outputs


RETRIED = {
    "id": "a",
    "run": "work",
    "retry": {"attempts": 3, "delay": "5s", "jitter": 0},
    "expect": ["stdout == 'good'"],
    "outputs": {
        "said": {"value": "{{ attempt }} {{ retry.failure }}: {{ retry.reason }}"},
        "now": {"value": "{{ now }}"},
    },
}


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (Outcome("transient", "the host hung up", exit_code=75), "2 transient: the host hung up"),
        (Outcome(stdout="bad", exit_code=0), '2 logic: `stdout == "good"` is false: stdout is "bad"'),
    ],
)
def test_a_second_attempt_knows_why_the_first_failed(first: Outcome, said: str) -> None:
    ran = rehearse(plan(RETRIED), {"a": [first, Outcome(stdout="good", exit_code=0)]})
    assert outputs(ran)["said"] == said


def test_a_subplan_is_told_why_its_first_attempt_failed() -> None:
    sub = {"params": {"why": "string"}, "tasks": [{"id": "b", "run": "work"}], "outputs": {"why": "{{ params.why }}"}}
    task = {
        "id": "a",
        "subplan": "s",
        "params": {"why": "{{ attempt }} {{ retry.failure }}: {{ retry.reason }}"},
        "retry": {"attempts": 2, "delay": "5s"},
    }
    ran = rehearse(plan(task, subplans={"s": sub}), {"a/b": [Outcome("logic", "it broke")]})
    assert outputs(ran) == {"why": "2 logic: `a/b` failed: it broke"}


def test_a_first_attempt_has_no_reason() -> None:
    ran = rehearse(plan(RETRIED), {"a": [Outcome(stdout="good", exit_code=0)]})
    assert outputs(ran) == {"said": "1 : ", "now": utc(START)}


def test_the_time_and_the_identifier_are_those_of_the_attempt() -> None:
    task = {**RETRIED, "outputs": {"stamp": {"value": "{{ now }} {{ uuid }}"}}}
    ran = rehearse(plan(task), {"a": [Outcome("transient", "again"), Outcome(stdout="good", exit_code=0)]})
    began = ran.state.tasks[0].began
    assert began >= START + 5
    assert outputs(ran)["stamp"] == f"{utc(began)} {uuid(f'{ran.state.run_id}:a:2')}"


def test_a_call_has_the_time_of_its_own_start() -> None:
    task = {
        "id": "a",
        "uses": "noop",
        "with": {"value": "{{ now }} {{ attempt }}"},
        "retry": {"attempts": 2, "delay": "5s"},
    }
    ran = rehearse(plan(task), {"a": [Outcome("transient", "again"), Outcome(outputs={"value": ""})]})
    digests = {entry.event.inputs for entry in ran.entries if isinstance(entry.event, AttemptStarted)}
    assert len(digests) == 2, "each attempt has a time and a number of its own"


def test_a_handler_reads_the_bare_message_of_the_failure() -> None:
    first = {"id": "a", "run": "work", "on_failure": "say"}
    then = {"id": "say", "uses": "noop", "with": {"value": "{{ tasks.a.message }}"}, "expect": ["outputs.value == 'x'"]}
    ran = rehearse(plan(first, then), {"a": [Outcome("logic", "it broke")], "say": [Outcome(outputs={"value": "x"})]})
    assert ran.statuses()["say"] == "completed"


@rows(
    ("holder", "failing"),
    [
        ({"subplan": [{"id": "x", "run": "x"}]}, "a/x"),
        ({"foreach": [1, 2], "run": "x"}, "a[1]"),
        ({"foreach": [1], "subplan": [{"id": "x", "run": "x"}]}, "a[0]/x"),
        ({"loop": {"max": 2, "until": "loop.round == 2", "tasks": [{"id": "x", "run": "x"}]}}, "a#1/x"),
        ({"subplan": [{"id": "y", "loop": {"max": 1, "tasks": [{"id": "x", "run": "x"}]}}]}, "a/y#1/x"),
        ({"subplan": "part"}, "a/x"),
    ],
)
def test_what_failed_inside_a_task_gives_it_its_bare_message(holder: dict[str, Any], failing: str) -> None:
    part = {"tasks": [{"id": "x", "run": "x"}]}
    ran = rehearse(plan({"id": "a", **holder}, subplans={"part": part}), {failing: [Outcome("logic", "it broke")]})
    record = task_record(ran.state, 0)
    assert (record["status"], record["message"]) == ("failed", "it broke")
    assert record["reason"].endswith("it broke") and record["reason"] != "it broke"


def test_a_task_that_fails_by_itself_says_why_whatever_failed_inside() -> None:
    loop = {"max": 1, "until": "tasks.x.ok", "tasks": [{"id": "x", "run": "x"}]}
    ran = rehearse(plan({"id": "a", "loop": loop}), {"a#1/x": [Outcome("logic", "it broke")]})
    assert "is still false after 1 round" in task_record(ran.state, 0)["message"]


def test_the_run_names_its_directory_and_project() -> None:
    task = {"id": "a", "run": "work", "outputs": {"at": {"value": "{{ run.project }} in {{ run.dir }}"}}}
    ran = rehearse(plan(task), started={"environment": {"directory": "/srv/shop"}})
    assert outputs(ran) == {"at": "shop in /srv/shop"}


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (951_782_399.9, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (1_795_442_700, "2026-11-23T14:05:00Z"),
        (4_102_444_799, "2099-12-31T23:59:59Z"),
    ],
)
def test_a_time_is_written_as_utc(at: float, text: str) -> None:
    assert utc(at) == text


def test_an_identifier_is_a_uuid_of_its_own_for_each_key() -> None:
    from uuid import UUID

    found = {str(UUID(uuid(f"run:a:{number}"))) for number in range(100)}
    assert len(found) == 100
    assert {UUID(each).version for each in found} == {8}
