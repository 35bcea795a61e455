"""A task with ``ends_plan`` ends its plan early: as a success, with a result."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import workbench
from simulator.rehearsal import Rehearsal, rehearse

from planrunner.machine.events import Outcome

LONG, BAD = Outcome(exit_code=0, duration=500.0), Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
FOUND = Outcome(exit_code=0, outputs={"value": 7}, duration=1.0)
HIT = {"id": "hit", "run": "x", "outputs": {"value": "int"}, "ends_plan": True}


loaded = partial(workbench.loaded, defaults={"timeout": "1h"})


def run(*tasks: dict[str, Any], outcomes: dict[str, list[Outcome]] | None = None, **keys: Any) -> Rehearsal:
    found = loaded(*tasks, **keys)
    assert found.plan is not None, [finding.message for finding in found.findings]
    return rehearse(found.plan, {"hit": [FOUND], **(outcomes or {})})


def lasted(ran: Rehearsal) -> float:
    return ran.entries[-1].at - ran.entries[0].at


def test_what_has_not_begun_is_skipped_what_runs_is_stopped_and_the_run_completes_with_its_result() -> None:
    tasks = (HIT, {"id": "beside", "run": "x"}, {"id": "after", "needs": ["hit"], "run": "x"})
    compute = {"id": "compute", "needs": ["beside"], "run": "x", "outputs": {"value": "int"}}
    result = "{{ tasks.hit.outputs.value | default(tasks.compute.outputs.value) }}"
    tidy = [{"id": "tidy", "run": "x"}]
    ran = run(*tasks, compute, outcomes={"beside": [LONG]}, outputs={"result": result}, **{"finally": tidy})
    assert ran.statuses() == {
        "hit": "completed", "beside": "cancelled", "after": "skipped", "compute": "skipped", "tidy": "completed",
    }  # fmt: skip
    assert (ran.state.status, ran.state.reason, ran.state.outputs) == ("completed", "", {"result": 7})
    assert ran.state.tasks[2].detail == "`hit` has ended the plan"
    assert lasted(ran) < 10


@pytest.mark.parametrize("keys", [{"when": "false"}, {"allow_failure": True}])
def test_one_that_does_not_complete_ends_nothing(keys: dict[str, Any]) -> None:
    ran = run({**HIT, **keys}, {"id": "after", "run": "x"}, outcomes={"hit": [BAD]})
    assert (ran.state.status, ran.statuses()["after"]) == ("completed", "completed")


def test_a_failure_before_stays_one() -> None:
    tasks = ({"id": "bad", "run": "x"}, {**HIT, "delay": "10s"}, {"id": "after", "needs": ["hit"], "run": "x"})
    ran = run(*tasks, outcomes={"bad": [BAD]}, on_failure="continue")
    assert (ran.state.status, ran.statuses()["hit"], ran.statuses()["after"]) == ("failed", "completed", "skipped")


def test_what_holds_others_waits_for_a_retry_or_asks_people_ends_too() -> None:
    box = {"id": "box", "subplan": [{"id": "in", "run": "x"}, {"id": "then", "needs": ["in"], "run": "x"}]}
    loop = {"id": "l", "loop": {"max": 9, "until": "tasks.t.failed", "tasks": [{"id": "t", "run": "x"}]}}
    fan = {"id": "fan", "foreach": [1, 2, 3], "max_parallel": 1, "run": "x"}
    tried = {"id": "tried", "run": "x", "retry": {"attempts": 3, "delay": "1h"}}
    gate = {"id": "gate", "gate": "approval", "ask": "Go?"}
    outcomes = {**{name: [LONG] for name in ("box/in", "l#1/t", "fan[0]")}, "tried": [BAD._replace(duration=0.1)]}
    ran = run(box, loop, fan, tried, gate, HIT, max_parallel=9, outcomes=outcomes)
    found = ran.statuses()
    assert [found[name] for name in ("box", "l", "fan", "tried", "gate")] == [
        "cancelled", "cancelled", "cancelled", "cancelled", "skipped",
    ]  # fmt: skip
    assert (ran.state.status, "l#2/t" in found) == ("completed", False)
    assert lasted(ran) < 10


def test_a_linked_plan_ends_by_itself_and_the_plan_around_it_goes_on() -> None:
    part = {
        "tasks": [HIT, {"id": "rest", "needs": ["hit"], "run": "x"}],
        "outputs": {"n": "{{ tasks.hit.outputs.value }}"},
    }
    tasks = ({"id": "part", "subplan": "one"}, {"id": "after", "needs": ["part"], "run": "x"})
    ran = run(*tasks, outcomes={"part/hit": [FOUND]}, subplans={"one": part})
    found = ran.statuses()
    assert (found["part"], found["part/rest"], found["after"]) == ("completed", "skipped", "completed")
    assert ran.state.tasks[0].outputs == {"n": 7}


def test_it_stands_at_a_task_of_the_plan_itself() -> None:
    inside = loaded({"id": "box", "subplan": [HIT]})
    assert any(each.message == "a task inside another task does not end the plan" for each in inside.findings)
    last = loaded({"id": "a", "run": "x"}, **{"finally": [HIT]})
    assert any(each.message == "a task under `finally` does not end the plan" for each in last.findings)
