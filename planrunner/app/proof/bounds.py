"""Worst cases that follow from a plan alone: time along the critical path, attempts, cost and tokens.

A bound that nothing sets is None, and the tasks that leave it open are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from planrunner.machine.graph import Shape
from planrunner.machine.verdicts import retry_delay
from planrunner.plan.model import Fanout, Plan, Task
from planrunner.plan.tasks import inner
from planrunner.records import Struct

Json = Any


Count = Callable[[Fanout], "int | None"]
"""How many items a fan-out has, as far as it can be told before the run."""


class Bound(Struct):
    """``path`` seconds along the critical path, ``work`` seconds of all attempts one after the other; ``attempts``,
    ``cost`` and ``tokens`` of everything. None where nothing sets a bound; ``open`` are the tasks to blame for the
    time, ``counted`` the tasks on the critical path."""

    path: float | None = 0.0
    work: float | None = 0.0
    attempts: int | None = 0
    cost: float | None = 0.0
    tokens: int | None = 0
    open: tuple[str, ...] = ()
    unpriced: tuple[str, ...] = ()
    """Tasks that may cost something and have no budget for it."""
    counted: tuple[str, ...] = ()
    uncounted: tuple[str, ...] = ()
    """Fan-outs of which only the run can tell how many items or attempts they have: to blame for the time as well."""


_PRICED = ("llm", "agent")
"""Families of capabilities that cost money and tokens."""


def bound_of(tasks: Sequence[Task], count: Count, parallel: int, prefix: str = "") -> Bound:
    """The bound of tasks of one level, started as soon as their needs allow; ``finally`` comes after the rest."""
    own = [task_bound(task, count, parallel, prefix) for task in tasks]
    shape = Shape()
    shape.add(tasks)
    own = _with_reworks(own, tasks, shape)
    longest: dict[int, tuple[float | None, tuple[str, ...]]] = {}

    def reach(number: int, seen: frozenset[int]) -> tuple[float | None, tuple[str, ...]]:
        if number not in longest:
            before = [*shape.needs[number], *(route.source for route in shape.routes_in.get(number, ()))]
            ways = [reach(other, seen | {number}) for other in before if other not in seen]
            total, path = _slowest(ways)
            longest[number] = (_sum(total, own[number].path), (*path, prefix + tasks[number].id))
        return longest[number]

    main = _slowest([reach(number, frozenset()) for number, task in enumerate(tasks) if not task.finally_])
    last = _slowest([reach(number, frozenset()) for number, task in enumerate(tasks) if task.finally_])
    return _all_of(own)._replace(path=_sum(main[0], last[0]), counted=(*main[1], *last[1]))


def _slowest(ways: Iterable[tuple[float | None, tuple[str, ...]]]) -> tuple[float | None, tuple[str, ...]]:
    """The way that takes longest; one without a bound takes longest of all."""
    return max(ways, key=lambda way: (float("inf") if way[0] is None else way[0], len(way[1])), default=(0.0, ()))


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _times(value: float | None, count: int | None) -> Json:
    return 0 if value == 0 else None if value is None or count is None else value * count


def _total(values: Iterable[float | None]) -> Json:
    amounts = list(values)
    return None if None in amounts else sum(value for value in amounts if value is not None)


def _all_of(bounds: Sequence[Bound]) -> Bound:
    return Bound(
        0.0,
        _total(each.work for each in bounds),
        _total(each.attempts for each in bounds),
        _total(each.cost for each in bounds),
        _total(each.tokens for each in bounds),
        tuple(dict.fromkeys(task for each in bounds for task in each.open)),
        tuple(dict.fromkeys(task for each in bounds for task in each.unpriced)),
        uncounted=tuple(dict.fromkeys(task for each in bounds for task in each.uncounted)),
    )


def _with_reworks(own: list[Bound], tasks: Sequence[Task], shape: Shape) -> list[Bound]:
    """Tasks that a rework can reset count as often as that may happen."""
    times = [1] * len(tasks)
    for number, task in enumerate(tasks):
        targets = [(route.target, route.edge.max) for route in shape.reworks.get(number, ())]
        if task.gate is not None and task.gate.on_reject.action == "rework":
            index = {each.id: at for at, each in enumerate(tasks)}
            targets.append((index.get(task.gate.on_reject.target, number), task.gate.on_reject.max))
        for target, most in targets:
            for other in _after(shape, target):
                times[other] += most
    return [_repeated(bound, count) if count > 1 else bound for bound, count in zip(own, times)]


def _after(shape: Shape, number: int) -> set[int]:
    found, todo = {number}, [number]
    while todo:
        for other in shape.following(todo.pop()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found


def _repeated(bound: Bound, count: int | None) -> Bound:
    return bound._replace(
        path=_times(bound.path, count),
        work=_times(bound.work, count),
        attempts=_times(bound.attempts, count),
        cost=_times(bound.cost, count),
        tokens=_times(bound.tokens, count),
    )


def task_bound(task: Task, count: Count, parallel: int, prefix: str = "") -> Bound:
    """The bound of one task with everything in it and all its attempts."""
    name = prefix + task.id
    if task.fanout is not None:
        return _fanned(task, count, parallel, prefix)
    held = inner(task)
    if held:
        found = bound_of(held, count, parallel, f"{name}/")
        if task.loop is not None:
            found = _repeated(found, task.loop.max)
        found = _limited(found, task.timeout, name)
        found = _repeated(found, attempts_of(task))
    else:
        found = _repeated(_attempt(task, name), attempts_of(task))
    if attempts_of(task) is None:
        found = found._replace(uncounted=(*found.uncounted, name))
    waits = waiting_time(task)
    found = found._replace(path=_sum(found.path, waits), work=_sum(found.work, waits))
    return _budgeted(_limited(found, task.timebox, name), task, name)


def attempts_of(task: Task) -> int | None:
    """How many attempts a task may have; None where only the run can tell."""
    return None if any(each.name == "retry.attempts" for each in task.computed) else task.retry.attempts


def _attempt(task: Task, name: str) -> Bound:
    if task.gate is not None or not task.uses or task.concluding:
        return Bound(counted=(name,))
    seconds = task.timeout if task.timeout is not None else task.budgets.time
    if task.uses == "noop":
        seconds = 0.0
    return Bound(seconds, seconds, 1, open=(name,) if seconds is None else (), counted=(name,))


def waiting_time(task: Task) -> float:
    """Seconds between the attempts of a task, with the most that the jitter adds."""
    even = task.retry._replace(jitter=0.0)
    return sum(retry_delay(even, attempt, "") for attempt in range(1, task.retry.attempts)) * (1.0 + task.retry.jitter)


def _limited(bound: Bound, limit: float | None, name: str) -> Bound:
    """A limit on the whole replaces an open bound and cuts a longer one."""
    if limit is None:
        return bound
    path = limit if bound.path is None else min(bound.path, limit)
    left = [tuple(each for each in names if not _under(each, name)) for names in (bound.open, bound.uncounted)]
    return bound._replace(path=path, open=left[0], uncounted=left[1])


def _under(task: str, name: str) -> bool:
    return task == name or task.startswith(name + "/")


def _budgeted(bound: Bound, task: Task, name: str) -> Bound:
    """What the budgets of a task allow, and what its attempts set aside of them, whether or not the capability is known
    to spend anything; what costs something and has none is open."""
    limits = task.budgets
    found = _limited(bound, limits.time, name)
    priced = task.uses.partition(".")[0] in _PRICED
    acts = bool(task.uses) and task.gate is None and not inner(task)
    cost = limits.cost if acts and limits.cost is not None else None if priced else bound.cost
    tokens = limits.tokens if acts and limits.tokens is not None else None if priced else bound.tokens
    if limits.cost is not None:
        cost = limits.cost if cost is None else min(cost, limits.cost)
    if limits.tokens is not None:
        tokens = limits.tokens if tokens is None else min(tokens, limits.tokens)
    if limits.attempts is not None:
        found = found._replace(attempts=min(found.attempts or limits.attempts, limits.attempts))
    unpriced: tuple[str, ...] = (name,) if priced and (cost is None or tokens is None) else ()
    if limits.cost is None or limits.tokens is None:
        unpriced += tuple(each for each in bound.unpriced if each != name)
    return found._replace(cost=cost, tokens=tokens, unpriced=unpriced)


def _fanned(task: Task, count: Count, parallel: int, prefix: str) -> Bound:
    fanout = task.fanout
    assert fanout is not None
    item = task_bound(task._replace(fanout=None, needs=(), edges=()), count, parallel, prefix)
    items = count(fanout)
    if items is None:
        items = fanout.max_items
    name = prefix + task.id
    if items is None:
        return item._replace(path=None, work=None, attempts=None, uncounted=(*item.uncounted, name))
    side_by_side = min(fanout.max_parallel or parallel, parallel) or 1
    rounds = -(-items // side_by_side)
    return _repeated(item, items)._replace(path=_times(item.path, rounds))


def with_slots(bound: Bound, parallel: int) -> float | None:
    """Seconds when at most ``parallel`` tasks run at once: never longer than this, whatever the order of starts."""
    if bound.path is None or bound.work is None:
        return None
    return bound.work / parallel + bound.path * (1.0 - 1.0 / parallel)


def compared(plan: Plan, worst: Mapping[str, float | None]) -> list[dict[str, Json]]:
    """Each limit of the plan with the worst case: ``fits``, ``may run out``, or ``unknown``."""
    rows = []
    for name, limit in plan.budgets._asdict().items():
        if limit is None or name in ("warn", "on_exhausted", "depth", "iterations"):
            continue
        most = worst.get(name)
        verdict = "unknown" if most is None else "fits" if most <= limit else "may run out"
        rows.append({"budget": name, "limit": limit, "worst": most, "verdict": verdict})
    return rows
