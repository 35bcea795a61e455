"""Families of tasks, ``dive-*``: who needs a member waits for the family, since its members are known only when it
starts. Of a family without ``foreach`` or ``matrix`` a person says the items, at a gate before it."""

from __future__ import annotations

from planrunner.plan.families import meant_by
from planrunner.plan.lower_expressions import condition
from planrunner.plan.lower_values import Lowering
from planrunner.plan.model import Fanout, Gate, Join, Param, Task
from planrunner.syntax.tree import Scalar

ITEMS = "items"
"""The field of the gate that takes the items of a family."""


def with_items(low: Lowering, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
    """The tasks of one list, with a gate before each family that says no items: whoever answers it lists them. What
    the family waits for, and what leads to it, the gate takes over."""
    if not any(_lacks_items(task) for task in tasks):
        return tasks
    found: list[Task] = []
    gates: dict[str, str] = {}
    taken = {task.id for task in tasks}
    for task in tasks:
        if _lacks_items(task):
            gate = _gate_before(task, taken)
            gates[task.id] = gate.id
            taken.add(gate.id)
            found.append(gate)
            text = f"tasks['{gate.id}'].outputs.{ITEMS}"
            items = condition(low, Scalar(text, task.span.start, task.span.end, text))
            task = task._replace(
                needs=(gate.id,), join=Join(), when=None, preconditions=(), fanout=Fanout(foreach=items)
            )
        found.append(task)
    return tuple(_leading_to(task, gates) for task in found)


def _lacks_items(task: Task) -> bool:
    return task.id[-1:] == "*" and task.fanout is None


def _gate_before(family: Task, taken: set[str]) -> Task:
    stem = family.id[:-1].rstrip("-_") or "family"
    name = stem if stem not in taken else f"{stem}-{ITEMS}"
    while name in taken:
        name += "-"
    about = family.title or family.description or family.command
    ask = f"Which items does `{family.id}` take? Each becomes one task" + (f": {about}" if about else "")
    field = Param(ITEMS, "list", required=True, description="the items, one task each")
    return Task(
        name,
        title=f"The items of {family.id}",
        owner=family.owner,
        priority=family.priority,
        needs=family.needs,
        join=family.join,
        when=family.when,
        preconditions=family.preconditions,
        gate=Gate("approval", ask, form=(field,)),
        finally_=family.finally_,
        span=family.span,
    )


def _leading_to(task: Task, gates: dict[str, str]) -> Task:
    if not any(edge.target in gates for edge in task.edges):
        return task
    edges = tuple(edge._replace(target=gates.get(edge.target, edge.target)) for edge in task.edges)
    return task._replace(edges=edges)


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
