"""Timeboxes and watchdogs in the machine: they follow from the entries alone and survive whoever acts on the run."""

from __future__ import annotations

from typing import Any

from simulator.rehearsal import TRAITS, Rehearsal, rehearse
from simulator.runs import START
from workbench import plan

from planrunner.machine.decide import decide
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    AttemptStopping,
    DoubtSettled,
    FrameClosing,
    Outcome,
    RunResumed,
    RunStarted,
    TaskSettled,
    Warned,
)
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.views.gates import question_objects

FLAKY = Outcome("transient", "try later", duration=4.0)


def events(ran: Rehearsal, kind: type) -> list[tuple[float, Any]]:
    return [(entry.at - START, entry.event) for entry in ran.entries if isinstance(entry.event, kind)]


def test_a_timebox_stops_the_attempt_that_runs() -> None:
    ran = rehearse(plan({"id": "a", "run": "work", "timebox": "10s"}), {"a": [Outcome(duration=30.0)]})
    assert (ran.state.tasks[0].status, ran.state.tasks[0].failure) == ("failed", "timeout")
    assert ran.entries[-1].at - START == 10.0


def test_a_timebox_holds_for_all_attempts_and_the_waits_between_them() -> None:
    a = {
        "id": "a",
        "run": "work",
        "timebox": "10s",
        "retry": {"attempts": 9, "delay": "2s", "backoff": "fixed", "jitter": 0},
    }
    ran = rehearse(plan(a), {"a": [FLAKY, Outcome(duration=30.0)]})
    stopping = events(ran, AttemptStopping)
    assert [(at, event.failure, event.reason) for at, event in stopping] == [(10.0, "timeout", "timebox")]
    assert ran.state.tasks[0].attempts == 2
    assert ran.state.tasks[0].failure == "timeout"


def test_no_attempt_is_scheduled_past_the_timebox() -> None:
    a = {
        "id": "a",
        "run": "work",
        "timebox": "10s",
        "retry": {"attempts": 9, "delay": "7s", "backoff": "fixed", "jitter": 0},
    }
    ran = rehearse(plan(a), {"a": [FLAKY]})
    assert ran.state.tasks[0].attempts == 1
    assert (ran.state.tasks[0].failure, ran.state.tasks[0].reason) == ("timeout", "timebox")
    said = "its timebox of 10s leaves no room for another attempt after: "
    assert ran.state.tasks[0].detail.startswith(said)
    assert ran.entries[-1].at - START == 4.0


def test_a_task_that_waits_for_a_slot_past_its_timebox_fails() -> None:
    a = {
        "id": "a",
        "run": "work",
        "timebox": "10s",
        "retry": {"attempts": 2, "delay": "1s", "backoff": "fixed", "jitter": 0},
    }
    long = {"id": "long", "run": "work", "priority": "high"}
    ran = rehearse(
        plan(a, long, {"id": "b", "run": "w"}, max_parallel=1, on_failure="continue"),
        {"a": [FLAKY], "long": [Outcome(duration=1.0)], "b": [Outcome(duration=60.0)]},
    )
    assert ran.state.tasks[0].failure == "timeout"
    assert ran.state.tasks[0].reason == "timebox"


def test_a_timebox_of_a_task_that_holds_others_stops_them() -> None:
    sub = {"id": "sub", "subplan": [{"id": "x", "run": "w"}, {"id": "y", "run": "w", "needs": ["x"]}], "timebox": "10s"}
    sub |= {"retry": {"attempts": 3, "delay": "1s", "jitter": 0}}
    ran = rehearse(plan(sub), {"sub/x": [FLAKY], "sub@2/x": [Outcome(duration=60.0)]})
    assert [event for _, event in events(ran, FrameClosing)] == [
        FrameClosing("sub", "timeout", "its timebox of 10s is over")
    ]
    assert ran.state.tasks[0].failure == "timeout"
    assert ran.entries[-1].at - START == 10.0


def test_a_timebox_begins_anew_with_each_visit() -> None:
    a = {"id": "a", "run": "work", "timebox": "10s"}
    check = {"id": "check", "run": "w", "needs": ["a"], "on_failure": {"rework": "a", "max": 2}}
    outcomes = {"a": [Outcome(duration=8.0)], "check": [Outcome("logic", "no", duration=1.0), Outcome(duration=1.0)]}
    ran = rehearse(plan(a, check), outcomes)
    assert (ran.state.status, ran.state.tasks[0].attempts) == ("completed", 2)


def test_the_steps_of_a_watchdog_come_in_their_time_and_each_once() -> None:
    steps = [{"after": "5s", "do": "warn"}, {"after": "8s", "do": "ask"}, {"after": "20s", "do": "fail"}]
    ran = rehearse(
        plan({"id": "a", "run": "work", "watchdog": steps, "timeout": "1h"}), {"a": [Outcome(duration=99.0)]}
    )
    assert events(ran, Warned) == [(5.0, Warned("a", 1, 5.0, "warn")), (8.0, Warned("a", 1, 8.0, "ask"))]
    assert [(at, event.failure) for at, event in events(ran, AttemptStopping)] == [(20.0, "timeout")]
    assert ran.state.tasks[0].failure == "timeout"


def test_what_a_watchdog_asks_about_waits_for_people_until_the_attempt_is_over() -> None:
    steps = [{"after": "8s", "do": "ask"}]
    document = plan({"id": "a", "run": "work", "watchdog": steps, "timeout": "1h", "title": "The slow one"})
    ran = rehearse(document, {"a": [Outcome(duration=99.0)]})
    state, asked = State(document, "r"), []
    for entry in ran.entries:
        evolve(state, entry.event, entry.at)
        asked.append([each for each in question_objects(state, entry.at) if each["stage"] == "watchdog"])
    [first] = next(each for each in asked if each)
    assert (first["gate"], first["about"]) == ("a", {"title": "The slow one"})
    assert first["ask"] == "`a` still runs after 8.0s: let it continue, or end it?"
    assert asked[-1] == []


def test_a_watchdog_that_cancels_cancels() -> None:
    a = {"id": "a", "run": "work", "watchdog": [{"after": "5s", "do": "cancel"}], "retry": 3}
    ran = rehearse(plan(a, {"id": "b", "run": "w", "needs": ["a"]}), {"a": [Outcome(duration=99.0)]})
    assert ran.statuses() == {"a": "cancelled", "b": "omitted"}


def test_a_watchdog_looks_at_each_attempt_anew_and_not_at_one_that_is_over() -> None:
    a = {"id": "a", "run": "w", "watchdog": [{"after": "5s", "do": "warn"}], "retry": {"attempts": 3, "delay": "1s"}}
    ran = rehearse(plan(a), {"a": [FLAKY, Outcome("transient", "x", duration=6.0), Outcome(duration=2.0)]})
    assert [event.attempt for _, event in events(ran, Warned)] == [2]


def test_a_stop_that_was_under_way_when_the_runner_died_ends_the_attempt() -> None:
    state = State(plan({"id": "a", "run": "work", "timebox": "10s"}), "r")
    given = [
        (0.0, RunStarted("d", {}, 1, traits=TRAITS)),
        (0.0, AttemptStarted("a", 1, "k")),
        (10.0, AttemptStopping("a", 1, "timeout", "timebox", "its timebox of 10s is over")),
        (60.0, RunResumed(2)),
    ]
    for at, event in given:
        evolve(state, event, at)
    [command] = decide(state, 60.0).commands
    assert isinstance(command.event, DoubtSettled)  # type: ignore[union-attr]
    evolve(state, command.event, 60.0)  # type: ignore[union-attr]
    [command] = decide(state, 60.0).commands
    assert command.event == TaskSettled("a", "failed", "doubt", command.event.detail, "timeout")  # type: ignore[union-attr]


def test_success_before_the_stop_reached_it_counts() -> None:
    state = State(plan({"id": "a", "run": "work", "timebox": "10s"}), "r")
    given = [
        RunStarted("d", {}, 1, traits=TRAITS),
        AttemptStarted("a", 1, "k"),
        AttemptStopping("a", 1, "timeout", "timebox", "over"),
        AttemptEnded("a", 1, Outcome(exit_code=0)),
    ]
    for event in given:
        evolve(state, event, 0.0)
    [command] = decide(state, 60.0).commands
    assert command.event == TaskSettled("a", "completed")  # type: ignore[union-attr]
    assert state.alarms is not None and not state.alarms.stopping
