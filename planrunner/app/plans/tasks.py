"""The tasks of a plan or run by what people type, and which of them a run is about (``--only``, ``--until``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from planrunner.errors import Hint, NextStep, NotFound
from planrunner.machine.gates import asks_people
from planrunner.machine.graph import Shape
from planrunner.machine.names import held_tasks, named, written_name, written_of, written_path
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.plan.nearest import nearest
from planrunner.plan.tasks import every, makes
from planrunner.statuses import status_verb


def task_number(state: State, wanted: str) -> int:
    """The task that a path names, or the end of one that no other has. Raises NotFound, with the nearest path or with
    those it may be."""
    found = named(state, wanted)
    if len(found) == 1:
        return found[0]
    if not found:
        raise unknown(state, wanted)
    names = [state.specs[number].id for number in found]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    raise NotFound(f"`{wanted}` names {len(names)} tasks of this run", f"say which: {', '.join(names[:8])}{more}")


def unknown(state: State, wanted: str) -> NotFound:
    """The error for a path that no task has, with what was probably meant."""
    holder = _not_begun(state, wanted)
    if holder >= 0:
        task, task_state = state.specs[holder], state.tasks[holder]
        why = f"`{task.id}`, its container, {status_verb(task_state.status)}"
        return NotFound(f"`{wanted}` has not started in this run: {why}", NextStep("why", state.run_id, task.id))
    return missing(f"the plan `{state.plan.id}` has no task `{wanted}`", wanted, state.index, state.run_id)


def missing(message: str, wanted: str, known: Iterable[str], run: str) -> NotFound:
    """The error for a name that is not ``known`` in a run, with the nearest one and where they are listed."""
    names = list(known)
    near = nearest(wanted, names)
    listed = f"it has {', '.join(names[:20])}; " if names else "it has no tasks; "
    way = Hint(f"did you mean `{near}`? " if near else listed, NextStep("show", run), " lists its tasks")
    return NotFound(message, way)


def _not_begun(state: State, wanted: str) -> int:
    """The task that holds ``wanted`` in the plan, where it has not come so far in the run; -1 where none does."""
    path, _, name = wanted.rpartition("/")
    if not path:
        path, name = written_name(wanted), ""
    holders = named(state, path) if path != wanted else []
    if not holders and path:
        holders = [number for number in state.containers if written_path(state, number) == written_of(path)][-1:]
    for number in holders:
        held = [task.id for task in held_tasks(state, number)]
        if written_name(name) in held or (not name and state.specs[number].fanout is not None):
            return number
    return -1


def select(plan: Plan, only: tuple[str, ...], until: tuple[str, ...]) -> tuple[str, ...] | None:
    """The ids of the tasks to run in the order of the plan, None for all. ``until`` brings in whatever a task waits
    for.

    Raises NotFound for an id that the plan does not have.
    """
    if not (only or until):
        return None
    index = {task.id: number for number, task in enumerate(plan.tasks)}
    for name in (*only, *until):
        if name not in index and (around := _around(plan, name)) in index:
            raise NotFound(
                f"`{name}` is inside `{around}`, and a selection takes whole tasks of the plan", f"name `{around}`"
            )
        if name not in index:
            near = nearest(name, tuple(index))
            hint = f"did you mean `{near}`? " if near else f"it has {', '.join(list(index)[:8])}; "
            way = Hint(hint, NextStep("graph", "PLAN"), " shows its tasks")
            raise NotFound(f"plan `{plan.id}` has no task `{name}`", way)
    chosen = {index[name] for name in only} | _needed(_shape(plan), [index[name] for name in until])
    return tuple(plan.tasks[number].id for number in sorted(chosen))


def _around(plan: Plan, name: str) -> str:
    """The task of the plan that the path of an item, a round, a step or a member of a family begins with."""
    first = name.partition("/")[0]
    return next((task.id for task in plan.tasks if task.id[-1:] == "*" and makes(task, first)), written_name(first))


def gates_left_out(plan: Plan, selected: Collection[str]) -> tuple[str, ...]:
    """The gates of people that tasks of a selection wait for, directly or by others, and that are not in it; and the
    tasks that have such a gate inside."""
    shape, index = _shape(plan), {task.id: number for number, task in enumerate(plan.tasks)}
    todo = [index[name] for name in selected]
    known = set(todo)
    while todo:
        number = todo.pop()
        for other in (*shape.needs[number], *(route.source for route in shape.routes_in.get(number, ()))):
            if other not in known:
                known.add(other)
                todo.append(other)
    left = (task for number, task in enumerate(plan.tasks) if number in known and task.id not in selected)
    return tuple(task.id for task in left if any(each.gate and asks_people(each.gate) for each in every((task,))))


def widened(plan: Plan, selected: frozenset[str], before: set[str]) -> tuple[str, ...]:
    """The tasks that a run was begun for, as a revision of its plan has them, with what they wait for that was not in
    the plan ``before``."""
    chosen = [number for number, task in enumerate(plan.tasks) if task.id in selected]
    new = [number for number in _needed(_shape(plan), chosen) if plan.tasks[number].id not in before]
    return tuple(plan.tasks[number].id for number in sorted({*chosen, *new}))


def _needed(shape: Shape, numbers: list[int]) -> set[int]:
    """The tasks, whatever they wait for, and what handles a failure of any of those."""
    result = set(numbers)
    todo = list(numbers)
    while todo:
        number = todo.pop()
        sources = [route.source for route in shape.routes_in.get(number, ())]
        handlers = [route.target for route in shape.routes_out.get(number, ()) if route.edge.on == "failure"]
        for other in (*shape.needs[number], *sources, *handlers):
            if other not in result:
                result.add(other)
                todo.append(other)
    return result


def _shape(plan: Plan) -> Shape:
    shape = Shape()
    shape.add(plan.tasks)
    return shape
