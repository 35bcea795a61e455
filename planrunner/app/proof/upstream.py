"""What comes before a task: whether it may run at all, and whether something before it may make what it needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from planrunner.app.proof.envelope import OUT, Sight, rows_of
from planrunner.machine.graph import Shape
from planrunner.plan.model import Plan, Task
from planrunner.plan.tasks import inner

Json = Any


def may_run(sight: Sight, selected: Collection[str] | None, open_: Collection[str] | None) -> set[str]:
    """The written paths of the tasks that may run, as far as parameters tell; ``open_`` are those at the top that have
    not come to their end."""
    sight.selected = None if selected is None else frozenset(selected)
    found: set[str] = set()
    waiting = [row for row in rows_of(sight) if open_ is None or row["task"] in open_]
    for row in waiting:
        if row["what"] not in OUT:
            found.add(row["task"])
            waiting += row.get("inner", ())
    return found


def made_before(plan: Plan, traits: Mapping[str, Json]) -> set[str]:
    """The written paths of the tasks before which another one acts, which may make files and programs."""
    found: set[str] = set()
    _level(plan.tasks, "", False, traits, found)
    return found


def _level(tasks: Sequence[Task], prefix: str, before: bool, traits: Mapping[str, Json], found: set[str]) -> None:
    shape = Shape()
    shape.add(tasks)
    for number, task in enumerate(tasks):
        above = range(len(tasks)) if task.finally_ else _above(shape, number)
        makes = before or any(_acts(tasks[other], traits) for other in above if other != number)
        if makes:
            found.add(prefix + task.id)
        _level(inner(task), f"{prefix}{task.id}/", makes, traits, found)


def _above(shape: Shape, number: int) -> set[int]:
    found: set[int] = set()
    waiting = [number]
    for here in waiting:
        for other in (*shape.needs[here], *(route.source for route in shape.routes_in.get(here, ()))):
            if other not in found:
                found.add(other)
                waiting.append(other)
    return found


def _acts(task: Task, traits: Mapping[str, Json]) -> bool:
    """Whether a task, or one inside it, changes anything; what people do at a gate counts as nothing."""
    if held := inner(task):
        return any(_acts(each, traits) for each in held)
    if task.gate is not None:
        return False
    trait = traits.get(task.uses)
    return (task.effect or (trait[0] if trait else "unsafe")) not in ("pure", "read")
