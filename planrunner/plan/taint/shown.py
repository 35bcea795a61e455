"""Which values people have seen and agreed to before a task can start: the gates on its way and what they show."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from typing import Any

from planrunner.plan.model import Gate, Plan, Task
from planrunner.plan.taint.flow import read
from planrunner.plan.taint.levels import Cell, Key, Level, Place, meant

Json = Any
Passed = Callable[[Key], bool]

_BY_PEOPLE = frozenset({"approval", "decision", "diff"})
_FILES = ("file", "files", "path")


def by_people(gate: Gate) -> bool:
    """Whether a person decides, whatever was checked before."""
    return gate.kind in _BY_PEOPLE or bool(gate.roles or gate.people or gate.options or gate.form)


def is_shown(cell: Cell, seen: frozenset[Cell]) -> bool:
    """Whether people saw a value, or all of which it is a part."""
    if not seen:
        return False
    whole = (cell._replace(path=cell.path[:length]) for length in range(len(cell.path) + 1))
    return any(each in seen for each in whole) or Cell(cell.kind, cell.at, "*") in seen


def shown(place: Place, passed: Passed | None = None) -> frozenset[Cell]:
    """The values that gates on the way to a task show. ``passed`` tells of a gate whether a person really let it
    through; without it every gate on the way counts."""
    found: set[Cell] = set()
    for gate in _before(place):
        if passed is None or passed(gate.key):
            found.update(_seen(gate))
    return frozenset(found)


def call_shown(place: Place) -> bool:
    """Whether people see the very call before it starts, since a label of the task demands a gate."""
    task, level = place.task, place.level
    assert task is not None
    plans: list[Plan] = [level.plan]
    here: Level | None = level
    while here is not None:
        plans.append(here.plan)
        here = here.outer
    gates = [gate for plan in plans for label, gate in plan.gated if label in task.labels]
    return any(by_people(gate) for gate in gates)


def _before(place: Place) -> Iterator[Place]:
    """The gates without which the task, or one that holds it, does not start."""
    level: Level | None = place.level
    task: Task | None = place.task
    while level is not None and task is not None:
        yield from _needed(level, task)
        task, level = level.holder, level.outer


def _needed(level: Level, task: Task) -> Iterator[Place]:
    waiting, seen = [task], {task.id}
    for here in waiting:
        for name in _certain(level, here):
            found = level.tasks.get(name)
            if found is not None and found.id not in seen:
                seen.add(found.id)
                waiting.append(found)
                if _stops(found):
                    yield Place(level, found)


def _certain(level: Level, task: Task) -> tuple[str, ...]:
    """The tasks that have to end well before this one starts."""
    if task.needs:
        return task.needs if task.join.kind == "all" else ()
    edges = [(other.id, edge) for other in level.tasks.values() for edge in other.edges if edge.target == task.id]
    leading = [(name, edge) for name, edge in edges if not edge.rework]
    if len(leading) == 1 and leading[0][1].on == "success":
        return (leading[0][0],)
    return ()


def _stops(task: Task) -> bool:
    """Whether nothing behind a gate starts unless a person agreed."""
    gate = task.gate
    if gate is None or not by_people(gate) or task.when is not None or task.allow_failure:
        return False
    return not any(edge.recovers for edge in task.edges)


def _seen(place: Place) -> Iterator[Cell]:
    task = place.task
    assert task is not None and task.gate is not None
    yield from read(place, [task.gate.ask, task.gate.evidence, [option._asdict() for option in task.gate.options]])
    for option in task.gate.options:
        if option.each is not None:
            yield from (cell for path in option.each.paths for cell in meant(place, path))
    for name in _files(task.gate.evidence):
        yield Cell("file", (), posixpath.normpath(name))


def _files(evidence: Json) -> Iterator[str]:
    """The files that are shown, by name."""
    for item in evidence if isinstance(evidence, list) else [evidence]:
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            given = [item[key] for key in _FILES if key in item]
            for each in given:
                yield from (str(name) for name in (each if isinstance(each, list) else [each]))
