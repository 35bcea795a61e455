"""Deadlines of tasks, and those that are dates."""

from __future__ import annotations

import pytest
from simulator.rehearsal import Rehearsal, rehearse
from simulator.runs import START
from workbench import plan

from planrunner.machine.events import AttemptStopping, Outcome
from planrunner.plan.compiled import dump
from planrunner.plan.compiled import load as loaded_again


def date(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(START + seconds, UTC).isoformat()


def stops(ran: Rehearsal) -> list[tuple[float, str]]:
    return [(entry.at - START, entry.event.reason) for entry in ran.entries if isinstance(entry.event, AttemptStopping)]


@pytest.mark.parametrize("deadline", ["10s", date(10.0)])
def test_an_attempt_ends_at_the_deadline_of_its_task(deadline: str) -> None:
    ran = rehearse(plan({"id": "a", "run": "work", "deadline": deadline}), {"a": [Outcome(duration=99.0)]})
    assert stops(ran) == [(10.0, "deadline")]
    assert (ran.state.tasks[0].status, ran.state.tasks[0].failure) == ("failed", "timeout")


def test_a_task_does_not_begin_after_its_deadline() -> None:
    late = {"id": "late", "run": "work", "needs": ["a"], "deadline": "3s"}
    ran = rehearse(plan({"id": "a", "run": "work"}, late), {"a": [Outcome(duration=5.0)]})
    task = ran.state.tasks[1]
    assert (task.status, task.reason, task.attempts) == ("failed", "deadline", 0)
    assert task.detail == "its deadline (3s from the start of the run) has passed"


def test_a_plan_ends_at_a_date() -> None:
    ran = rehearse(plan({"id": "a", "run": "work"}, deadline=date(10.0)), {"a": [Outcome(duration=99.0)]})
    assert (ran.state.status, ran.state.reason) == ("failed", "deadline")
    assert ran.entries[-1].at - START == 10.0


@pytest.mark.parametrize(
    ("said", "due"),
    [
        ("1970-01-02", 2 * 86400.0),
        ("1970-01-02T00:00:10Z", 86410.0),
        ("1970-01-02 01:00+01:00", 86400.0),
        ("before the holidays", None),
        ("1970-13-02", None),
    ],
)
def test_a_date_means_the_end_of_its_day_and_words_are_for_people(said: str, due: float | None) -> None:
    found = plan({"id": "a", "uses": "noop", "deadline": said}, deadline=said)
    assert (found.due, found.tasks[0].due, found.deadline) == (due, due, None)
    assert loaded_again(dump(found)) == found
