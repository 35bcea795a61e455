"""Every task of a linked plan with the levels of policy that stand around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from planrunner.plan.holding import inside
from planrunner.plan.judging import Wanted, judged
from planrunner.plan.rights import Level, Right, narrows
from planrunner.plan.touching import Ground, files

if TYPE_CHECKING:
    from planrunner.plan.model import Plan, Task


class Standing(NamedTuple):
    """A task with the levels that hold for it, the operator's first, and the variables that the plan around it sets;
    ``name`` is its path (``owner/inner``)."""

    name: str
    task: Task
    levels: tuple[Level, ...]
    env: tuple[tuple[str, str], ...]


def standing(plan: Plan, operator: tuple[Level, ...] = ()) -> Iterator[Standing]:
    """Every task, in the order of the text."""
    around = _with(operator, Level("the plan", plan.policy))
    todo = [("", task, around, plan.env) for task in reversed(plan.tasks)]
    while todo:
        prefix, task, around, env = todo.pop()
        levels = _with(around, Level(f"task {task.id}", task.policy))
        name = prefix + task.id
        yield Standing(name, task, levels, env)
        inner = levels
        if task.sub is not None:
            inner = _with(inner, Level(f"the plan {task.sub.id}", task.sub.policy, task.sub.file))
            env = task.sub.env
        todo += ((f"{name}/", each, inner, env) for each in reversed(inside(task)))


def _with(levels: tuple[Level, ...], more: Level) -> tuple[Level, ...]:
    return (*levels, more) if narrows(more.data) else levels


def refused_tasks(plan: Plan, operator: tuple[Level, ...], ground: Ground) -> Iterator[tuple[str, Task, Wanted, Right]]:
    """What the levels refuse, whatever the templates come to, with the path of each task."""
    for name, task, levels, env in standing(plan, operator):
        for wanted, right in (*judged(levels, task, env), *files(levels, task, ground)):
            if right is not None and right.verdict == "deny":
                yield name, task, wanted, right
