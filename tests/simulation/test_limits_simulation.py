"""Random plans whose scripts, models and searches report any usage: nothing that may spend begins once a limit of cost or
tokens is reached, at any event, through kills, resumes and re-runs."""

from __future__ import annotations

import itertools
import json
import os
import random
from typing import Any

import pytest
from simulator.plans import linked_plan, nested_plan
from simulator.runs import Simulated, World, simulate

from planrunner.machine.events import AttemptStarted, TaskSettled
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

Json = Any

RUNS = int(os.environ.get("PLANRUNNER_LIMIT_RUNS", "2000"))
SAMPLE = 150
BLOCKS = 8
REGISTRY = Registry()
TRAITS: dict[str, Json] = {
    "shell": ["unsafe", False, False],
    "llm.complete": ["read", False, False, ["cost", "tokens", "calls"]],
    "research.search": ["read", False, False, ["calls", "rest"]],
    "files.read": ["read", False, False],
    "noop": ["pure", True, False],
}
CALLS: tuple[dict[str, Json], ...] = (
    {"uses": "llm.complete", "with": {"prompt": "x"}, "budgets": {"cost": "$0.3", "tokens": 50}},
    {"uses": "research.search", "with": {"query": "x"}},
    {"uses": "files.read", "with": {"path": "x"}},
    {"uses": "noop"},
)
ONLY_SCRIPTS = ("run", "effect")


def limits(rng: random.Random) -> dict[str, Json]:
    """Limits that a few attempts use up, or none."""
    some: dict[str, Json] = {}
    if rng.random() < 0.7:
        some["cost"] = f"${rng.choice([0.1, 0.3, 0.5, 1, 2])}"
    if rng.random() < 0.6:
        some["tokens"] = rng.choice([20, 50, 100, 200])
    if rng.random() < 0.1:
        some["calls"] = rng.randint(1, 6)
    if some and rng.random() < 0.3:
        some["on_exhausted"] = "gate"
    return some


def spend(rng: random.Random, tasks: list[dict[str, Json]]) -> None:
    """Some scripts become calls, and some tasks get limits."""
    for task in tasks:
        inner = [
            *task.get("loop", {}).get("tasks", []),
            *(task["subplan"] if isinstance(task.get("subplan"), list) else []),
        ]
        if "run" in task and rng.random() < 0.35:
            for key in ONLY_SCRIPTS:
                task.pop(key, None)
            task.update(rng.choice(CALLS))
        elif rng.random() < (0.4 if inner else 0.25):
            task["budgets"] = limits(rng) or {"cost": "$0", "tokens": 0}
        if not task.get("budgets"):
            task.pop("budgets", None)
        spend(rng, inner)


def plan_of(seed: int) -> Plan | None:
    rng = random.Random(f"limits {seed}")
    document = linked_plan(seed) if rng.random() < 0.4 else nested_plan(seed)
    spend(rng, document["tasks"])
    for sub in document.get("subplans", {}).values():
        spend(rng, sub["tasks"])
        sub["budgets"] = limits(rng)
    document["budgets"] = limits(rng)
    if rng.random() < 0.3:
        document["defaults"]["budgets"] = {"cost": "$0.2", "tokens": 30}
    for each in (document, *document.get("subplans", {}).values()):
        if not each.get("budgets"):
            each.pop("budgets", None)
    return load(Source(json.dumps(document), "p.json", "json"), REGISTRY).plan


def walk(seed: int) -> Simulated | None:
    """One plan to its end, killed and begun again at random; simulate raises Broken where a promise does not hold."""
    found = plan_of(seed)
    if found is None:
        return None
    rng = random.Random(f"kills {seed}")
    dies = {write: rng.random() < 0.5 for write in rng.sample(range(1, 40), rng.choice([0, 0, 1, 2, 4]))}
    world = World(found, TRAITS, seed, 0.2, reports=True)
    return simulate(world, dies, stop_at=rng.choice([0, 0, 0, 5]), again=rng.choice([0, 0, 1]))


def figures(runs: list[Simulated]) -> dict[str, int]:
    entries = [entry.event for ran in runs for entry in ran.entries]
    return {
        "runs": len(runs),
        "attempts": sum(isinstance(event, AttemptStarted) for event in entries),
        "stopped for a budget": sum(ran.state.reason == "budget" for ran in runs),
        "waiting for a budget": sum(ran.state.status == "paused" for ran in runs),
        "tasks failed for a budget": sum(
            isinstance(event, TaskSettled) and event.failure == "budget" for event in entries
        ),
        "killed": sum(ran.lives > 1 for ran in runs),
    }


def held(count: int, first: int = 0) -> dict[str, int]:
    """The figures of so many plans that can run, from a seed on."""
    runs = (ran for seed in itertools.count(first) if (ran := walk(seed)) is not None)
    return figures(list(itertools.islice(runs, count)))


def test_nothing_that_spends_begins_once_a_limit_is_reached() -> None:
    found = held(SAMPLE)
    assert found["stopped for a budget"] > SAMPLE // 10 and found["killed"] > SAMPLE // 10, found


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_that_spends_begins_in_any_of_thousands_of_plans(block: int) -> None:
    found = held(RUNS // BLOCKS, (block + 1) * 1_000_000)
    print(found)
    assert found["stopped for a budget"] > RUNS // BLOCKS // 10, found
