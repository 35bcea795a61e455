"""Tasks by name: those a plan is written with, and those a run makes of them.

A run names the tasks inside a container by paths: ``deploy[2]`` is item 2 of a fan-out, ``build/compile`` a step of a
subplan, ``polish#1/draft`` belongs to round 1 of a loop, ``polish@2#1/draft`` to its second visit. The same path without
these numbers is the *written* path: ``polish/draft``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from planrunner.machine.state import State
from planrunner.plan.model import Plan, Task

_NUMBERS = re.compile(r"\[[^\]]*\]|#\d+|@\d+")


@lru_cache(maxsize=65536)
def written(task: str) -> str:
    """The path without the numbers of items, rounds and visits."""
    return _NUMBERS.sub("", task)


def specs(state: State) -> list[Task]:
    """Every task of a run, those that frames brought included, in the order of ``state.tasks``."""
    return list(getattr(state, "specs", state.plan.tasks))


def inner(task: Task) -> tuple[Task, ...]:
    """The tasks that a container holds."""
    return (*task.subplan, *(task.loop.tasks if task.loop is not None else ()))


def walk(tasks: Iterable[Task], prefix: str = "") -> Iterator[tuple[str, Task]]:
    """Every task of a plan, however deep, with its written path; containers come before what they hold."""
    for task in tasks:
        path = prefix + task.id
        yield path, task
        yield from walk(inner(task), path + "/")


def paths(plan: Plan) -> dict[str, Task]:
    """The tasks of a plan by written path."""
    return dict(walk(plan.tasks))


def is_container(task: Task) -> bool:
    """Whether a task holds others instead of doing something itself."""
    return bool(task.subplan or task.subplan_file or task.loop is not None or task.fanout is not None)


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
    found = [pattern for pattern in patterns if matches(pattern, task)]
    return max(found, key=lambda each: (each == task, "*" not in each, len(each)), default=None)


def known(pattern: str, plan: Plan) -> bool:
    """Whether a name in a test can mean any task of the plan. What a subplan in a file of its own holds is taken as
    known."""
    plain = written(pattern)
    every = paths(plan)
    if any(matches(plain, path) for path in every):
        return True
    return any(task.subplan_file and plain.startswith(path + "/") for path, task in every.items())
