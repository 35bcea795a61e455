"""Which tasks a run is about: ``--only`` and ``--until``."""

from __future__ import annotations

from planrunner.errors import UsageError
from planrunner.machine.shape import Shape
from planrunner.plan.model import Plan
from planrunner.plan.nearest import nearest


def select(plan: Plan, only: tuple[str, ...], until: tuple[str, ...]) -> tuple[str, ...] | None:
    """The ids of the tasks to run in the order of the plan, None for all. ``until`` brings in whatever a task waits
    for.

    Raises UsageError for an id that the plan does not have.
    """
    if not (only or until):
        return None
    index = {task.id: number for number, task in enumerate(plan.tasks)}
    for name in (*only, *until):
        if name not in index:
            near = nearest(name, tuple(index))
            hint = f"did you mean `{near}`?" if near else f"its tasks are {', '.join(list(index)[:8])}"
            raise UsageError(f"plan `{plan.id}` has no task `{name}`", hint)
    chosen = {index[name] for name in only} | _upstream(Shape(plan), [index[name] for name in until])
    return tuple(plan.tasks[number].id for number in sorted(chosen))


def _upstream(shape: Shape, numbers: list[int]) -> set[int]:
    found = set(numbers)
    todo = list(numbers)
    while todo:
        number = todo.pop()
        before = (*shape.needs[number], *(route.source for route in shape.routes_in.get(number, ())))
        for other in before:
            if other not in found:
                found.add(other)
                todo.append(other)
    return found
