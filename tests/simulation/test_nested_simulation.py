"""Random plans that nest loops, fan-outs and subplans, in an imagined world with crashes: every promise checked."""

from __future__ import annotations

import json
import os
import random

import pytest
from simulator.plans import linked_plan, nested_plan
from simulator.runs import World, simulate, summary

from planrunner.machine.events import RollbackStarted, RunEnded, TasksReset, UndoSettled
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

SEEDS = int(os.environ.get("PLANRUNNER_SIMULATIONS", "1200"))
TRAITS = {"shell": ["unsafe", False, False], "noop": ["pure", True, False]}
REGISTRY = Registry()


def world(seed: int, **changes: object) -> World | None:
    document = nested_plan(seed) | changes
    loaded = load(Source(json.dumps(document), f"nested-{seed}.json", "json"), REGISTRY)
    return None if loaded.plan is None else World(loaded.plan, TRAITS, seed)


def linked_worlds(seeds: range, **changes: object) -> list[World]:
    documents = {seed: linked_plan(seed) | changes for seed in seeds}
    plans = {
        seed: load(Source(json.dumps(document), f"linked-{seed}.json", "json"), REGISTRY).plan
        for seed, document in documents.items()
    }
    return [World(plan, TRAITS, seed) for seed, plan in plans.items() if plan is not None]


def worlds(seeds: range, **changes: object) -> list[World]:
    return [found for found in (world(seed, **changes) for seed in seeds) if found is not None]


def sends_back(found: World) -> bool:
    return any(edge.rework for task in found.plan.tasks for edge in task.edges)


def test_most_nested_plans_are_valid_and_nest() -> None:
    found = worlds(range(100))
    assert len(found) >= 60
    assert sum(any(task.loop or task.fanout or task.subplan for task in each.plan.tasks) for each in found) >= 50


@pytest.mark.parametrize("block", range(8))
def test_promises_hold_for_nested_plans(block: int) -> None:
    size = SEEDS // 8
    for found in worlds(range(block * size, (block + 1) * size)):
        assert isinstance(simulate(found).entries[-1].event, RunEnded), found.seed


@pytest.mark.parametrize("block", range(4))
def test_a_crash_at_any_journal_write_of_a_nested_run_leads_to_the_same_final_state(block: int) -> None:
    for found in worlds(range(block * 12, block * 12 + 12), on_failure="continue"):
        if sends_back(found):
            continue  # what runs beside may end before or after: the final state is not one
        calm = simulate(found)
        for write in range(1, calm.writes + 1):
            for stored in (False, True):
                crashed = simulate(found, {write: stored})
                assert summary(crashed.state) == summary(calm.state), (found.seed, write, stored)
                assert crashed.state.status == calm.state.status


def test_a_crash_at_any_journal_write_of_a_run_that_is_undone_breaks_no_promise() -> None:
    undone = 0
    for found in worlds(range(500, 540), on_failure="rollback"):
        calm = simulate(found)
        undone += any(isinstance(entry.event, UndoSettled) for entry in calm.entries)
        for write in range(1, calm.writes + 1):
            for stored in (False, True):
                assert simulate(found, {write: stored}).state.ended_at is not None
    assert undone > 5


def test_crashes_break_no_promise_under_any_policy() -> None:
    back = undone = 0
    for policy in ("stop", "continue", "rollback"):
        for found in worlds(range(300, 420), on_failure=policy):
            rng = random.Random(found.seed)
            calm = simulate(found)
            back += any(isinstance(entry.event, TasksReset) for entry in calm.entries)
            undone += any(isinstance(entry.event, UndoSettled) for entry in calm.entries)
            for _ in range(4):
                dies = {write: rng.random() < 0.5 for write in rng.sample(range(1, calm.writes + 4), 2)}
                assert simulate(found, dies).state.ended_at is not None
    assert back > 20
    assert undone > 20


@pytest.mark.parametrize("block", range(4))
def test_promises_hold_for_linked_plans_that_are_undone(block: int) -> None:
    size = SEEDS // 8
    within = 0
    for found in linked_worlds(range(block * size, (block + 1) * size)):
        entries = simulate(found).entries
        assert isinstance(entries[-1].event, RunEnded), found.seed
        within += any(isinstance(entry.event, RollbackStarted) and bool(entry.event.within) for entry in entries)
    assert within > (size // 20 if size >= 100 else 0)  # few worlds hold as few of a kind as chance will have it


@pytest.mark.parametrize("policy", ["stop", "continue", "rollback"])
def test_a_crash_at_any_journal_write_of_a_run_with_linked_plans_that_are_undone_breaks_no_promise(policy: str) -> None:
    within = 0
    for found in linked_worlds(range(700, 780), on_failure=policy):
        calm = simulate(found)
        linked = [e.event.within for e in calm.entries if isinstance(e.event, RollbackStarted) and e.event.within]
        if not linked:
            continue
        within += len(linked)
        for write in range(1, calm.writes + 1):
            for stored in (False, True):
                assert simulate(found, {write: stored}).state.ended_at is not None
        rng = random.Random(found.seed)
        for _ in range(5):
            dies = {write: rng.random() < 0.5 for write in rng.sample(range(1, calm.writes + 4), 3)}
            assert simulate(found, dies, stop_at=rng.randint(1, 9)).state.ended_at is not None
    assert within >= 5
