"""Sixty tasks at once against a cap: spent and set aside never pass it, at any event, through kills and resumes.

``PLANRUNNER_BUDGET_RUNS=1000`` gives the full figure.
"""

from __future__ import annotations

import json
import os
import random

import pytest
from simulator.plans import nested_plan
from simulator.runs import Simulated, World, simulate

from planrunner.machine.events import AttemptStarted
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

RUNS = int(os.environ.get("PLANRUNNER_BUDGET_RUNS", "24"))
REGISTRY = Registry()


def world(seed: int, width: int = 60) -> World:
    """Sixty tasks that may all run at once, with caps of their own, against a limit that holds some of them."""
    rng = random.Random(seed)
    tasks = [
        {
            "id": f"t{number}",
            "run": "work",
            "budgets": {"cost": f"${rng.choice([0.01, 0.1, 0.37, 1.0])}"},
            "retry": {"attempts": rng.randint(1, 3), "delay": "1s"},
            "effect": rng.choice(["unsafe", "idempotent"]),
            **({"on_doubt": "fail"} if rng.random() < 0.5 else {}),
        }
        for number in range(width)
    ]
    some = tasks[: width // 3]
    budgets = {
        "cost": f"${rng.choice([2, 5, 9])}",
        "attempts": rng.choice([50, 500]),
        "on_exhausted": rng.choice(["stop", "gate"]),
    }
    document = {
        "plan": "wide",
        "params": {"flag": True},
        "on_failure": "continue",
        "max_parallel": width,
        "budgets": budgets,
        "tasks": [*tasks[width // 3 :], {"id": "inside", "subplan": some, "budgets": {"cost": "$3"}}],
    }
    loaded = load(Source(json.dumps(document), "wide.json", "json"), REGISTRY)
    assert loaded.plan is not None, loaded.findings
    return World(loaded.plan, {"shell": ["unsafe", False, False]}, seed)


def at_once(found: Simulated) -> int:
    most = now = 0
    for entry in found.entries:
        now += isinstance(entry.event, AttemptStarted)
        now -= type(entry.event).__name__ == "AttemptEnded"
        most = max(most, now)
    return most


@pytest.mark.parametrize("block", range(4))
def test_a_cap_holds_at_every_event_of_wide_runs(block: int) -> None:
    widest = 0
    for seed in range(block * RUNS // 4, (block + 1) * RUNS // 4):
        widest = max(widest, at_once(simulate(world(seed))))
    assert widest > 10


@pytest.mark.parametrize("block", range(4))
def test_a_cap_holds_through_kills_and_resumes(block: int) -> None:
    for seed in range(block * RUNS // 4, (block + 1) * RUNS // 4):
        rng = random.Random(seed)
        dies = {write: rng.random() < 0.5 for write in rng.sample(range(1, 60), rng.randint(1, 4))}
        ran = simulate(world(seed), dies, stop_at=rng.choice([0, 0, 7, 20]))
        assert ran.lives > 1 or ran.writes < max(dies)


def test_limits_hold_in_nested_plans_with_loops_fan_outs_and_subplans() -> None:
    held = 0
    for seed in range(RUNS):
        document = nested_plan(seed) | {
            "budgets": {"cost": "$1", "attempts": 12},
            "defaults": {"budgets": {"cost": "$0.2"}},
        }
        loaded = load(Source(json.dumps(document), "nested.json", "json"), REGISTRY)
        if loaded.plan is None:
            continue
        ran = simulate(
            World(loaded.plan, {"shell": ["unsafe", False, False, ["cost"]], "noop": ["pure", True, False]}, seed)
        )
        held += ran.state.reason == "budget"
    assert held
