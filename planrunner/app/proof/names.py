"""Tasks by name: those a plan is written with, and those a run makes of them.

A run names the tasks inside a container by paths: ``deploy[2]`` is item 2 of a fan-out, ``build/compile`` a step of a
subplan, ``polish#1/draft`` belongs to round 1 of a loop, ``polish@2#1/draft`` to its second attempt. The same path
without these numbers is the *written* path: ``polish/draft``.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from functools import lru_cache

from planrunner.plan.model import Gate, Plan, Task
from planrunner.plan.tasks import inner, is_container

_NUMBERS = re.compile(r"\[[^\]]*\]|#\d+|@\d+")


@lru_cache(maxsize=65536)
def written(task: str) -> str:
    """The path without the numbers of items, rounds and visits."""
    return _NUMBERS.sub("", task)


def walk(tasks: Iterable[Task], prefix: str = "") -> Iterator[tuple[str, Task]]:
    """Every task of a plan, however deep, with its written path; containers come before what they hold."""
    for task in tasks:
        path = prefix + task.id
        yield path, task
        yield from walk(inner(task), path + "/")


def covered(tasks: Iterable[Task], prefix: str = "") -> Iterator[tuple[str, Task]]:
    """The same but for what an agent does while it works, which no test of a plan plays."""
    for task in tasks:
        path = prefix + task.id
        yield path, task
        if task.agent is None:
            yield from covered(inner(task), path + "/")


def paths(plan: Plan) -> dict[str, Task]:
    """The tasks of a plan by written path."""
    return dict(walk(plan.tasks))


def demands(plan: Plan) -> dict[str, tuple[tuple[str, Gate], ...]]:
    """The gates that labels demand before tasks, with the label, by written path; what the plan says about a label
    comes before what a linked one says."""
    result: dict[str, tuple[tuple[str, Gate], ...]] = {}
    todo = [("", plan.tasks, dict(plan.gated))]
    while todo:
        prefix, tasks, gated = todo.pop()
        for task in tasks:
            path = prefix + task.id
            asked = tuple((label, gate) for label, gate in gated.items() if label in task.labels)
            if asked and task.gate is None:
                result[path] = asked
            linked = {} if task.sub is None else dict(task.sub.gated)
            todo.append((f"{path}/", inner(task), {**linked, **gated}))
    return result


def asks(task: Task) -> bool:
    """Whether a person may have to say something about a task by what it is, whatever its labels demand."""
    words = any(each.expression is None for each in (*task.expect, *task.postconditions, *task.preconditions))
    return task.gate is not None or words or not (task.uses or is_container(task))


def matches(pattern: str, task: str) -> bool:
    """Whether a name in a test means a task of a run: its path, its written path, or its last part; ``*`` stands for
    any characters."""
    names = (task, written(task), written(task).rpartition("/")[2])
    if "*" not in pattern:
        return pattern in names
    search = _compiled(pattern)
    return any(search.fullmatch(name) for name in names)


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")))


def best(patterns: Iterable[str], task: str) -> str | None:
    """The most exact of the patterns that mean a task: its whole path first, then the one with the most letters."""
    result = [pattern for pattern in patterns if matches(pattern, task)]
    return max(result, key=lambda each: (each == task, "*" not in each, len(each)), default=None)


def known(pattern: str, plan: Plan) -> bool:
    """Whether a name in a test can mean any task of the plan."""
    plain = written(pattern)
    return any(matches(plain, path) or matches(path, plain) for path in paths(plan))


def home(task: str, every: Container[str]) -> str:
    """The written path of a task of a run; members of a family such as ``part-*`` have that of the family."""
    path = written(task)
    if path in every:
        return path
    level, slash, last = path.rpartition("/")
    stem = re.sub(r"\d+$", "*", last)
    return f"{level}{slash}{stem}" if f"{level}{slash}{stem}" in every else path
