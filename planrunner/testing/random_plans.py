"""Random plans from a seed: the same seed gives the same plan. For simulation, crash tests and whoever tests an
engine."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Json = Any

_EFFECTS = ("pure", "read", "idempotent", "unsafe")
_JOINS: tuple[Json, ...] = ("all", "any", "always", "all_done", "none_failed", "one_failed", "all_failed")

Command = Callable[[str], str]


def random_plan(seed: int, command: Command = lambda task: "true", size: int = 12) -> dict[str, Json]:
    """A plan as plain data, ready for ``json.dumps``, with joins, edges, retries, failure intents, conditions, labels,
    priorities and ``finally``. ``command`` gives the script of a task by id; at most ``size`` tasks."""
    rng = random.Random(seed)
    count = rng.randint(2, size)
    ids = [f"t{number}" for number in range(count)]
    tasks = [_task(rng, ids, number, command) for number in range(count)]
    _edges(rng, tasks)
    plan: dict[str, Json] = {
        "plan": f"random-{seed}",
        "params": {"flag": {"type": "bool", "default": rng.random() < 0.5}},
        "max_parallel": rng.randint(1, 5),
        "on_failure": rng.choice(["stop", "continue"]),
        "defaults": {"timeout": "1h"},
        "tasks": tasks,
    }
    if rng.random() < 0.4:
        plan["limits"] = {"scarce": rng.randint(1, 2)}
    if rng.random() < 0.4:
        plan["finally"] = [{"id": "last", "run": command("last"), "effect": "idempotent"}]
    return plan


def _task(rng: random.Random, ids: list[str], number: int, command: Command) -> dict[str, Json]:
    task: dict[str, Json] = {"id": ids[number], "run": command(ids[number]), "effect": rng.choice(_EFFECTS)}
    earlier = ids[:number]
    if earlier and rng.random() < 0.75:
        task["needs"] = needs = sorted(rng.sample(earlier, rng.randint(1, min(3, len(earlier)))))
        if rng.random() < 0.4:
            task["join"] = rng.choice(_JOINS)
        elif rng.random() < 0.15:
            task["join"] = {"at_least": rng.randint(1, len(needs))}
        elif rng.random() < 0.15:
            task["needs"] = " or ".join(f"{need}.{rng.choice(['ok', 'failed', 'done'])}" for need in needs)
    if rng.random() < 0.15:
        task["when"] = rng.choice(["params.flag", "not params.flag"])
    if rng.random() < 0.35:
        task["retry"] = {
            "attempts": rng.randint(2, 4),
            "backoff": rng.choice(["fixed", "linear", "exponential"]),
            "delay": "10ms",
            **({"on": rng.sample(["transient", "logic"], rng.randint(1, 2))} if rng.random() < 0.5 else {}),
        }
    if rng.random() < 0.15:
        task["allow_failure"] = True
    if rng.random() < 0.25:
        task["priority"] = rng.choice(["low", "high", 3])
    if rng.random() < 0.3:
        task["labels"] = ["scarce"]
    return task


def _edges(rng: random.Random, tasks: list[dict[str, Json]]) -> None:
    """Edges lead forward only, so that no plan has a circle."""
    for number, task in enumerate(tasks[:-1]):
        later = [other["id"] for other in tasks[number + 1 :]]
        if rng.random() < 0.25:
            target = rng.choice(later)
            task["on_failure"] = {"to": target, "recovers": True} if rng.random() < 0.5 else target
        if rng.random() < 0.12:
            task["on_success"] = rng.choice(later)
