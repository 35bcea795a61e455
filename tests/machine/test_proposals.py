"""Plans that a run proposes for itself: when it pauses, what a person's answer leads to, what it may do on its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from rows import rows
from simulator.rehearsal import TRAITS, Rehearsal, rehearse
from simulator.runs import PLACE, RUN_ID, Disk, Nobody
from workbench import plan

from planrunner.engine.loop import Driver
from planrunner.engine.replay import replay
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.machine.agents import proposed
from planrunner.machine.events import Event, Outcome, RevisionDeclined, RunResumed, StopRequested
from planrunner.machine.evolve import fold
from planrunner.machine.rights import beyond, granted
from planrunner.machine.state import State
from planrunner.plan.agents import Roster
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plan.rights import Level
from planrunner.plan.rules.view import Project
from planrunner.plugins.registry import Registry
from planrunner.source import Source

Json = Any

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
PROPOSES = Outcome(outputs={"plan": "plan: p\n", "proposes": True}, duration=1.0)
SILENT = Outcome(outputs={"plan": "plan: p\n", "proposes": False}, duration=1.0)

REPLAN = {"id": "replan", "uses": "agent.plan", "with": {"goal": "mend it", "apply": True}}


def mending(*more: dict[str, Json], **keys: Json) -> Plan:
    """A plan whose task ``build`` leads to ``replan`` where it fails."""
    return plan(
        {"id": "first", "run": "x"},
        {"id": "build", "run": "x", "needs": ["first"], "on_failure": "replan"},
        {"id": "ship", "run": "x", "needs": ["build"]},
        REPLAN,
        *more,
        **{"defaults": {"timeout": "1m"}, **keys},
    )


def ran(made: Plan, outcomes: Mapping[str, Sequence[Outcome]]) -> Rehearsal:
    return rehearse(made, outcomes, started={"traits": {**TRAITS, "agent.plan": ["read", False, False]}})


def further(before: Rehearsal, *events: Event) -> tuple[State, list[str]]:
    """Resume a run after events; its state, and the tasks that acted then."""
    disk = Disk()
    disk.entries = list(before.entries)
    state = fold(before.state.plan, RUN_ID, disk.entries)
    acted: list[str] = []

    def outcome(call: Any) -> Outcome:
        acted.append(call.name)
        return Outcome(exit_code=0, duration=1.0)

    effects = SimulatedEffects(Script(outcome, lambda names: {}), disk.entries[-1].at + 60)
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), len(disk.entries))
    driver.record(*events, RunResumed(2))
    driver.run()
    assert replay(state.plan, RUN_ID, disk.entries).difference is None
    return state, acted


def test_a_proposal_pauses_the_run_and_starts_nothing_more() -> None:
    rehearsed = ran(mending({"id": "beside", "run": "x", "needs": ["replan"]}), {"build": [BAD], "replan": [PROPOSES]})
    assert (rehearsed.state.status, rehearsed.state.reason) == ("paused", "revision")
    assert rehearsed.order == ["first", "build", "replan"]
    [stop] = [entry.event for entry in rehearsed.entries if isinstance(entry.event, StopRequested)]
    assert stop == StopRequested("revision", "replan")


def test_a_run_that_has_nothing_left_pauses_too_and_finally_waits() -> None:
    made = plan(REPLAN, defaults={"timeout": "1m"}, **{"finally": [{"id": "clean", "run": "x"}]})
    rehearsed = ran(made, {"replan": [PROPOSES]})
    assert rehearsed.state.status == "paused" and rehearsed.order == ["replan"]


def test_what_runs_beside_it_may_finish() -> None:
    slow = Outcome(exit_code=0, duration=9.0)
    rehearsed = ran(plan({"id": "slow", "run": "x"}, REPLAN, defaults={"timeout": "1m"}),
                    {"slow": [slow], "replan": [PROPOSES]})  # fmt: skip
    assert rehearsed.statuses() == {"slow": "completed", "replan": "completed"}
    assert rehearsed.state.reason == "revision"


@pytest.mark.parametrize("outcome", [SILENT, BAD])
def test_a_plan_that_is_not_proposed_changes_nothing(outcome: Outcome) -> None:
    rehearsed = ran(mending(), {"build": [BAD], "replan": [outcome]})
    assert (rehearsed.state.status, rehearsed.state.proposal) == ("failed", "")


def test_resuming_without_an_answer_pauses_again() -> None:
    rehearsed = ran(mending(), {"build": [BAD], "replan": [PROPOSES]})
    state, acted = further(rehearsed)
    assert (state.status, state.reason, acted) == ("paused", "revision", [])
    assert proposed(state) == state.index["replan"]


def test_a_declined_proposal_lets_the_run_end_as_it_would_have() -> None:
    rehearsed = ran(mending(), {"build": [BAD], "replan": [PROPOSES]})
    state, acted = further(rehearsed, RevisionDeclined("replan", "ana", "no"))
    assert (state.status, state.proposal, acted) == ("failed", "", [])


def test_a_cancelled_run_ends_in_spite_of_a_proposal() -> None:
    rehearsed = ran(mending(), {"build": [BAD], "replan": [PROPOSES]})
    state, _ = further(rehearsed, StopRequested("cancelled", "ana"))
    assert state.status == "cancelled"


@rows(
    ("levels", "own", "most"),
    [
        ([], None, 0),
        ([{}], None, 0),
        ([{"autonomous": True}], None, 3),
        ([{"autonomous": {"revisions": 7}}], None, 7),
        ([{"autonomous": {}}], None, 3),
        ([{"autonomous": {"revisions": 7}}, {"autonomous": True}], None, 3),
        ([{"autonomous": True}, {"autonomous": False}], None, 0),
        ([{"autonomous": True}], False, 0),
        ([], True, 0),
        ([{"autonomous": {"revisions": 2}}], True, 2),
    ],
)
def test_only_the_operator_grants_and_everybody_may_refuse(levels: list[Json], own: bool | None, most: int) -> None:
    made = mending()._replace(policy=None if own is None else {"autonomous": own})
    assert granted([Level("planrunner.yaml", data) for data in levels], made) == most


PAUSED = ran(
    mending({"id": "sign", "gate": "approval", "ask": "Go?", "needs": ["ship"]}, {"id": "out", "run": "x", "needs": ["sign"]},
            {"id": "look", "uses": "files.read", "with": {"path": "x"}, "needs": ["ship"]}),
    {"build": [BAD], "replan": [PROPOSES]},
)  # fmt: skip


WRITTEN = {task["id"]: task for task in (
    {"id": "first", "run": "x"},
    {"id": "build", "run": "x", "needs": ["first"], "on_failure": "replan"},
    {"id": "ship", "run": "x", "needs": ["build"]},
    REPLAN,
    {"id": "sign", "gate": "approval", "ask": "Go?", "needs": ["ship"]},
    {"id": "out", "run": "x", "needs": ["sign"]},
    {"id": "look", "uses": "files.read", "with": {"path": "x"}, "needs": ["ship"]},
)}  # fmt: skip
"""The tasks of ``PAUSED``."""


def revised(**changes: Json) -> Plan:
    """The plan of ``PAUSED`` with other fields of its tasks; ``None`` takes one away, an unknown name adds it."""
    tasks: dict[str, Json] = dict(WRITTEN)
    keys = changes.pop("keys", {})
    for name, change in changes.items():
        if change is None:
            del tasks[name]
        else:
            tasks[name] = {**tasks.get(name, {"id": name}), **change}
    return plan(*tasks.values(), **{"defaults": {"timeout": "1m"}, **keys})


@rows(
    "changes",
    [
        {},
        {"build": {"run": "y", "needs": ["first", "sign"]}},
        {"out": {"run": "y"}},
        {"more": {"uses": "files.read", "with": {"path": "y"}, "needs": ["first"]}},
        {"more": {"run": "y", "needs": ["sign"]}},
        {"keys": {"title": "Another title"}},
    ],
)
def test_what_a_run_may_change_of_its_own_plan(changes: dict[str, Json]) -> None:
    state = fold(PAUSED.state.plan, RUN_ID, PAUSED.entries)
    state.traits |= {"files.read": type(state.traits["shell"])("read", False, False)}
    if "build" in changes:  # a gate that is decided stands in nobody's way
        changes = {"look": {"with": {"path": "z"}}}
    assert beyond(state, PAUSED.state.plan, revised(**changes)) == []


@rows(
    ("changes", "why"),
    [
        ({"build": {"run": "y"}}, "`build` acts and does not come after the gate `sign`"),
        ({"first": {"run": "y"}}, "it touches `first`, which has been executed (completed)"),
        ({"first": None, "build": {"needs": []}}, "it removes `first`"),
        ({"sign": {"ask": "Really?"}}, "it changes `gate` of `sign`"),
        ({"sign": None, "out": {"needs": ["ship"]}}, "it removes `sign`, which guards the run"),
        ({"out": {"needs": []}}, "`out` no longer comes after the gate `sign`"),
        ({"more": {"run": "y", "needs": ["first"]}}, "`more` acts and does not come after the gate `sign`"),
        (
            {"more": {"uses": "http.get", "with": {"url": "https://x/"}}},
            "`more` calls `http.get`, which no task did before",
        ),
        ({"more": {"run": "y", "needs": ["sign"], "secrets": ["key"]}}, "`more` is given secrets"),
        ({"out": {"allow_failure": True}}, "it changes `allow_failure` of `out`"),
        ({"out": {"expect": ["exit_code == 1"]}}, "it changes `expect` of `out`"),
        ({"out": {"budgets": {"attempts": 9}}}, "it changes `budgets` of `out`"),
        ({"out": {"when": "false"}}, "it changes `when` of `out`"),
        ({"ship": {"needs": ["first"]}}, "edge build -> ship is removed"),
        ({"build": {"on_failure": {"to": "replan", "recovers": True}}}, "it changes where `build` leads"),
        ({"keys": {"budgets": {"time": "9h"}}}, "budgets is added"),
        ({"keys": {"policy": {"files": {"write": ["**"]}}}}, "policy is added"),
        ({"keys": {"on_failure": "continue"}}, "it changes `on_failure` of the plan"),
        ({"keys": {"params": {"x": "1"}}}, "param x is added"),
    ],
)
def test_what_needs_a_person(changes: dict[str, Json], why: str) -> None:
    state = fold(PAUSED.state.plan, RUN_ID, PAUSED.entries)
    state.traits |= {"files.read": type(state.traits["shell"])("read", False, False)}
    said = beyond(state, PAUSED.state.plan, revised(**changes))
    assert any(why in each for each in said), said


def with_agent(*tools: str) -> Plan:
    """The plan of ``PAUSED`` with another task, which an agent with these tools carries out."""
    agent = {"id": "more", "agent": {"tools": list(tools)}, "prompt": "Do it.", "needs": ["first"]}
    tasks = [*WRITTEN.values(), agent]
    text = json.dumps({"plan": "p", "tasks": tasks, "defaults": {"timeout": "1m"}})
    made = load(Source(text, "p.json", "json"), Registry(), Project(roster=Roster())).plan
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (with_agent("files.write"), "`more` calls `files.write`, which no task did before"),
        (with_agent("shell"), "`more` acts and does not come after the gate `sign`"),
    ],
)
def test_what_an_agent_may_call_needs_a_person_as_if_a_task_called_it(made: Plan, why: str) -> None:
    state = fold(PAUSED.state.plan, RUN_ID, PAUSED.entries)
    harmless = type(state.traits["shell"])("read", False, False)
    state.traits |= dict.fromkeys(("agent.ask", "noop"), harmless)
    said = beyond(state, PAUSED.state.plan, made)
    assert any(why in each for each in said), said
