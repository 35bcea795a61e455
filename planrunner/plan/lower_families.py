"""Families of tasks, ``dive-*``: who needs a member waits for the family, since its members are known only when it
starts."""

from __future__ import annotations

from planrunner.plan.families import meant_by
from planrunner.plan.model import Task


def joined(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks of one list, with needs and edges to ``dive-1`` leading to the family ``dive-*``."""
    families = [task for task in tasks if task.id[-1:] == "*"]
    if not families:
        return tasks
    ids = {task.id for task in tasks}

    def meant(name: str) -> str:
        if name in ids:
            return name
        return next((family.id for family in families if meant_by(family, name)), name)

    return tuple([_led(task, {name: meant(name) for name in _named(task)}) for task in tasks])


def _named(task: Task) -> set[str]:
    return {*task.needs, *(edge.target for edge in task.edges)}


def _led(task: Task, meant: dict[str, str]) -> Task:
    if all(name == target for name, target in meant.items()):
        return task
    needs = tuple(dict.fromkeys(meant[name] for name in task.needs))
    edges = tuple(edge._replace(target=meant[edge.target]) for edge in task.edges)
    return task._replace(needs=needs, edges=edges)
