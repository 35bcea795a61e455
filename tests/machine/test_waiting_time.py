"""Time budgets and people: what is spent while nothing runs and somebody is awaited, at a terminal and without one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from rows import rows
from simulator.rehearsal import TRAITS
from simulator.runs import PLACE, RUN_ID, START, Disk, Nobody

from planrunner.engine.loop import Driver
from planrunner.engine.replay import replay
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.machine.admission import wanted
from planrunner.machine.events import (
    BudgetExtended,
    Entry,
    GateVoted,
    Outcome,
    PeopleAwaited,
    RunEnded,
    RunParked,
    RunResumed,
    RunStarted,
    StopRequested,
)
from planrunner.machine.evolve import evolve, fold
from planrunner.machine.requests import reply
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

HOUR = 3600.0


def plan(text: str) -> Plan:
    loaded = load(Source(f"plan: p\n{text}", "p.yaml", "yaml"), Registry())
    assert loaded.plan is not None, [finding.message for finding in loaded.findings if finding.severity == "error"]
    return loaded.plan


class People(SimulatedEffects):
    """An imagined world in which somebody votes at given times: the votes come in as from a terminal."""

    __slots__ = ()

    def say(self, seconds: float, *events: Any) -> None:
        for event in events:
            self._later(seconds, event)


class Run:
    """One run and its lives on a virtual clock. ``votes`` are (seconds from the start, gate, verdict)."""

    def __init__(
        self,
        document: Plan,
        votes: Sequence[tuple[float, str, str]] = (),
        *,
        attended: bool = True,
        seconds: Mapping[str, float] = MappingProxyType({}),
        failing: Collection[str] = (),
        **started: Any,
    ) -> None:
        self.plan, self.seconds, self.failing, self.disk, self.now = document, seconds, failing, Disk(), START
        first = {"params": {}, "traits": TRAITS, "environment": {}, **started}
        self.drive(RunStarted("sha256:people", seed=7, attended=attended, **first), votes)

    def drive(self, first: RunStarted | RunResumed, votes: Sequence[tuple[float, str, str]]) -> None:
        effects = People(Script(self._outcome, lambda names: {}), self.now)
        self.state = fold(self.plan, RUN_ID, self.disk.entries)
        driver = Driver(self.state, self.disk.append, effects, PLACE, Nobody(), len(self.disk.entries))
        for at, gate, verdict in votes:
            if not gate:
                effects.say(START + at - self.now, BudgetExtended("", "attempts", 2))
                continue
            effects.say(START + at - self.now, GateVoted(gate, 1, verdict, "bo", ""))  # type: ignore[arg-type]
        driver.record(first)
        driver.run()
        self.now = effects.now()

    def _outcome(self, call: Any) -> Outcome:
        name = call.name.rpartition("/")[2]
        if name in self.failing:
            return Outcome("transient", "no", duration=1.0)
        return Outcome(duration=self.seconds.get(name, 60.0), exit_code=0)

    def resume(self, after: float, votes: Sequence[tuple[float, str, str]] = (), attended: bool = False) -> Run:
        """Somebody takes the run up again ``after`` so many seconds."""
        self.now += after
        self.drive(RunResumed(2, attended=attended), votes)
        return self

    def vote(self, gate: str) -> None:
        """Somebody else's word for a parked run."""
        event = GateVoted(gate, 1, "approve", "bo", "")
        evolve(self.state, event, self.now)
        self.disk.append([Entry(len(self.disk.entries) + 1, self.now, event)])

    @property
    def spent(self) -> float:
        return self.state.spent_time(self.now)

    def statuses(self) -> dict[str, str]:
        return {task.id: found.status for task, found in zip(self.state.specs, self.state.tasks, strict=True)}

    def events(self, kind: type) -> list[Any]:
        return [entry.event for entry in self.disk.entries if isinstance(entry.event, kind)]


ONE_GATE = """
budgets: {time: 10m}
tasks:
  - {id: build, run: make}
  - {id: sign, needs: [build], gate: approval, ask: Go on}
  - {id: publish, needs: [sign], run: make publish}
"""


def test_waiting_at_a_terminal_spends_nothing_of_the_time_budget() -> None:
    ran = Run(plan(ONE_GATE), [(5 * HOUR, "sign", "approve")])
    assert ran.state.status == "completed"
    assert ran.spent == 120.0
    assert ran.events(PeopleAwaited) == [PeopleAwaited()]


def test_at_a_terminal_as_much_time_is_spent_as_by_a_run_that_parks() -> None:
    attended = Run(plan(ONE_GATE), [(5 * HOUR, "sign", "approve")])
    parked = Run(plan(ONE_GATE), attended=False)
    assert parked.events(RunParked) == [RunParked("waiting", ("sign",))]
    parked.vote("sign")
    parked.resume(5 * HOUR)
    assert (parked.state.status, parked.spent) == ("completed", attended.spent)


def test_the_time_budget_goes_on_where_it_stood_after_the_answer() -> None:
    ran = Run(plan(ONE_GATE), [(5 * HOUR, "sign", "approve")], seconds={"publish": 700.0})
    assert (ran.state.status, ran.state.reason) == ("failed", "budget")
    assert ran.events(StopRequested) == [StopRequested("time")]
    assert ran.disk.entries[-1].at - START == 5 * HOUR + 540.0


def test_a_branch_that_runs_beside_the_gate_uses_time() -> None:
    text = ONE_GATE + "  - {id: long, run: make all}\n"
    ran = Run(plan(text), [(5 * HOUR, "sign", "approve")], seconds={"long": 300.0})
    assert (ran.state.status, ran.spent) == ("completed", 360.0)


def test_a_retry_that_waits_beside_the_gate_uses_time() -> None:
    text = """
budgets: {time: 2h}
tasks:
  - {id: sign, gate: approval, ask: Go on}
  - id: flaky
    run: make
    retry: {attempts: 2, delay: 30m, max_delay: 1h, jitter: 0%, backoff: fixed}
    allow_failure: true
"""
    ran = Run(plan(text), [(5 * HOUR, "sign", "approve")], failing={"flaky"})
    assert (ran.state.status, ran.spent) == ("completed", 1802.0)
    assert ran.events(PeopleAwaited) == [PeopleAwaited()]


def test_the_deadline_of_the_plan_goes_on_while_people_are_awaited() -> None:
    ran = Run(plan("deadline: 1h\n" + ONE_GATE.lstrip()), [(5 * HOUR, "sign", "approve")])
    assert (ran.state.status, ran.state.reason) == ("failed", "deadline")
    assert ran.state.tasks[1].detail == "the deadline of the plan (1h from the start of the run) has passed"
    assert ran.disk.entries[-1].at - START == HOUR


def test_each_wait_of_a_run_stands_still_for_itself() -> None:
    text = """
budgets: {time: 10m}
tasks:
  - {id: one, gate: approval, ask: Go on}
  - {id: between, needs: [one], run: make}
  - {id: two, needs: [between], gate: approval, ask: Go on}
  - {id: three, needs: [two], gate: approval, ask: Go on}
"""
    ran = Run(plan(text), [(HOUR, "one", "approve"), (2 * HOUR, "two", "approve"), (3 * HOUR, "three", "approve")])
    assert (ran.state.status, ran.spent) == ("completed", 60.0)
    assert len(ran.events(PeopleAwaited)) == 3


def test_a_gate_that_expires_at_a_terminal_spends_nothing_and_ends_in_time() -> None:
    ran = Run(plan(ONE_GATE.replace("ask: Go on", "ask: Go on, expires: 4h")))
    assert (ran.state.status, ran.spent) == ("failed", 60.0)
    assert ran.disk.entries[-1].at - START == 4 * HOUR + 60


def test_a_runner_that_is_killed_while_it_waits_at_the_terminal_has_spent_nothing() -> None:
    ran = Run(plan(ONE_GATE), [(5 * HOUR, "sign", "approve")])
    cut = next(entry.seq for entry in ran.disk.entries if isinstance(entry.event, PeopleAwaited))
    del ran.disk.entries[cut:]
    ran.now = START + 60.0
    ran.state = fold(ran.plan, RUN_ID, ran.disk.entries)
    ran.vote("sign")
    ran.resume(3 * HOUR)
    assert (ran.state.status, ran.spent) == ("completed", 120.0)


def test_a_run_that_waited_at_a_terminal_is_replayed_exactly() -> None:
    ran = Run(plan(ONE_GATE), [(5 * HOUR, "sign", "approve")])
    assert replay(ran.plan, RUN_ID, ran.disk.entries).difference is None


# Inside tasks that hold others

INSIDE = """
tasks:
  - id: stage
    LIMIT
    subplan:
      - {id: build, run: make}
      - {id: sign, needs: [build], gate: approval, ask: Go on}
      - {id: publish, needs: [sign], run: make publish}
  - {id: beside, run: make all}
"""
BUDGET = INSIDE.replace("LIMIT", "budgets: {time: 10m}")
TIMEOUT = INSIDE.replace("LIMIT", "timeout: 10m")


@pytest.mark.parametrize("beside", [1.0, 4 * HOUR])
def test_the_time_budget_of_a_subplan_stands_still_while_its_gate_waits_whatever_runs_beside_it(beside: float) -> None:
    ran = Run(plan(BUDGET), [(3 * HOUR, "stage/sign", "approve")], seconds={"beside": beside})
    assert ran.state.status == "completed"
    assert PeopleAwaited("stage") in ran.events(PeopleAwaited)


def test_the_time_budget_of_a_subplan_is_the_same_without_a_terminal() -> None:
    ran = Run(plan(BUDGET), attended=False)
    ran.vote("stage/sign")
    assert ran.resume(3 * HOUR).state.status == "completed"


@pytest.mark.parametrize("attended", [True, False])
def test_what_a_subplan_runs_after_the_answer_uses_what_is_left_of_its_time(attended: bool) -> None:
    votes = [(3 * HOUR, "stage/sign", "approve")]
    ran = Run(plan(BUDGET), votes if attended else [], attended=attended, seconds={"publish": HOUR, "beside": 1.0})
    if not attended:
        ran.vote("stage/sign")
        ran.resume(3 * HOUR - 60.0)
    assert ran.statuses()["stage"] == "failed"
    assert ran.state.tasks[0].failure == "timeout"
    assert ran.disk.entries[-1].at - START == 3 * HOUR + 540.0


LIMITS = ["timeout", "timebox"]


@rows("limit", LIMITS)
@rows("attended", [True, False])
def test_a_limit_of_a_subplan_does_not_count_the_time_in_which_its_gate_waits(attended: bool, limit: str) -> None:
    votes = [(3 * HOUR, "stage/sign", "approve")]
    document = plan(INSIDE.replace("LIMIT", f"{limit}: 10m"))
    ran = Run(document, votes if attended else [], attended=attended, seconds={"beside": 1.0})
    if not attended:
        ran.vote("stage/sign")
        ran.resume(3 * HOUR)
    assert ran.state.status == "completed"


@rows("limit", LIMITS)
def test_what_a_subplan_runs_after_the_answer_uses_what_is_left_of_its_limit(limit: str) -> None:
    seconds = {"publish": HOUR, "beside": 1.0}
    document = plan(INSIDE.replace("LIMIT", f"{limit}: 10m"))
    ran = Run(document, [(3 * HOUR, "stage/sign", "approve")], seconds=seconds)
    task = ran.state.tasks[0]
    assert (task.status, task.failure) == ("failed", "timeout")
    assert "10m" in task.detail
    assert limit in task.detail
    assert ran.disk.entries[-1].at - START == 3 * HOUR + 540.0


@rows("limit", LIMITS)
def test_a_limit_of_a_loop_counts_only_what_its_rounds_run(limit: str) -> None:
    text = f"""
tasks:
  - id: rounds
    {limit}: 5m
    loop: {{max: 3, tasks: [{{id: sign, gate: approval, ask: Go on}}, {{id: make, needs: [sign], run: make}}]}}
"""
    votes = [(hours * HOUR, f"rounds#{hours}/sign", "approve") for hours in (1, 2, 3)]
    assert Run(plan(text), votes).state.status == "completed"
    ran = Run(plan(text), votes, seconds={"make": 150.0})
    assert ran.state.tasks[0].failure == "timeout"
    assert ran.disk.entries[-1].at - START == 2 * HOUR + 150.0


@rows("limit", LIMITS)
def test_a_run_whose_limit_was_put_off_is_replayed_exactly(limit: str) -> None:
    ran = Run(
        plan(INSIDE.replace("LIMIT", f"{limit}: 10m")),
        [(3 * HOUR, "stage/sign", "approve")],
        seconds={"publish": HOUR, "beside": 1.0},
    )
    assert replay(ran.plan, RUN_ID, ran.disk.entries).difference is None


def test_of_two_limits_of_a_subplan_the_first_one_ends_it() -> None:
    both = plan(INSIDE.replace("LIMIT", "timeout: 20m\n    budgets: {time: 10m}"))
    votes = [(HOUR, "stage/sign", "approve")]
    assert Run(both, votes, seconds={"beside": 1.0, "publish": 480.0}).state.status == "completed"
    late = Run(both, votes, seconds={"beside": 1.0, "publish": 900.0})
    assert late.state.tasks[0].failure == "timeout"
    assert next(entry.at for entry in late.disk.entries if isinstance(entry.event, RunEnded)) - START == HOUR + 540.0


def test_a_step_that_waits_for_a_slot_beside_the_gate_uses_the_time_of_its_subplan() -> None:
    text = """
max_parallel: 1
tasks:
  - {id: beside, run: make all, priority: high}
  - id: stage
    budgets: {time: 10m}
    subplan:
      - {id: sign, gate: approval, ask: Go on}
      - {id: build, run: make}
"""
    ran = Run(plan(text), [(3 * HOUR, "stage/sign", "approve")], seconds={"beside": HOUR})
    assert ran.state.tasks[1].failure == "timeout"


def test_rounds_and_items_with_gates_keep_the_time_of_what_holds_them() -> None:
    text = """
budgets: {time: 20m}
tasks:
  - id: each
    budgets: {time: 10m}
    foreach: [a, b]
    subplan:
      - id: twice
        budgets: {time: 5m}
        loop: {max: 2, tasks: [{id: sign, gate: approval, ask: Go on}, {id: make, needs: [sign], run: make}]}
"""
    votes = [
        (hours * HOUR, f"each[{item}]/twice#{round}/sign", "approve")
        for hours, item, round in ((1, 0, 1), (2, 1, 1), (3, 0, 2), (4, 1, 2))
    ]
    ran = Run(plan(text), votes)
    assert (ran.state.status, ran.spent) == ("completed", 240.0)
    assert replay(ran.plan, RUN_ID, ran.disk.entries).difference is None


# Budgets that people are asked about

ASKS = """
budgets: {attempts: 1, on_exhausted: gate}
tasks:
  - {id: one, run: make}
  - {id: two, needs: [one], run: make}
  - {id: three, needs: [one], run: make}
"""


def test_tasks_that_wait_for_one_limit_are_one_question() -> None:
    ran = Run(plan(ASKS), attended=False)
    [asked] = wanted(ran.state, ran.now)
    assert (asked.name, asked.scope, asked.what, asked.tasks) == ("budget", "", "attempts", ("two", "three"))
    assert (asked.least, asked.more, asked.limit) == (1, 2, 1)
    assert asked.ask == "the attempts budget of the plan (1) is used up"


def test_a_limit_that_was_extended_is_no_question_any_more() -> None:
    ran = Run(plan(ASKS), attended=False)
    evolve(ran.state, BudgetExtended("", "attempts", 1), ran.now)
    assert wanted(ran.state, ran.now) == []
    ran.disk.append([Entry(len(ran.disk.entries) + 1, ran.now, BudgetExtended("", "attempts", 1))])
    ran.resume(60.0)
    assert [asked.tasks for asked in wanted(ran.state, ran.now)] == [("three",)]


def test_time_that_is_used_up_is_a_question_too() -> None:
    ran = Run(plan(ONE_GATE.replace("10m", "30s, on_exhausted: gate")), attended=False)
    ran.vote("sign")
    ran.resume(60.0)
    [asked] = wanted(ran.state, ran.now)
    assert (asked.what, asked.limit, asked.tasks) == ("time", 30.0, ("publish",))


def test_an_extension_that_is_not_enough_says_what_is_missing() -> None:
    text = "budgets: {calls: 3, on_exhausted: gate}\ntasks:\n  - {id: one, run: make, budgets: {calls: 10}}\n"
    ran = Run(plan(text), attended=False)
    said = reply(ran.state, "budget", {"add": {"calls": 2}}, "bo").message
    assert said == "the budget is extended; a task waited for it, and still waits: 5 more calls is needed"
    assert reply(ran.state, "budget", {"add": {"calls": 7}}, "bo").message.endswith("a task waited for it")


def refuse(ran: Run, **body: Any) -> None:
    found = reply(ran.state, "budget", {"refuse": ["attempts"], "reason": "enough", **body}, "bo")
    assert found.applied, found.message
    for event in found.events:
        evolve(ran.state, event, ran.now)
        ran.disk.append([Entry(len(ran.disk.entries) + 1, ran.now, event)])


def test_a_limit_that_somebody_refuses_to_extend_ends_the_run_like_one_that_stops() -> None:
    ran = Run(plan(ASKS), attended=False)
    refuse(ran)
    assert wanted(ran.state, ran.now) == []
    ran.resume(60.0)
    assert (ran.state.status, ran.state.reason) == ("failed", "budget")
    assert ran.statuses() == {"one": "completed", "two": "cancelled", "three": "cancelled"}
    assert "more was refused by bo: enough" in ran.state.tasks[1].detail
    assert replay(ran.plan, RUN_ID, ran.disk.entries).difference is None


def test_a_refused_limit_of_a_subplan_ends_that_one_alone() -> None:
    text = """
tasks:
  - id: stage
    budgets: {attempts: 1, on_exhausted: gate}
    allow_failure: true
    subplan: [{id: one, run: make}, {id: two, needs: [one], run: make}]
  - {id: after, needs: [stage], run: make}
"""
    ran = Run(plan(text), attended=False)
    [asked] = wanted(ran.state, ran.now)
    assert (asked.name, asked.tasks) == ("stage/budget", ("stage/two",))
    refuse(ran, scope="stage")
    ran.resume(60.0)
    assert ran.statuses() == {
        "stage": "failed",
        "after": "completed",
        "stage/one": "completed",
        "stage/two": "cancelled",
    }


def test_a_refused_limit_of_a_task_fails_that_task() -> None:
    text = """
tasks:
  - {id: one, run: make, retry: {attempts: 3, delay: 1s}, budgets: {attempts: 1, on_exhausted: gate}, allow_failure: true}
  - {id: two, needs: [one], run: make}
"""
    ran = Run(plan(text), attended=False, failing={"one"})
    assert [asked.name for asked in wanted(ran.state, ran.now)] == ["one/budget"]
    refuse(ran, scope="one")
    ran.resume(60.0)
    assert ran.statuses() == {"one": "failed", "two": "completed"}
    assert ran.state.tasks[0].failure == "budget"


def test_an_extension_after_a_refusal_counts() -> None:
    ran = Run(plan(ASKS), attended=False)
    refuse(ran)
    found = reply(ran.state, "budget", {"add": {"attempts": 2}}, "ana")
    for event in found.events:
        evolve(ran.state, event, ran.now)
        ran.disk.append([Entry(len(ran.disk.entries) + 1, ran.now, event)])
    assert ran.resume(60.0).state.status == "completed"


def test_nothing_can_be_refused_that_nobody_asks_for() -> None:
    ran = Run(plan(ASKS), attended=False)
    for body in ({"refuse": ["cost"]}, {"refuse": []}, {"refuse": ["attempts"], "scope": "one"}, {"refuse": 3}):
        assert not reply(ran.state, "budget", body, "bo").applied, body
    refuse(ran)
    assert not reply(ran.state, "budget", {"refuse": ["attempts"]}, "bo").applied


def test_somebody_at_the_terminal_is_awaited_for_a_budget_as_for_a_gate() -> None:
    ran = Run(plan(ASKS), [(HOUR, "", "more")])
    assert (ran.state.status, ran.spent) == ("completed", 120.0)
    assert ran.events(PeopleAwaited) == [PeopleAwaited()]
    parked = Run(plan(ASKS), attended=False)
    assert parked.events(RunParked) == [RunParked("waiting", ("two", "three"))]
