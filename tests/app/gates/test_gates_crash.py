"""Whatever dies, and whenever: a decision that was acknowledged is kept, and none is made twice."""

from __future__ import annotations

import itertools
import random
import signal
import time
from typing import Any

import pytest
from simulator.gates import GateRun
from simulator.rehearsal import TRAITS
from simulator.runs import PLACE, RUN_ID, START, Crash, Disk, Nobody
from workbench import plan

from planrunner.engine.answers import answer
from planrunner.engine.loop import Driver
from planrunner.engine.replay import replay
from planrunner.engine.simulated import SimulatedEffects
from planrunner.journal.records import Request
from planrunner.machine.events import AttemptStarted, Entry, GateDecided, GateVoted, RunResumed, RunStarted
from planrunner.machine.evolve import evolve, fold
from planrunner.machine.state import State

TASKS = (
    {"id": "draft", "uses": "noop"},
    {
        "id": "sign",
        "needs": ["draft"],
        "gate": "approval",
        "ask": "Go on?",
        "approvers": {"users": ["bo", "cy"], "count": 2},
        "on_reject": {"rework": "draft", "max": 1},
    },
    {
        "id": "deploy",
        "needs": ["sign"],
        "run": "deploy",
        "effect": "idempotent",
        "labels": ["prod"],
        "expect": [{"judge": "it works"}],
    },
)
DOCUMENT = plan(*TASKS, policy={"gates": {"prod": {"approvers": {"users": ["bo"]}}}})
VOTES = [
    ("sign", "reject", "bo"),
    ("sign", "approve", "cy"),
    ("sign", "approve", "bo"),
    ("deploy", "approve", "bo"),
    ("deploy", "approve", "cy"),
]


class World:
    """A run whose runners, and the processes of those who vote, die at journal writes. A vote that is not acknowledged
    is cast again, as a person would."""

    def __init__(self, dies: dict[int, bool]) -> None:
        self.disk = Disk(dies)
        self.now = START
        self.lives = 0

    def drive(self) -> State:
        while True:
            self.lives += 1
            entries = self.disk.entries
            state = fold(DOCUMENT, RUN_ID, entries)
            if state.ended_at is not None:
                return state
            effects = SimulatedEffects(GateRun._script(_ALL_WELL), self.now)
            driver = Driver(state, self.disk.append, effects, PLACE, Nobody(), len(entries))
            first = RunResumed(self.lives) if entries else RunStarted("sha256:crash", {}, 7, traits=TRAITS)
            try:
                driver.record(first)
                driver.run()
                return state
            except Crash:
                pass
            finally:
                self.now = effects.now() + 1

    def vote(self, gate: str, verdict: str, by: str) -> None:
        while True:
            state = fold(DOCUMENT, RUN_ID, self.disk.entries)
            body = {"gate": gate, "verdict": verdict, "by": by, "reason": "r"}
            found = answer(state, Request("vote", body, by), PLACE, self.now)
            if not found.applied:
                # the process died after its vote was durable and before it could say so
                assert "voted already" in found.message or "decided already" in found.message, found.message
                return
            entries = []
            for event in found.events:
                evolve(state, event, self.now)
                entries.append(Entry(len(self.disk.entries) + len(entries) + 1, self.now, event))
            try:
                self.disk.append(entries)
                return
            except Crash:
                self.now += 1


_ALL_WELL: Any = GateRun.__new__(GateRun)
_ALL_WELL.outcomes, _ALL_WELL.evidence = {}, lambda effect: ()


def _whole(dies: dict[int, bool]) -> World:
    world = World(dies)
    world.drive()
    for gate, verdict, by in VOTES:
        world.vote(gate, verdict, by)
        state = world.drive()
    assert state.status == "completed"
    return world


def _check(world: World) -> None:
    events = [entry.event for entry in world.disk.entries]
    votes = [(event.task, event.verdict, event.by) for event in events if isinstance(event, GateVoted)]
    assert votes == VOTES
    decisions = [(event.task, event.decision) for event in events if isinstance(event, GateDecided)]
    assert decisions == [("sign", "rejected"), ("sign", "approved"), ("deploy", "approved"), ("deploy", "approved")]
    deploys = [event for event in events if isinstance(event, AttemptStarted) and event.task == "deploy"]
    assert {event.attempt for event in deploys} == {1}
    assert replay(DOCUMENT, RUN_ID, world.disk.entries).difference is None


def test_without_a_crash_everything_is_decided_in_order() -> None:
    _check(_whole({}))


WRITES = 18


@pytest.mark.parametrize("reached", [True, False])
@pytest.mark.parametrize("write", range(1, WRITES + 1))
def test_a_crash_at_any_write_loses_no_decision(write: int, reached: bool) -> None:
    _check(_whole({write: reached}))


def test_the_writes_are_all_there_are() -> None:
    assert _whole({}).disk.writes == WRITES


PLAN = """
plan: crash
defaults: {timeout: 2m}
tasks:
  - {id: sign, gate: approval, ask: Go on, approvers: {users: [bo, cy], count: 2}}
  - {id: after, needs: [sign], run: echo after}
"""


@pytest.mark.parametrize("seed", range(3))
def test_killed_voters_and_runners_leave_acknowledged_votes(project: Any, seed: int) -> None:
    rng = random.Random(seed)
    project.plan(PLAN)
    assert project("exec", "p.yaml").code == 8
    acknowledged: list[str] = []
    for by in itertools.islice(itertools.cycle(["bo", "cy"]), 6):
        process = project.start("approve", "last", "sign", "--as", by)
        time.sleep(rng.uniform(0.05, 0.5))
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=240)
        if process.returncode == 0:
            acknowledged.append(by)
    for by in ("bo", "cy"):
        assert project("approve", "last", "sign", "--as", by).code in (0, 2)
    runner = project.start("resume", "last")
    time.sleep(rng.uniform(0.05, 0.4))
    runner.send_signal(signal.SIGKILL)
    runner.communicate(timeout=240)
    last = project("resume", "last", "--settle", "after=completed") if runner.returncode else None
    if last is not None and last.code == 2:  # nothing was in doubt, or it had ended
        project("resume", "last")
    assert project("show", "last", "--json").data["status"] == "completed"
    votes = [event["by"] for event in project.events("gate_voted")]
    assert sorted(votes) == ["bo", "cy"]
    assert set(acknowledged) <= set(votes)
    assert len(project.events("gate_decided")) == 1
