"""A run that is steered while it goes on: pause, cancel and kill, on a virtual clock and a journal in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from rows import rows
from simulator.rehearsal import TRAITS
from simulator.runs import PLACE, START, Nobody
from workbench import working_plan as plan

from planrunner.app.runs.control import answer_waiting
from planrunner.capabilities.contract import Call
from planrunner.engine import loop
from planrunner.engine.loop import Driver, Inbox
from planrunner.engine.replay import replay
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.errors import Fenced, StorageFailed
from planrunner.journal.memory import MemoryJournal
from planrunner.journal.records import Answer, NewRun, Request
from planrunner.machine.events import (
    AttemptStarted,
    Outcome,
    RunParked,
    RunResumed,
    RunStarted,
    StopRequested,
)
from planrunner.machine.evolve import fold
from planrunner.machine.explain import why
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.views.status import exit_code

if TYPE_CHECKING:
    from planrunner.machine.events import Event

PAUSE = Request("pause", {"reason": "lunch"}, "ann")
CANCEL = Request("cancel", {"reason": "wrong branch"}, "ann")
KILL = Request("cancel", {"now": True}, "ann")
Asks = dict[float, Request]


class Posting(SimulatedEffects):
    """An imagined world in which somebody leaves a request at a given second of the run."""

    __slots__ = ("asks", "journal", "numbers", "stops")

    def __init__(self, script: Script, start: float, journal: MemoryJournal, asks: Asks) -> None:
        super().__init__(script, start)
        self.journal = journal
        self.asks = dict(asks)
        self.numbers: list[int] = []
        self.stops: list[bool] = []

    def wait(self, until: float | None) -> list[Event]:
        for second in [second for second in self.asks if START + second <= self.now()]:
            self.numbers.append(self.journal.post("run", self.asks.pop(second)))
        return super().wait(until)

    def stop(self, forced: bool = False) -> None:
        self.stops.append(forced)
        super().stop(forced)


class Steered:
    """A run over as many lives as it takes, each driven until it rests."""

    def __init__(
        self, plan: Plan, outcomes: dict[str, Sequence[Outcome]] | None = None, journal: MemoryJournal | None = None
    ):
        self.plan = plan
        self.outcomes = outcomes or {}
        self.journal = journal or MemoryJournal()
        self.clock = START
        self.started: list[str] = []
        self.stops: list[bool] = []
        self.numbers: list[int] = []
        self.state = State(plan, "run")

    def outcome(self, call: Call) -> Outcome:
        known = self.outcomes.get(call.name, [Outcome(duration=10.0, exit_code=0)])
        return known[min(call.attempt, len(known)) - 1]

    def live(self, asks: Asks | None = None) -> State:
        effects = Posting(Script(self.outcome, lambda names: {}), self.clock, self.journal, asks or {})
        first: Event
        if self.journal.runs():
            handle = self.journal.acquire("run")
            state = fold(self.plan, "run", self.journal.entries("run"))
            answer_waiting(self.journal, handle, state, effects.now())
            first = RunResumed(handle.epoch)
        else:
            handle = self.journal.create_run(NewRun("run", "p", "digest", START))
            state = State(self.plan, "run")
            first = RunStarted("digest", {}, 7, traits=TRAITS)
        try:
            self.drive(state, effects, handle, first)
        finally:
            self.clock = effects.now() + 1.0
            self.started += [call.name for call in effects.started]
            self.stops += effects.stops
            self.numbers += effects.numbers
            self.journal.release(handle)
        self.state = state
        return state

    def drive(self, state: State, effects: Posting, handle: Any, first: Event) -> None:
        driver = Driver(
            state, lambda entries: self.journal.append(handle, entries), effects, PLACE, Nobody(), handle.last_seq
        )
        driver.inbox = Inbox(self.journal, handle)
        driver.record(first)
        driver.run()

    def statuses(self) -> dict[str, str]:
        return {task.id: found.status for task, found in zip(self.state.plan.tasks, self.state.tasks)}

    def events(self, kind: type) -> list[Any]:
        return [entry.event for entry in self.journal.entries("run") if isinstance(entry.event, kind)]

    def answers(self) -> list[Answer | None]:
        return [self.journal.answered(number) for number in self.numbers]


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real seconds say nothing on a virtual clock."""
    monkeypatch.setattr(loop, "LOOK", 0.0)


CHAIN = ({"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]})
TIDY = {"finally": [{"id": "tidy", "run": "x"}]}


def test_a_paused_run_lets_what_runs_end_and_starts_nothing_more() -> None:
    run = Steered(plan(*CHAIN))
    state = run.live({5.0: PAUSE})
    assert (state.status, state.reason, exit_code(state)) == ("paused", "pause", 8)
    assert run.statuses() == {"a": "completed", "b": "pending", "c": "pending"}
    assert run.stops == []
    assert run.answers() == [Answer(True, "no more tasks start; 1 running task may finish")]
    assert run.events(StopRequested) == [StopRequested("pause", "ann", "lunch")]
    assert "nothing starts: the run was paused by ann: lunch" in why(state, "c")


def test_a_paused_run_goes_on_where_it_stood() -> None:
    run = Steered(plan(*CHAIN))
    run.live({5.0: PAUSE})
    state = run.live()
    assert state.status == "completed"
    assert run.started == ["a", "b", "c"]


RESUME = Request("resume", {}, "bo")


def test_a_pause_that_is_taken_back_lets_the_run_go_on_where_it_runs() -> None:
    run = Steered(plan(*CHAIN))
    state = run.live({5.0: PAUSE, 7.0: RESUME, 8.0: RESUME})
    assert (state.status, run.started) == ("completed", ["a", "b", "c"])
    assert run.events(StopRequested) == [StopRequested("pause", "ann", "lunch"), StopRequested("", "bo")]
    assert [answer.applied for answer in run.answers() if answer is not None] == [True, True, False]
    assert replay(run.plan, "run", list(run.journal.entries("run"))).difference is None


def test_what_a_pause_kept_from_beginning_begins_when_it_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Steered(plan({"id": "long"}, *CHAIN), {"long": [Outcome(duration=60.0)]})
    paused = False

    def asked(driver: Driver) -> bool:
        """The word comes while the start of `b` is being written."""
        nonlocal paused
        number = run.plan.tasks.index(next(task for task in run.plan.tasks if task.id == "b"))
        if not paused and driver.state.tasks[number].status == "running":
            paused = True
            driver.record(StopRequested("pause", "ann"))
        return before(driver)

    before = Driver._stopping
    monkeypatch.setattr(Driver, "_stopping", asked)
    state = run.live({30.0: RESUME})
    assert [entry.event.outcome.failure for entry in run.journal.entries("run") if ended(entry.event, "b")] == [
        "unstarted",
        "",
    ]
    assert (state.status, run.started) == ("completed", ["long", "a", "b", "c"])
    assert replay(run.plan, "run", list(run.journal.entries("run"))).difference is None


def ended(event: Event, task: str) -> bool:
    return type(event).__name__ == "AttemptEnded" and getattr(event, "task", "") == task


def test_a_failure_during_a_pause_keeps_its_retries() -> None:
    bad = Outcome("transient", "try later", duration=10.0)
    run = Steered(plan({"id": "a", "retry": {"attempts": 2, "delay": "1m"}}), {"a": [bad, Outcome(duration=1.0)]})
    assert run.live({5.0: PAUSE}).status == "paused"
    assert run.live().status == "completed"
    assert run.started == ["a", "a"]


def test_a_pause_while_a_retry_waits_parks_at_once_and_the_wait_is_not_begun_anew() -> None:
    bad = Outcome("transient", "try later", duration=1.0)
    run = Steered(
        plan({"id": "a", "retry": {"attempts": 2, "delay": "4m", "jitter": 0}}), {"a": [bad, Outcome(duration=1.0)]}
    )
    run.live({5.0: PAUSE})
    assert run.clock < START + 10
    run.clock += 100
    run.live()
    starts = [entry.at for entry in run.journal.entries("run") if isinstance(entry.event, AttemptStarted)]
    assert starts[1] - starts[0] == pytest.approx(241.0, abs=0.01)


def test_a_pause_that_comes_when_the_last_task_ends_leaves_a_completed_run() -> None:
    run = Steered(plan({"id": "a"}))
    assert run.live({9.95: PAUSE}).status == "completed"


def test_a_used_up_time_budget_stops_what_a_pause_let_go_on() -> None:
    run = Steered(plan({"id": "a"}, budgets={"time": "30s"}), {"a": [Outcome(duration=100.0)]})
    state = run.live({5.0: PAUSE})
    assert (state.status, state.reason) == ("failed", "budget")


def test_a_cancelled_run_stops_what_runs_cancels_the_rest_and_runs_its_finally() -> None:
    run = Steered(plan(*CHAIN, **TIDY))
    state = run.live({15.0: CANCEL})
    assert (state.status, state.reason, exit_code(state)) == ("cancelled", "cancelled", 1)
    assert run.statuses() == {"a": "completed", "b": "cancelled", "c": "cancelled", "tidy": "completed"}
    assert run.stops == [False]
    assert why(state, "b")[0] == "`b` was cancelled: stopped: the run was cancelled by ann: wrong branch"
    assert why(state, "c")[0] == "`c` was cancelled: the run was cancelled by ann: wrong branch"


def test_more_tasks_under_finally_than_slots_all_outlive_a_cancelled_run() -> None:
    finals = [{"id": f"tidy{number}", "run": "x"} for number in range(3)]
    run = Steered(plan({"id": "a"}, max_parallel=1, **{"finally": finals}))
    run.live({5.0: CANCEL})
    assert run.statuses() == {"a": "cancelled", "tidy0": "completed", "tidy1": "completed", "tidy2": "completed"}


def test_a_killed_run_leaves_out_its_finally() -> None:
    run = Steered(plan(*CHAIN, **TIDY))
    state = run.live({5.0: KILL})
    assert (state.status, state.reason) == ("cancelled", "killed")
    assert set(run.statuses().values()) == {"cancelled"}
    assert run.stops == [True]
    assert run.started == ["a"]


def test_a_stop_gives_way_only_to_a_graver_one() -> None:
    run = Steered(plan(*CHAIN, **TIDY), {"tidy": [Outcome(duration=50.0)]})
    state = run.live({5.0: PAUSE, 6.0: CANCEL, 7.0: CANCEL, 8.0: PAUSE, 9.0: KILL})
    assert (state.status, state.reason) == ("cancelled", "killed")
    assert [answer.applied for answer in run.answers() if answer] == [True, True, False, False, True]
    assert [event.reason for event in run.events(StopRequested)] == ["pause", "cancelled", "killed"]
    assert run.statuses()["tidy"] == "cancelled"


def test_what_stands_under_finally_is_not_cancelled_but_may_be_killed() -> None:
    run = Steered(plan({"id": "a"}, **TIDY), {"tidy": [Outcome(duration=50.0)]})
    state = run.live({15.0: CANCEL, 20.0: KILL})
    refused, killed = run.answers()
    assert refused is not None and not refused.applied and "only tasks under `finally` are left" in refused.message
    assert killed is not None and killed.applied
    assert (state.status, state.reason) == ("cancelled", "killed")


def test_a_run_that_waits_for_a_person_is_cancelled_when_it_goes_on_again() -> None:
    run = Steered(plan({"id": "agree", "gate": "approval", "approvers": ["ann"]}, {"id": "b", "needs": ["agree"]}))
    assert run.live().status == "blocked"
    run.numbers.append(run.journal.post("run", CANCEL))
    state = run.live()
    assert state.status == "cancelled"
    assert set(run.statuses().values()) == {"cancelled"}
    assert run.started == []


def test_an_attempt_in_doubt_is_cancelled_and_says_that_its_effect_is_not_known() -> None:
    journal = MemoryJournal()
    run = Steered(plan({"id": "a"}, {"id": "b", "needs": ["a"]}), journal=journal)
    journal.fault = crash_at(3)
    with pytest.raises(Crash):
        run.live()
    journal.fault = None
    assert run.live().status == "blocked"
    run.numbers.append(journal.post("run", CANCEL))
    state = run.live()
    assert run.statuses() == {"a": "cancelled", "b": "cancelled"}
    assert state.tasks[0].detail == (
        "whether attempt 1 took effect is not known, and the run was cancelled by ann: wrong branch"
    )


def test_a_request_for_a_run_whose_runner_was_killed_finds_nobody_to_stop() -> None:
    journal = MemoryJournal()
    run = Steered(plan(*CHAIN), journal=journal)
    journal.fault = crash_at(3)
    with pytest.raises(Crash):
        run.live()
    journal.fault = None
    run.numbers.append(journal.post("run", PAUSE))
    run.live()
    (answer,) = run.answers()
    assert answer.applied and answer.message.startswith("the run is already paused (cut off); `planrunner resume")
    assert run.events(StopRequested) == []


def test_a_resume_outlives_a_pause_that_was_asked_for_before() -> None:
    run = Steered(plan(*CHAIN))
    run.live({5.0: PAUSE})
    run.numbers.append(run.journal.post("run", PAUSE))
    assert run.live().status == "completed"


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("sing", {}, "this version of planrunner knows no request `sing`"),
        ("pause", [], "the data of this `pause` is not as it should be"),
        ("cancel", None, "the data of this `cancel` is not as it should be"),
    ],
)
def test_a_request_that_makes_no_sense_is_answered_and_harms_nothing(kind: str, body: Any, message: str) -> None:
    run = Steered(plan(*CHAIN))
    assert run.live({5.0: Request(kind, body, "ann")}).status == "completed"
    (answer,) = run.answers()
    assert answer is not None and not answer.applied and answer.message.startswith(message)


class Crash(BaseException):
    """The process is gone."""


def crash_at(write: int, stored: bool = False) -> Any:
    seen = 0

    def fault(_: int, moment: str) -> None:
        nonlocal seen
        seen += moment == "before"
        if seen == write and moment == ("after" if stored else "before"):
            raise Crash

    return fault


@rows("stored", [False, True])
@rows("asked", [PAUSE, CANCEL, KILL])
def test_a_crash_at_any_write_neither_loses_a_request_nor_applies_it_twice(asked: Request, stored: bool) -> None:
    safe = tuple({**task, "effect": "idempotent"} for task in CHAIN)
    tidy = {"finally": [{"id": "tidy", "run": "x", "effect": "idempotent"}]}
    crashes = 0
    for write in range(2, 12):
        journal = MemoryJournal()
        run = Steered(plan(*safe, **tidy), journal=journal)
        journal.fault = crash_at(write, stored)
        try:
            run.live({15.0: asked})
        except Crash:
            journal.crash()
            crashes += 1
        journal.fault = None
        while not journal.run("run").status:
            if not run.numbers:
                run.numbers.append(journal.post("run", asked))
            run.live()
        (answer,) = run.answers()
        assert answer is not None and answer.applied
        stops = [event.reason for event in run.events(StopRequested)]
        if asked is PAUSE:
            assert stops in ([], ["pause"])  # where nobody acted on the run there was nothing to stop
            assert journal.run("run").status == "completed"
        else:
            assert stops == ["killed" if asked is KILL else "cancelled"]
            assert journal.run("run").status == "cancelled"
    assert crashes >= 3


def test_the_events_of_a_request_and_its_answer_are_one_write() -> None:
    journal = MemoryJournal()
    run = Steered(plan(*CHAIN), journal=journal)

    def full(write: int, moment: str) -> None:
        if moment == "before" and run.clock == START and journal.waiting("run"):
            raise StorageFailed("out of space")

    journal.fault = full
    with pytest.raises(StorageFailed):
        run.live({5.0: PAUSE})
    assert run.answers() == [None]
    assert run.events(StopRequested) == [] and run.events(RunParked) == []


class Asleep(Posting):
    """A world that leaves a request while the runner sleeps, and wakes it with the end of what ran."""

    def wait(self, until: float | None) -> list[Event]:
        events = super().wait(until)
        if events and self.asks:
            self.numbers.append(self.journal.post("run", self.asks.popitem()[1]))
        return events


def test_a_request_that_came_before_a_task_ended_is_heard_before_the_next_one_starts() -> None:
    run = Steered(plan({"id": "a", "run": "x"}, {"id": "b", "run": "x", "needs": ["a"]}))
    effects = Asleep(Script(run.outcome, lambda names: {}), run.clock, run.journal, {1e9: PAUSE})
    handle = run.journal.create_run(NewRun("run", "p", "digest", START))
    state = State(run.plan, "run")
    run.drive(state, effects, handle, RunStarted("digest", {}, 7, traits=TRAITS))
    assert [call.name for call in effects.started] == ["a"]
    assert (state.status, state.reason) == ("paused", "pause")
    assert [entry.event.task for entry in run.journal.entries("run") if isinstance(entry.event, AttemptStarted)] == [
        "a"
    ]


def test_a_run_that_another_process_acquired_is_noticed_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "RENEWAL", 0.0)
    journal = MemoryJournal()
    inbox = loop.Inbox(journal, journal.create_run(NewRun("run", "p", "digest", 1.0)))
    assert inbox.news() == []
    journal.crash()
    journal.acquire("run")
    monkeypatch.setattr(loop, "LOOK", 0.0)
    inbox._next = 0.0
    with pytest.raises(Fenced):
        inbox.news()
