"""The tasks of a run by what people type, with errors that say what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from planrunner.errors import NotFound
from planrunner.machine.names import held_tasks, named, written_name, written_of, written_path
from planrunner.machine.state import State
from planrunner.machine.statuses import said
from planrunner.plan.nearest import nearest


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
        task, found = state.specs[holder], state.tasks[holder]
        why = f"`{task.id}`, its container, {said(found.status)}"
        return NotFound(f"`{wanted}` has not started in this run: {why}", f"planrunner why {state.run_id} {task.id}")
    return missing(f"the plan `{state.plan.id}` has no task `{wanted}`", wanted, state.index, state.run_id)


def missing(message: str, wanted: str, known: Iterable[str], run: str) -> NotFound:
    """The error for a name that is none of those ``known`` in a run, with the nearest one and where they are listed."""
    names = list(known)
    near = nearest(wanted, names)
    listed = f"it has {', '.join(names[:20])}" if names else "it has no tasks"
    command = f"`planrunner show {run}` lists its tasks"
    return NotFound(message, f"did you mean `{near}`? {command}" if near else f"{listed}; {command}")


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
