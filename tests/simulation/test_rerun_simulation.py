"""Random plans of which random tasks begin anew, again and again, with crashes: every promise checked."""

from __future__ import annotations

import json
import os
import random

import pytest
from simulator.plans import fed_plan, with_done, with_finals
from simulator.runs import Simulated, World, simulate

from planrunner.machine.events import TaskSettled, TasksReset
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

SEEDS = int(os.environ.get("PLANRUNNER_SIMULATIONS", "480"))
TRAITS = {"shell": ["unsafe", False, False], "noop": ["pure", True, False]}
REGISTRY = Registry()


def world(seed: int, **changes: object) -> World | None:
    document = fed_plan(seed) | changes
    loaded = load(Source(json.dumps(document), f"fed-{seed}.json", "json"), REGISTRY)
    if loaded.plan is None:
        return None
    rate = random.Random(seed).choice([0.0, 0.05, 0.15, 0.3])
    return World(with_finals(loaded.plan, seed), TRAITS, seed, rate, feeds=True)


def worlds(seeds: range, **changes: object) -> list[World]:
    return [found for found in (world(seed, **changes) for seed in seeds) if found is not None]


def count(ran: Simulated, reason: str) -> int:
    return sum(isinstance(entry.event, TaskSettled) and entry.event.reason == reason for entry in ran.entries)


@pytest.mark.parametrize(
    ("seed", "stop_at"),
    [
        (135, 3),  # what waited in line was begun anew and started from both places
        (165, 3),
        (393, 0),  # a fan-out under `finally` kept its items though its level had run
        (1204, 3),  # undone again after a rollback that had failed
        (2446, 0),
        (818, 0),  # queued by a re-run, started after a further failure around it
        (9504, 0),
        (19397, 0),
    ],
)
def test_a_seed_that_found_a_bug_finds_none(seed: int, stop_at: int) -> None:
    found = world(seed)
    assert found is not None
    ran = simulate(found, stop_at=stop_at, again=3)
    assert any(isinstance(entry.event, TasksReset) for entry in ran.entries)


@pytest.mark.parametrize("block", range(8))
def test_promises_hold_when_random_tasks_begin_anew(block: int) -> None:
    size = SEEDS // 8
    kept = anew = 0
    for found in worlds(range(block * size, (block + 1) * size)):
        ran = simulate(found, again=3)
        kept += count(ran, "reused")
        anew += sum(isinstance(entry.event, TasksReset) for entry in ran.entries)
        assert ran.state.ended_at is not None, found.seed
    assert kept > size / 4
    assert anew > size


def test_done_is_decided_last_whatever_begins_anew_and_wherever_the_run_was_stopped() -> None:
    asked = 0
    for found in worlds(range(4000, 4000 + SEEDS // 8)):
        found = found._replace(plan=with_done(found.plan, found.seed))
        for wait in (0, 2, 5):
            ran = simulate(found, stop_at=wait, again=3)
            assert ran.state.ended_at is not None, (found.seed, wait)
            asked += ran.state.tasks[ran.state.top.last].attempts
    assert asked > SEEDS // 4


def test_promises_hold_when_tasks_of_a_run_that_was_stopped_begin_anew() -> None:
    for found in worlds(range(2000, 2000 + SEEDS // 8)):
        for wait in (1, 3, 6):
            assert simulate(found, stop_at=wait, again=3).state.ended_at is not None, (found.seed, wait)


def test_a_crash_at_any_journal_write_after_tasks_began_anew_breaks_no_promise() -> None:
    for found in worlds(range(3000, 3012)):
        calm = simulate(found, again=2)
        for write in range(1, calm.writes + 1):
            for stored in (False, True):
                assert simulate(found, {write: stored}, again=2).state.ended_at is not None, (found.seed, write, stored)


@pytest.mark.parametrize("policy", ["stop", "continue", "rollback"])
def test_crashes_break_no_promise_under_any_policy_when_tasks_begin_anew(policy: str) -> None:
    for found in worlds(range(4000, 4000 + SEEDS // 10), on_failure=policy):
        rng = random.Random(found.seed)
        calm = simulate(found, again=3)
        for _ in range(3):
            dies = {write: rng.random() < 0.5 for write in rng.sample(range(1, calm.writes + 4), 2)}
            assert simulate(found, dies, again=3).state.ended_at is not None, (found.seed, dies)
