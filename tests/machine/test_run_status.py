"""``run`` under ``finally``: what the run comes to, what failed in it and how long it took."""

from __future__ import annotations

from typing import Any

import pytest
from rows import rows
from simulator.rehearsal import rehearse
from workbench import plan

from planrunner.machine.events import Outcome

BAD = Outcome("logic", "broken", duration=2.0)
WORDS = ("completed", "failed", "cancelled", "running")


def asks(*needs: str) -> list[dict[str, Any]]:
    """A task for each word that the status may be, which runs where it is."""
    return [{"id": word, "run": "say", "when": f"run.status == '{word}'", "needs": list(needs)} for word in WORDS]


def said(ran: Any, inside: str = "") -> list[str]:
    return [word for word in WORDS if ran.statuses().get(inside + word) == "completed"]


def task(name: str = "work", **keys: Any) -> dict[str, Any]:
    return {"id": name, "run": "work", **keys}


@rows(
    ("outcome", "keys", "word"),
    [
        (Outcome(exit_code=0), {}, "completed"),
        (BAD, {}, "failed"),
        (BAD, {"on_failure": "continue"}, "failed"),
        (Outcome("cancelled", "by ann: not needed"), {}, "cancelled"),
        (Outcome(exit_code=0, duration=60.0), {"budgets": {"time": "30s"}}, "failed"),
        (Outcome(exit_code=0, duration=60.0), {"deadline": "30s"}, "failed"),
    ],
)
def test_it_is_what_the_run_comes_to(outcome: Outcome, keys: dict[str, Any], word: str) -> None:
    ran = rehearse(plan(task(), **{"finally": asks(), **keys}), {"work": [outcome]})
    assert (said(ran), ran.state.status) == ([word], word)


def test_a_run_that_was_rolled_back_failed() -> None:
    tasks = [task("make", rollback={"run": "undo"}), task("bad", needs=["make"])]
    ran = rehearse(plan(*tasks, on_failure="rollback", **{"finally": asks()}), {"bad": [BAD]})
    assert (said(ran), ran.state.reason) == (["failed"], "rolled_back")


def test_a_failure_that_is_made_good_counts_for_nothing() -> None:
    tasks = [task(on_failure={"to": "mend", "recovers": True}), task("mend"), task("may", allow_failure=True)]
    listed = {"id": "none", "run": "say", "when": "run.failures is empty"}
    ran = rehearse(plan(*tasks, **{"finally": [*asks(), listed]}), {"work": [BAD], "may": [BAD]})
    assert (said(ran), ran.statuses()["none"]) == (["completed"], "completed")


def test_what_fails_under_finally_is_seen_by_what_comes_after_it() -> None:
    after = [{**each, "join": "always"} for each in asks("tidy")]
    assert said(rehearse(plan(task(), **{"finally": [task("tidy"), *after]}), {"tidy": [BAD]})) == ["failed"]


def test_before_finally_it_says_whether_the_run_is_failing() -> None:
    watch = [{**each, "join": "always"} for each in asks("work")]
    assert said(rehearse(plan(task(), *watch))) == ["running"]
    assert said(rehearse(plan(task(), *watch, on_failure="continue"), {"work": [BAD]})) == ["failed"]


def test_a_loop_and_a_fan_out_under_finally_see_the_same() -> None:
    items = {"id": "each", "foreach": [1], "run": "say {{ run.status }}", "when": "run.status == 'completed'"}
    rounds = {"id": "again", "loop": {"max": 1, "tasks": asks()}}
    ran = rehearse(plan(task(), **{"finally": [items, rounds]}))
    assert (ran.statuses()["each[0]"], said(ran, "again#1/")) == ("completed", ["completed"])


@pytest.mark.parametrize(("outcome", "word"), [(Outcome(exit_code=0), "completed"), (BAD, "failed")])
def test_a_subplan_sees_what_it_comes_to_itself(outcome: Outcome, word: str) -> None:
    inner = {"tasks": [task("inner")], "finally": asks()}
    tasks = plan(task(), {"id": "part", "subplan": "s"}, subplans={"s": inner}, on_failure="continue")
    ran = rehearse(tasks, {"part/inner": [outcome], "work": [BAD]})
    assert (said(ran, "part/"), ran.state.status) == ([word], "failed")


def test_failures_have_task_class_and_message_and_the_run_its_duration() -> None:
    first = "run.failures[0].task == 'work' and run.failures[0].class == 'logic'"
    told = {"id": "told", "run": "say", "when": f"{first} and run.failures[0].message == 'broken'"}
    long = {"id": "long", "run": "say", "when": "run.duration >= 2s and run.duration < 3s"}
    ran = rehearse(plan(task(), **{"finally": [told, long]}), {"work": [BAD]})
    assert (ran.statuses()["told"], ran.statuses()["long"]) == ("completed", "completed")


@pytest.mark.parametrize(
    ("outcome", "keys", "kind", "words"),
    [
        (Outcome(exit_code=0, duration=60.0), {"budgets": {"time": "30s"}}, "budget", "time budget of the plan"),
        (Outcome(exit_code=0, duration=60.0), {"deadline": "30s"}, "deadline", "deadline"),
        (Outcome(exit_code=0, usage={"tokens": 9}), {"budgets": {"tokens": 5}}, "budget", "tokens budget of the plan"),
    ],
)
def test_a_limit_that_ended_the_run_is_among_its_failures(
    outcome: Outcome, keys: dict[str, Any], kind: str, words: str
) -> None:
    said = f"run.failures[0].class == '{kind}' and '{words}' in run.failures[0].message and run.failures[0].task == ''"
    told = {"id": "told", "run": "say", "when": f"len(run.failures) == 1 and {said}"}
    ran = rehearse(plan(task(), task("next", needs=["work"]), **{"finally": [told]}, **keys), {"work": [outcome]})
    assert (ran.state.status, ran.statuses()["told"]) == ("failed", "completed")
