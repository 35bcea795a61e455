"""The ``done`` of a plan as a task of its own, which decides whether the plan counts as completed."""

from __future__ import annotations

from planrunner.diagnostics import Label
from planrunner.plan.lower_expressions import RUN, criteria
from planrunner.plan.lower_values import Lowering
from planrunner.plan.model import Criterion, Plan, Task
from planrunner.source import NOWHERE, Span
from planrunner.syntax.tree import Node, Scalar

NAME = "definition-of-done"
"""The id of the task that a plan with ``done`` ends with."""


def with_done(low: Lowering, key: Scalar, node: Node, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks of a plan with the one that its ``done`` stands for, before those under ``finally``."""
    found = criteria(low, node, low.known(RUN))
    if not found:
        return tasks
    for task in tasks:
        if task.id.casefold() == NAME:
            label = Label(key.span, "the task of this `done` is called so")
            message = f"`{task.id}` is the name of the task that the plan's `done` stands for"
            low.report("PLAN102", message, task.span, "give the task another id", label)
            return tasks
    return concluded(tasks, found, key.span)


def concluded(tasks: tuple[Task, ...], criteria: tuple[Criterion, ...], span: Span = NOWHERE) -> tuple[Task, ...]:
    """The tasks with one that asks these criteria."""
    last = Task(NAME, "definition of done", uses="noop", expect=criteria, span=span, concluding=True)
    last = last._replace(spans=(("done", span),))
    main = [task for task in tasks if not task.finally_]
    return (*main, last, *(task for task in tasks if task.finally_))


def without_done(plan: Plan) -> Plan:
    """The plan, and all plans that it links, without the tasks that stand for ``done``."""
    return plan._replace(tasks=_without(plan.tasks))


def _without(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    return tuple(_task_without(task) for task in tasks if not task.concluding)


def _task_without(task: Task) -> Task:
    if task.sub is not None:
        return task._replace(sub=without_done(task.sub))
    if task.loop is not None:
        return task._replace(loop=task.loop._replace(tasks=_without(task.loop.tasks)))
    return task._replace(subplan=_without(task.subplan)) if task.subplan else task
