"""A task with a delay waits before its first attempt, once it could start."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import workbench
from simulator.rehearsal import Rehearsal, rehearse

from planrunner.machine.events import AttemptStarted, Entry, Outcome, TaskSettled

loaded = partial(workbench.loaded, defaults={"timeout": "1h"})


def run(*tasks: dict[str, Any], outcomes: dict[str, list[Outcome]] | None = None, **keys: Any) -> Rehearsal:
    found = loaded(*tasks, **keys)
    assert found.plan is not None, [finding.message for finding in found.findings]
    return rehearse(found.plan, outcomes or {})


def started(entries: list[Entry], task: str) -> list[float]:
    return [each.at for each in entries if isinstance(each.event, AttemptStarted) and each.event.task == task]


def settled(entries: list[Entry], task: str) -> float:
    return next(each.at for each in entries if isinstance(each.event, TaskSettled) and each.event.task == task)


def test_the_delay_counts_from_the_moment_at_which_the_task_could_start_and_takes_no_slot() -> None:
    late = {"id": "late", "needs": ["a"], "run": "work", "delay": "30s"}
    ran = run({"id": "a", "run": "work"}, late, {"id": "b", "needs": ["a"], "run": "work"}, max_parallel=1)
    assert started(ran.entries, "late") == [settled(ran.entries, "a") + 30]
    assert started(ran.entries, "b") == [settled(ran.entries, "a")]


def test_a_retry_waits_its_own_delay_alone() -> None:
    task = {"id": "a", "run": "work", "delay": "30s", "retry": {"attempts": 2, "delay": "1s", "jitter": 0}}
    bad = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
    first, second = started(run(task, outcomes={"a": [bad, Outcome(exit_code=0)]}).entries, "a")
    assert second - first == 2


def test_each_item_of_a_fan_out_and_what_holds_tasks_wait_too() -> None:
    fan = {"id": "fan", "foreach": ["x", "y"], "run": "work", "delay": "10s"}
    ran = run(fan, {"id": "box", "needs": ["fan"], "delay": "5s", "subplan": [{"id": "in", "run": "work"}]})
    begin = ran.entries[0].at
    assert started(ran.entries, "fan[1]") == [begin + 10]
    assert started(ran.entries, "box/in") == [settled(ran.entries, "fan") + 5]


def test_a_failure_beside_it_cancels_a_task_that_waits() -> None:
    ran = run({"id": "a", "run": "x"}, {"id": "late", "run": "work", "delay": "1h"}, outcomes={"a": [Outcome("logic")]})
    assert ran.statuses() == {"a": "failed", "late": "cancelled"}


@pytest.mark.parametrize("task", [{"gate": "approval", "ask": "Go?"}, {"title": "carry it out"}])
def test_a_delay_of_what_people_do_is_a_finding(task: dict[str, Any]) -> None:
    found = loaded({"id": "a", "delay": "1m", **task})
    assert found.plan is None
    assert "`delay` of a task needs something that it does" in [each.message for each in found.findings]


def test_an_agent_waits_as_any_task_that_does_something() -> None:
    found = loaded({"id": "a", "delay": "1m", "agent": {"model": "m"}, "prompt": "Look."})
    assert found.plan is not None, [each.message for each in found.findings]


@pytest.mark.parametrize(
    "keys",
    [
        {"backup": ["data/**"]},
        {"fresh": {"inputs": ["in"], "outputs": ["out"]}},
        {"backup": ["data/**"], "fresh": {"inputs": ["in"], "outputs": ["out"]}},
    ],
    ids=" ".join,
)
def test_what_has_to_be_asked_before_an_attempt_is_asked_once_the_delay_is_over(keys: dict[str, Any]) -> None:
    ran = run({"id": "late", "run": "work", "delay": "5m", **keys})
    assert ran.statuses() == {"late": "completed"}
    assert started(ran.entries, "late") == [ran.entries[0].at + 300]
