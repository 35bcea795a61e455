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


def nested_plan(seed: int, command: Command = lambda task: "true", size: int = 7) -> dict[str, Json]:
    """A random plan some of whose tasks hold others: loops, fan-outs and subplans, at most three deep; with edges that
    send back, actions that undo, and sometimes checkpoints or a rollback after a failure."""
    plan = random_plan(seed, command, size)
    rng = random.Random(f"nested {seed}")
    plan["tasks"] = [_perhaps_nested(rng, task, command, 1) for task in plan["tasks"]]
    _reworks(rng, plan["tasks"])
    _undos(rng, plan["tasks"], command)
    _checkpoints(random.Random(f"checkpoints {seed}"), plan["tasks"])
    if rng.random() < 0.4:
        plan["on_failure"] = "rollback"
        plan["rollback"] = {"mode": rng.choice(["best_effort", "strict"])}
    return plan


def _checkpoints(rng: random.Random, tasks: list[dict[str, Json]]) -> None:
    """In one plan out of three some tasks and loops keep the files of the working directory."""
    if rng.random() < 1 / 3:
        _some_keep_files(rng, tasks)


def _some_keep_files(rng: random.Random, tasks: list[dict[str, Json]]) -> None:
    for task in tasks:
        if rng.random() < 0.4:
            task["checkpoint"] = rng.choice([True, {"paths": ["out/**"]}])
        loop = task.get("loop", {})
        if loop and rng.random() < 0.6:
            loop["checkpoint"] = rng.randint(1, 2)
        _some_keep_files(rng, [*task.get("subplan", []), *loop.get("tasks", [])])


def _undos(rng: random.Random, tasks: list[dict[str, Json]], command: Command) -> None:
    """Actions that undo, for some of the tasks that act."""
    for task in tasks:
        if "run" in task and rng.random() < 0.5:
            task["rollback"] = {
                "run": command(f"undo_{task['id']}"),
                "retry": {"attempts": rng.randint(1, 3), "delay": "10ms"},
            }
        _undos(rng, task.get("subplan", []), command)
        _undos(rng, task.get("loop", {}).get("tasks", []), command)


def _perhaps_nested(rng: random.Random, task: dict[str, Json], command: Command, depth: int) -> dict[str, Json]:
    """The task as it is, or with the same place in the graph and others inside it."""
    if rng.random() > (0.5 if depth == 1 else 0.25) or depth > 3:
        return task
    kind = rng.choice(["loop", "subplan", "foreach", "foreach of subplans"])
    if kind == "foreach":
        return {**task, **_items(rng)}
    held = {name: value for name, value in task.items() if name not in ("run", "effect", "priority", "labels")}
    inner = _inner(rng, task["id"], command, depth)
    if kind == "loop":
        until = rng.choice([f"tasks.{inner[-1]['id']}.ok", f"tasks.{inner[0]['id']}.completed", "loop.round >= 2"])
        return {**held, "loop": {"max": rng.randint(1, 3), "until": until, "tasks": inner}}
    return {**held, "subplan": inner, **(_items(rng) if kind != "subplan" else {})}


def _items(rng: random.Random) -> dict[str, Json]:
    found: dict[str, Json] = {"foreach": list(range(rng.randint(0, 4)))}
    if rng.random() < 0.4:
        found["max_parallel"] = rng.randint(1, 2)
    if rng.random() < 0.4:
        found["tolerate"] = rng.choice([1, "50%"])
    return found


def _inner(rng: random.Random, holder: str, command: Command, depth: int) -> list[dict[str, Json]]:
    ids = [f"{holder}_{number}" for number in range(rng.randint(1, 3))]
    tasks = [_task(rng, ids, number, command) for number in range(len(ids))]
    _edges(rng, tasks)
    return [_perhaps_nested(rng, task, command, depth + 1) for task in tasks]


def _reworks(rng: random.Random, tasks: list[dict[str, Json]]) -> None:
    """Edges that send back, from tasks that fail to one that they need."""
    for task in tasks:
        needs = task.get("needs")
        if isinstance(needs, list) and "on_failure" not in task and rng.random() < 0.2:
            task["on_failure"] = {"rework": rng.choice(needs), "max": rng.randint(1, 2)}


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
