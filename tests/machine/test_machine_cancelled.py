"""A task that was called off: what the run, and what holds the task, come to."""

from __future__ import annotations

import pytest
from simulator.rehearsal import Rehearsal, rehearse
from workbench import plan

from planrunner.machine.events import Outcome

CALLED_OFF = Outcome("cancelled", "by ann: not needed", duration=1.0)
LOGIC = Outcome("logic", "broken", duration=1.0)


def end(ran: Rehearsal) -> tuple[str, str]:
    return ran.state.status, ran.state.reason


DEPLOY = {"id": "deploy", "run": "work", "needs": ["long"]}


def test_a_run_in_which_a_task_was_called_off_does_not_end_as_completed() -> None:
    ran = rehearse(plan({"id": "long", "run": "work"}, DEPLOY), {"long": [CALLED_OFF]})
    assert end(ran) == ("cancelled", "task")
    assert ran.statuses() == {"long": "cancelled", "deploy": "omitted"}


def test_a_failure_weighs_more_than_a_task_that_was_called_off() -> None:
    tasks = plan({"id": "long", "run": "work"}, {"id": "bad", "run": "work"}, on_failure="continue")
    assert end(rehearse(tasks, {"long": [CALLED_OFF], "bad": [LOGIC]})) == ("failed", "failed")


def test_the_others_go_on_without_a_called_off_task_whose_failure_is_allowed() -> None:
    ran = rehearse(plan({"id": "long", "run": "work", "allow_failure": True}, DEPLOY), {"long": [CALLED_OFF]})
    assert end(ran) == ("completed", "")
    assert ran.statuses() == {"long": "cancelled", "deploy": "completed"}


def test_called_off_items_count_as_failed_ones_do() -> None:
    items = {"id": "long", "foreach": [1, 2, 3, 4], "run": "work", "tolerate": 2}
    ran = rehearse(plan(items, DEPLOY), {"long[0]": [CALLED_OFF], "long[2]": [LOGIC]})
    assert end(ran) == ("completed", "")
    assert ran.statuses()["deploy"] == "completed"
    more = rehearse(plan({**items, "tolerate": 1}, DEPLOY), {"long[0]": [CALLED_OFF], "long[2]": [LOGIC]})
    assert end(more) == ("cancelled", "task")
    assert more.statuses()["long"] == "cancelled"


def test_items_that_a_stop_of_the_run_cancels_are_not_tolerated() -> None:
    items = {"id": "long", "foreach": [1, 2, 3], "run": "work", "tolerate": 2, "max_parallel": 1}
    ran = rehearse(plan(items, deadline="4s"), {"long[0]": [Outcome(duration=2.0)], "long[1]": [Outcome(duration=9.0)]})
    assert ran.statuses() == {
        "long": "cancelled",
        "long[0]": "completed",
        "long[1]": "cancelled",
        "long[2]": "cancelled",
    }
    assert ran.state.status == "failed"


@pytest.mark.parametrize("allowed", [False, True])
def test_a_task_that_holds_a_called_off_one_is_called_off_with_it_unless_it_may_fail(allowed: bool) -> None:
    inner = [{"id": "a", "run": "work", "allow_failure": allowed}, {"id": "b", "run": "work", "needs": ["a"]}]
    ran = rehearse(plan({"id": "long", "subplan": inner}, DEPLOY), {"long/a": [CALLED_OFF]})
    assert end(ran) == (("completed", "") if allowed else ("cancelled", "task"))
    assert ran.statuses()["long/b"] == ("completed" if allowed else "omitted")


def test_what_starts_because_a_task_was_called_off_does_not_make_it_good() -> None:
    after = {"id": "clean", "run": "work", "needs": "long.cancelled"}
    ran = rehearse(plan({"id": "long", "run": "work"}, after), {"long": [CALLED_OFF]})
    assert ran.statuses()["clean"] == "completed"
    assert end(ran) == ("cancelled", "task")
