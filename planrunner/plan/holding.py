"""Tasks that hold others: loops, subplans, linked plans and what a fan-out multiplies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.plan.model import Task


def holds(task: Task) -> str:
    """What kind of frame a task opens: ``items``, ``round`` or ``subplan``; empty for a task that holds no others."""
    if task.fanout is not None:
        return "items"
    if task.loop is not None:
        return "round"
    return "subplan" if task.sub is not None or task.subplan else ""


def inside(task: Task) -> tuple[Task, ...]:
    """The tasks that stand in one."""
    looped = task.loop.tasks if task.loop is not None else ()
    linked = task.sub.tasks if task.sub is not None else ()
    return (*task.subplan, *looped, *linked)


def is_container(task: Task) -> bool:
    """Whether a task holds others instead of doing something itself; each item of a fan-out does something."""
    return bool(holds(task._replace(fanout=None)))


def inner(task: Task) -> tuple[Task, ...]:
    """The tasks that a container holds."""
    return inside(task) if is_container(task) else ()


def comes_last(task: Task) -> bool:
    """Whether a task follows all others of its plan without needing them: the one that stands for ``done``, and those
    under ``finally``."""
    return task.concluding or task.finally_


def every(tasks: Iterable[Task]) -> Iterator[Task]:
    """The tasks with all that stand in them."""
    waiting = list(tasks)
    for task in waiting:
        yield task
        waiting += inside(task)
