"""The tasks of a run by what people type, with errors that say what was probably meant."""

from __future__ import annotations

from planrunner.errors import NotFound, PlanrunnerError
from planrunner.machine.paths import held_tasks, named, written_name, written_of, written_path
from planrunner.machine.state import State
from planrunner.plan.nearest import nearest


def task_number(state: State, wanted: str, kind: type[PlanrunnerError] = NotFound) -> int:
    """The task that a path names, or the end of one that no other has. Raises an error of that ``kind``, with the
    nearest path or with those it may be."""
    found = named(state, wanted)
    if len(found) == 1:
        return found[0]
    if not found:
        raise unknown(state, wanted, kind)
    names = [state.specs[number].id for number in found]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    raise kind(f"`{wanted}` names {len(names)} tasks of this run", f"say which: {', '.join(names[:8])}{more}")


def unknown(state: State, wanted: str, kind: type[PlanrunnerError] = NotFound) -> PlanrunnerError:
    """The error for a path that no task has, with what was probably meant."""
    holder = _not_begun(state, wanted)
    if holder >= 0:
        task, found = state.specs[holder], state.tasks[holder]
        why = f"`{task.id}`, which would hold it, is {found.status.replace('_', ' ')}"
        return kind(f"`{wanted}` has not come to be in this run: {why}", f"planrunner why {state.run_id} {task.id}")
    near = nearest(wanted, state.index)
    hint = f"did you mean `{near}`?" if near else f"it has {', '.join(list(state.index)[:20])}"
    return kind(f"the plan `{state.plan.id}` has no task `{wanted}`", hint)


def _not_begun(state: State, wanted: str) -> int:
    """The task that holds ``wanted`` in the plan, where it has not come so far in the run; -1 where none does."""
    path, _, name = wanted.rpartition("/")
    if not path:
        path, name = written_name(wanted), ""
    holders = named(state, path) if path != wanted else []
    if not holders and path:
        holders = [number for number in state.holders if written_path(state, number) == written_of(path)][-1:]
    for number in holders:
        held = [task.id for task in held_tasks(state, number)]
        if written_name(name) in held or (not name and state.specs[number].fanout is not None):
            return number
    return -1
