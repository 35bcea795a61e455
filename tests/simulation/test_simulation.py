"""Random plans in an imagined world: thousands of seeds, crashes at journal writes, every promise checked."""

from __future__ import annotations

import json
import os
import random

import pytest
from simulator.plans import random_plan
from simulator.runs import World, simulate, summary

from planrunner.machine.events import AttemptStarted, RunEnded
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

SEEDS = int(os.environ.get("PLANRUNNER_SIMULATIONS", "1200"))
TRAITS = {"shell": ["unsafe", False, False], "noop": ["pure", True, False]}
REGISTRY = Registry()


def world(seed: int, **changes: object) -> World | None:
    document = random_plan(seed) | changes
    loaded = load(Source(json.dumps(document), f"random-{seed}.json", "json"), REGISTRY)
    return None if loaded.plan is None else World(loaded.plan, TRAITS, seed)


def worlds(seeds: range, **changes: object) -> list[World]:
    return [found for found in (world(seed, **changes) for seed in seeds) if found is not None]


def test_most_random_plans_are_valid() -> None:
    assert len(worlds(range(100))) >= 60


@pytest.mark.parametrize("block", range(8))
def test_promises_hold_for_random_plans_and_failures(block: int) -> None:
    size = SEEDS // 8
    for found in worlds(range(block * size, (block + 1) * size)):
        simulated = simulate(found)
        assert isinstance(simulated.entries[-1].event, RunEnded), found.seed
        assert simulated.lives == 1


def test_a_seed_reproduces_its_run_exactly() -> None:
    for found in worlds(range(60)):
        assert simulate(found).entries == simulate(found).entries


@pytest.mark.parametrize("block", range(4))
def test_a_crash_at_any_journal_write_leads_to_the_same_final_state(block: int) -> None:
    for found in worlds(range(block * 15, block * 15 + 15), on_failure="continue"):
        calm = simulate(found)
        for write in range(1, calm.writes + 1):
            for stored in (False, True):
                crashed = simulate(found, {write: stored})
                assert summary(crashed.state) == summary(calm.state), (found.seed, write, stored)
                assert crashed.state.status == calm.state.status


def test_crashes_during_recovery_lead_to_the_same_final_state() -> None:
    for found in worlds(range(100, 160), on_failure="continue"):
        calm = simulate(found)
        rng = random.Random(found.seed)
        for _ in range(8):
            dies = {write: rng.random() < 0.5 for write in rng.sample(range(1, calm.writes + 6), 4)}
            assert summary(simulate(found, dies).state) == summary(calm.state), (found.seed, dies)


def test_crashes_under_the_stop_policy_break_no_promise() -> None:
    for found in worlds(range(200, 320), on_failure="stop"):
        rng = random.Random(found.seed)
        calm = simulate(found)
        for _ in range(4):
            dies = {write: rng.random() < 0.5 for write in rng.sample(range(1, calm.writes + 4), 2)}
            assert simulate(found, dies).state.ended_at is not None


def test_an_attempt_issued_again_keeps_its_key_and_number() -> None:
    reissued = 0
    for found in worlds(range(60), on_failure="continue"):
        for write in range(2, 6):
            entries = simulate(found, {write: True}).entries
            starts: dict[tuple[str, int], set[str]] = {}
            for entry in entries:
                if isinstance(entry.event, AttemptStarted):
                    starts.setdefault((entry.event.task, entry.event.attempt), set()).add(entry.event.key)
                    reissued += entry.event.reissue > 0
            assert all(len(keys) == 1 for keys in starts.values())
    assert reissued


def test_a_stop_in_order_and_a_resume_lead_to_the_same_final_state() -> None:
    parked = 0
    for found in worlds(range(400, 500), on_failure="continue"):
        calm = simulate(found)
        for wait in range(1, 12):
            stopped = simulate(found, stop_at=wait)
            parked += stopped.lives > 1
            assert summary(stopped.state) == summary(calm.state), (found.seed, wait)
    assert parked > 100
