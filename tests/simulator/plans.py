"""Random plans from a seed: the same seed gives the same plan. For simulation, crash tests and whoever tests an
engine."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from planrunner.plan.expressions.parse import parse
from planrunner.plan.lower.plan import concluded
from planrunner.plan.model import Criterion, Join, Plan, Task

Json = Any

_EFFECTS = ("pure", "read", "idempotent", "unsafe")
_JOINS: tuple[Json, ...] = ("all", "any", "all_done_any", "all_done", "none_failed", "one_failed", "all_failed")

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


def linked_plan(seed: int, command: Command = lambda task: "true", size: int = 7) -> dict[str, Json]:
    """A random nested plan in which most of what tasks hold is linked, with a policy of its own for failures, which
    often undoes it."""
    plan = nested_plan(seed, command, size)
    rng = random.Random(f"linked {seed}")
    plan["subplans"] = {}
    _link(rng, plan, plan["tasks"])
    return plan


def _link(rng: random.Random, plan: dict[str, Json], tasks: list[dict[str, Json]]) -> None:
    for task in tasks:
        _link(rng, plan, task.get("loop", {}).get("tasks", []))
        inner = task.get("subplan", [])
        _link(rng, plan, inner)
        if inner and rng.random() < 0.8:
            task["subplan"] = name = f"sub_{task['id']}"
            sub = plan["subplans"][name] = {
                "params": plan["params"],
                "defaults": plan["defaults"],
                "on_failure": rng.choice(["rollback", "rollback", "rollback", "stop", "continue"]),
                "rollback": {"mode": rng.choice(["best_effort", "strict"])},
                "tasks": inner,
            }
            if rng.random() < 0.2:
                sub["finally"] = [{"id": "last", "run": "true", "effect": "idempotent"}]
            if rng.random() < 0.3:
                task["retry"] = {"attempts": 2, "delay": "10ms"}
            if rng.random() < 0.2:
                task["timeout"] = f"{rng.randint(5, 40)}s"


def fed_plan(seed: int, size: int = 7) -> dict[str, Json]:
    """As ``nested_plan``, with tasks that read what those before them give: their values, the lists that fan-outs go
    through, items, places and rounds."""
    plan = nested_plan(seed, size=size)
    rng = random.Random(f"fed {seed}")
    _feed(rng, plan["tasks"], ())
    return plan


def _feed(rng: random.Random, tasks: list[dict[str, Json]], around: tuple[str, ...]) -> None:
    """``around`` are expressions that every one of the tasks may read."""
    plain = {task["id"] for task in tasks if "run" in task and "foreach" not in task}
    for task in tasks:
        needs = task.get("needs") if isinstance(task.get("needs"), list) and "join" not in task else None
        given = [need for need in needs or () if need in plain]
        if given and "foreach" in task and rng.random() < 0.6:
            task["foreach"] = f"tasks.{rng.choice(given)}.outputs.list"
        read = [*around, *(f"tasks.{need}.outputs.value" for need in given)]
        inside = read if rng.random() < 0.5 else list(around)
        if "foreach" in task:
            inside = [*inside, "item", *(["index"] if rng.random() < 0.2 else [])]
        if "run" in task:
            found = inside if "foreach" in task else read
            task["run"] = " ".join(["true", *(f"{{{{ {each} }}}}" for each in found if rng.random() < 0.6)])
            if "foreach" not in task:
                task["outputs"] = {"value": "int", "list": "list"}
        _feed(rng, task.get("subplan", []), tuple(inside))
        rounds = ["loop.round"] if rng.random() < 0.3 else []
        _feed(rng, task.get("loop", {}).get("tasks", []), (*inside, *rounds))


def with_finals(plan: Plan, seed: int) -> Plan:
    """The plan with the steps of some of its subplans as plans of their own, as files give them, the last step of each
    under its ``finally``."""
    return plan._replace(tasks=tuple(_linked(random.Random(f"finals {seed}"), task) for task in plan.tasks))


def _linked(rng: random.Random, task: Task) -> Task:
    steps = tuple(_linked(rng, step) for step in task.subplan)
    if task.loop is not None:
        inner = tuple(_linked(rng, step) for step in task.loop.tasks)
        task = task._replace(loop=task.loop._replace(tasks=inner))
    led_to = {edge.target for step in steps for edge in step.edges}
    if len(steps) < 2 or steps[-1].id in led_to or _reads_outside(steps) or rng.random() < 0.2:
        return task._replace(subplan=steps)
    last = steps[-1]._replace(finally_=True, needs=(), join=Join(), edges=())
    return task._replace(subplan=(), sub=Plan(f"of-{task.id}", tasks=(*steps[:-1], last)))


def with_done(plan: Plan, seed: int) -> Plan:
    """The plan, and those that it links, with a ``done`` that asks whether one of the tasks went well."""
    rng = random.Random(f"done {seed}")
    tasks = tuple(task._replace(sub=with_done(task.sub, seed)) if task.sub is not None else task for task in plan.tasks)
    expression = parse(f'tasks["{rng.choice(tasks).id}"].{rng.choice(["ok", "done"])}')
    return plan._replace(tasks=concluded(tasks, (Criterion(expression.text, expression),)))


def _reads_outside(steps: tuple[Task, ...]) -> bool:
    """Whether steps, or what they hold, read anything but each other."""
    found, inside = list(steps), {step.id for step in steps}
    texts = []
    for step in found:
        inner = (*step.subplan, *(step.loop.tasks if step.loop is not None else ()))
        inside |= {each.id for each in inner} | ({"item", "index"} if step.fanout is not None else set())
        inside |= {"loop"} if step.loop is not None else set()
        found += inner
        texts += [str(step.run), step.fanout.foreach.text if step.fanout is not None and step.fanout.foreach else ""]
    words = " ".join(texts).replace("tasks.", " ").replace(".", " ").split()
    return any(
        word in ("item", "index", "loop") or word.startswith("t") for word in words if word not in inside | {"true"}
    )


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
