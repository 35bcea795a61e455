"""The ``done`` of a plan decides whether it completes, when everything else of it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import workbench
from rows import rows
from simulator.rehearsal import Rehearsal, rehearse

from planrunner.machine.events import Outcome
from planrunner.machine.explain import why
from planrunner.machine.names import named
from planrunner.machine.rework import reset_event, retried, run_again
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

DONE = "definition-of-done"
GOOD, BAD = Outcome(exit_code=0), Outcome("logic", "exit code 1", exit_code=1)


def plan_of(done: Any, *tasks: dict[str, Any], name: str = "p.json", **keys: Any) -> Plan:
    document = {"plan": "p", "done": done, "defaults": {"timeout": "1h"}, "tasks": list(tasks), **keys}
    loaded = load(Source(json.dumps(document), name, "json"), Registry())
    assert loaded.plan is not None, [finding.message for finding in loaded.findings]
    return loaded.plan


def work(name: str, **keys: Any) -> dict[str, Any]:
    return {"id": name, "run": "work", "outputs": {"n": "int"}, **keys}


def gives(n: Any) -> list[Outcome]:
    return [Outcome(exit_code=0, outputs={"n": n})]


def detail(ran: Rehearsal, task: str = DONE) -> str:
    return ran.state.tasks[ran.state.index[task]].detail


@pytest.mark.parametrize(("n", "status"), [(4, "completed"), (3, "failed")])
def test_a_plan_completes_only_if_its_done_holds(n: int, status: str) -> None:
    ran = rehearse(plan_of(["tasks.a.outputs.n == 4"], work("a")), {"a": gives(n)})
    assert (ran.state.status, ran.statuses()[DONE]) == (status, status)
    if n == 3:
        assert detail(ran) == "`tasks.a.outputs.n == 4` is false: tasks.a.outputs.n is 3"


def test_done_is_decided_after_everything_else_and_before_finally() -> None:
    plan = plan_of("tasks.b.ok", work("b", needs=["a"]), work("a"), work("c"), **{"finally": [work("tidy")]})
    ran = rehearse(plan, {"c": [Outcome(exit_code=0, duration=60.0)], "tidy": [GOOD]})
    assert ran.order[-2:] == [DONE, "tidy"]
    assert ran.order[:-2] == ["a", "c", "b"]


def test_a_done_without_a_value_fails_the_run_and_says_why() -> None:
    plan = plan_of("tasks.b.outputs.n > 1", work("a"), work("b", when="tasks.a.outputs.n == 1", needs=["a"]))
    ran = rehearse(plan, {"a": gives(2)})
    assert (ran.state.status, ran.statuses()[DONE]) == ("failed", "failed")
    assert detail(ran).startswith("`tasks.b.outputs.n > 1` has no value: ")
    assert "`tasks.b.outputs.n > 1` has no value" in "\n".join(why(ran.state, DONE))


@pytest.mark.parametrize("on_failure", ["stop", "continue"])
def test_of_a_plan_that_failed_done_is_not_asked(on_failure: str) -> None:
    ran = rehearse(plan_of("tasks.b.ok", work("a"), work("b"), on_failure=on_failure), {"a": [BAD]})
    assert (ran.state.status, ran.statuses()[DONE], detail(ran)) == ("failed", "omitted", "`a` failed")
    assert [ran.state.specs[number].id for number in ran.state.failures] == ["a"]


def test_done_waits_for_what_recovers_a_failure() -> None:
    edge = {"on": "failure", "to": "b", "recovers": True}
    ran = rehearse(plan_of("tasks.a.outputs.n == 7", work("a", next=[edge]), work("b")), {"a": [BAD], "b": gives(7)})
    assert (ran.state.status, ran.statuses()[DONE]) == ("completed", "completed")


def test_done_is_decided_once_after_the_last_round_of_what_is_sent_back() -> None:
    back = {"rework": "a", "max": 3, "when": "outputs.n < 3"}
    plan = plan_of("tasks.b.outputs.n == 3", work("a"), work("b", needs=["a"], next=[back]))
    ran = rehearse(plan, {"b": [*gives(1), *gives(2), *gives(3)]})
    assert (ran.state.status, ran.order) == ("completed", ["a", "b", "a", "b", "a", "b", DONE])


def linking(folder: Path, *tasks: dict[str, Any]) -> Plan:
    """A plan that links another one with a ``done`` of its own."""
    inner = {"plan": "inner", "done": "tasks.x.outputs.n == 1", "tasks": [*tasks]}
    (folder / "inner.json").write_text(json.dumps(inner))
    return plan_of("tasks.s.ok", {"id": "s", "subplan": "./inner.json"}, name=str(folder / "p.json"))


def test_done_of_a_linked_plan_fails_the_task_that_links_it(tmp_path: Path) -> None:
    plan = linking(tmp_path, work("x"))
    ran = rehearse(plan, {"s/x": gives(2)})
    assert ran.statuses() == {"s": "failed", DONE: "omitted", "s/x": "completed", f"s/{DONE}": "failed"}
    assert "`tasks.x.outputs.n == 1` is false" in detail(ran, "s")
    assert rehearse(plan, {"s/x": gives(1)}).state.status == "completed"


def test_done_in_plain_words_asks_people() -> None:
    ran = rehearse(plan_of("everything reads well", work("a")))
    assert (ran.state.status, ran.state.reason, ran.statuses()[DONE]) == ("blocked", "waiting", "blocked")


def test_done_counts_in_no_limit_of_attempts() -> None:
    ran = rehearse(plan_of("tasks.a.ok", work("a"), budgets={"attempts": 1}), {"a": [GOOD]})
    assert ran.state.status == "completed"


def test_a_run_of_some_tasks_does_not_ask_whether_all_is_done() -> None:
    ran = rehearse(plan_of("tasks.b.outputs.n == 1", work("a"), work("b")), started={"selected": ("a",)})
    assert (ran.state.status, ran.statuses()[DONE]) == ("completed", "skipped")


def begun_anew(ran: Rehearsal, *wanted: str) -> set[str]:
    """What re-runs: the failures of the run, or the tasks that are named, kept where their call is the same."""
    numbers = [number for name in wanted for number in named(ran.state, name)]
    anew = run_again(ran.state, numbers, by_call=True) if wanted else retried(ran.state, ())
    event = reset_event(ran.state, anew, "rerun", "ana")
    return set(event.tasks) - set(event.unless_same)


def test_done_is_decided_again_after_anything_that_begins_anew() -> None:
    plan = plan_of("tasks.a.outputs.n == 4", work("a"), work("b"), **{"finally": [work("tidy")]})
    assert begun_anew(rehearse(plan, {"a": gives(3)})) == {DONE, "tidy"}
    assert begun_anew(rehearse(plan, {"a": gives(4), "b": [BAD]})) == {"b", DONE, "tidy"}
    assert begun_anew(rehearse(plan, {"a": gives(4)}), "b") == {"b", DONE, "tidy"}


def test_done_of_a_linked_plan_is_decided_again_with_a_task_inside(tmp_path: Path) -> None:
    plan = linking(tmp_path, work("x"), work("y"))
    ran = rehearse(plan, {"s/x": gives(1)})
    assert begun_anew(ran, "s/y") == {"s/y", f"s/{DONE}", DONE}


def findings(done: Any, *tasks: dict[str, Any], **keys: Any) -> list[tuple[str, str]]:
    loaded = workbench.loaded(*tasks, done=done, **{"defaults": {"timeout": "1h"}, **keys})
    return [(finding.code, f"{finding.message} {finding.help}") for finding in loaded.findings]


@rows(
    ("done", "tasks", "code", "words"),
    [
        ("tasks.buidl.ok", [work("build")], "PLAN201", "the plan has no task `buidl` did you mean `build`?"),
        ("tasks.tidy.ok", [work("a")], "PLAN203", "`done` reads `tidy`, which is in `finally`"),
        ("tasks.a.outputs.n == 1", [work("a", when="params.p")], "PLAN204", "`a` may not have completed when `done`"),
        ("true", [work("a")], "PLAN703", "`true` is always true"),
        ("tasks.a.ok", [work("a", needs=[DONE])], "PLAN108", "which is the plan's `done` and runs last"),
        ("tasks.a.ok", [work("a", next=[DONE])], "PLAN108", "starts by itself: no edge leads to it"),
        ("tasks.a.ok", [work("a"), work(DONE)], "PLAN102", "is the id of the task made from the plan's `done`"),
    ],
)
def test_lint_looks_at_done(done: str, tasks: list[dict[str, Any]], code: str, words: str) -> None:
    found = findings(done, *tasks, params={"p": True}, **{"finally": [work("tidy")]})
    assert [each for each in found if each[0] == code and words in each[1]], found


def test_lint_has_nothing_against_a_done_that_reads_what_surely_completed() -> None:
    guarded = "not tasks.b.ok or tasks.b.outputs.n == 1"
    tasks = [work("a"), work("b", needs=["a"], when="params.p"), work("c", needs=["a"], role="EXIT")]
    assert findings(["tasks.c.outputs.n == 1", guarded], *tasks, params={"p": True}) == []
