"""Which tasks a run is about: ``--only`` and ``--until``."""

from __future__ import annotations

from planrunner.errors import NotFound
from planrunner.machine.graph import Shape
from planrunner.plan.model import Plan
from planrunner.plan.nearest import nearest


def select(plan: Plan, only: tuple[str, ...], until: tuple[str, ...]) -> tuple[str, ...] | None:
    """The ids of the tasks to run in the order of the plan, None for all. ``until`` brings in whatever a task waits
    for.

    Raises NotFound for an id that the plan does not have.
    """
    if not (only or until):
        return None
    index = {task.id: number for number, task in enumerate(plan.tasks)}
    for name in (*only, *until):
        if name not in index:
            near = nearest(name, tuple(index))
            listed = "`planrunner graph PLAN` shows its tasks"
            hint = f"did you mean `{near}`? {listed}" if near else f"it has {', '.join(list(index)[:8])}; {listed}"
            raise NotFound(f"plan `{plan.id}` has no task `{name}`", hint)
    chosen = {index[name] for name in only} | _needed(_shape(plan), [index[name] for name in until])
    return tuple(plan.tasks[number].id for number in sorted(chosen))


def widened(plan: Plan, selected: frozenset[str], before: set[str]) -> tuple[str, ...]:
    """The tasks that a run was begun for, as a revision of its plan has them, with what they wait for that was not in
    the plan ``before``."""
    chosen = [number for number, task in enumerate(plan.tasks) if task.id in selected]
    new = [number for number in _needed(_shape(plan), chosen) if plan.tasks[number].id not in before]
    return tuple(plan.tasks[number].id for number in sorted({*chosen, *new}))


def _needed(shape: Shape, numbers: list[int]) -> set[int]:
    """The tasks, whatever they wait for, and what handles a failure of any of those."""
    found = set(numbers)
    todo = list(numbers)
    while todo:
        number = todo.pop()
        sources = [route.source for route in shape.routes_in.get(number, ())]
        handlers = [route.target for route in shape.routes_out.get(number, ()) if route.edge.on == "failure"]
        for other in (*shape.needs[number], *sources, *handlers):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found


def _shape(plan: Plan) -> Shape:
    shape = Shape()
    shape.add(plan.tasks)
    return shape
