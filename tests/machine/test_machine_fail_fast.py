"""A plan with ``on_failure: cancel`` stops what runs beside a failure; what comes after the failure still runs."""

from __future__ import annotations

from typing import Any

import workbench
from simulator.rehearsal import Rehearsal, rehearse

from planrunner.machine.events import AttemptStopping, Outcome

BAD, LONG = Outcome("logic", "exit code 1", exit_code=1, duration=1.0), Outcome(exit_code=0, duration=500.0)


def run(*tasks: dict[str, Any], outcomes: dict[str, list[Outcome]], **keys: Any) -> Rehearsal:
    filled = [{"run": "x", **each} if "subplan" not in each else each for each in tasks]
    common = {"on_failure": "cancel", "defaults": {"timeout": "1h"}}
    return rehearse(workbench.plan(*filled, **{**common, **keys}), outcomes)


def lasted(ran: Rehearsal) -> float:
    return ran.entries[-1].at - ran.entries[0].at


def test_what_runs_beside_a_failure_is_stopped_at_once_and_the_run_fails() -> None:
    ran = run({"id": "a"}, {"id": "b"}, outcomes={"a": [BAD], "b": [LONG]})
    assert ran.statuses() == {"a": "failed", "b": "cancelled"}
    assert (ran.state.status, ran.state.reason) == ("failed", "failed")
    assert lasted(ran) < 10
    assert "`a` failed and the plan's `on_failure` is cancel" in ran.state.tasks[1].detail


def test_handlers_and_what_stands_under_finally_run() -> None:
    tidy = [{"id": "tidy", "run": "x"}]
    tasks = ({"id": "a", "on_failure": "explain"}, {"id": "b"}, {"id": "explain"})
    ran = run(*tasks, outcomes={"a": [BAD], "b": [LONG], "explain": [LONG]}, **{"finally": tidy})
    assert ran.statuses() == {"a": "failed", "b": "cancelled", "explain": "completed", "tidy": "completed"}


def test_items_and_steps_of_containers_are_stopped_and_a_tolerated_failure_stops_nothing() -> None:
    fan = {"id": "fan", "foreach": [1, 2, 3]}
    box = {"id": "box", "subplan": [{"id": "in", "run": "x"}, {"id": "after", "needs": ["in"], "run": "x"}]}
    outcomes = {"fan[0]": [BAD], **{name: [LONG] for name in ("fan[1]", "fan[2]", "box/in")}}
    ran = run(fan, box, outcomes=outcomes)
    found = ran.statuses()
    assert [found[name] for name in ("fan", "box", "fan[1]", "box/in", "box/after")] == [
        "failed", "cancelled", "cancelled", "cancelled", "omitted",
    ]  # fmt: skip
    assert lasted(ran) < 10
    ran = run({**fan, "tolerate": 1}, box, outcomes=outcomes)
    assert (ran.state.status, ran.statuses()["box/in"]) == ("completed", "completed")


def test_a_task_that_may_fail_and_one_that_is_tried_again_stop_nothing() -> None:
    tasks = ({"id": "a", "allow_failure": True}, {"id": "c", "retry": 2}, {"id": "b"})
    ran = run(*tasks, outcomes={"a": [BAD], "c": [BAD, LONG], "b": [LONG]})
    assert (ran.state.status, ran.statuses()["b"]) == ("completed", "completed")


def test_any_other_plan_lets_what_runs_come_to_its_end() -> None:
    ran = run({"id": "a"}, {"id": "b"}, outcomes={"a": [BAD], "b": [LONG]}, on_failure="stop")
    assert ran.statuses() == {"a": "failed", "b": "completed"}
    assert not [each for each in ran.entries if isinstance(each.event, AttemptStopping)]
