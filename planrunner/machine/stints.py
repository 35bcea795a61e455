"""The time budgets of tasks that hold others: they count while something moves inside, not while people are awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.machine.commands import Command, Record
from planrunner.machine.events import PeopleAwaited
from planrunner.machine.moves import drop_timer, set_timer
from planrunner.machine.owing import is_within
from planrunner.machine.state import State
from planrunner.machine.stint import Stint

# Folds


def begun(state: State, number: int, at: float, limit: float, due: float | None) -> None:
    """A task with ``limit`` seconds begins."""
    state.stints[number] = Stint(limit, at, due)
    _set(state, number)


def _set(state: State, number: int) -> None:
    """Look at the task when the first of its limits is reached."""
    stint = state.stints[number]
    ends = stint.due
    if stint.since is not None:
        used_up = stint.since + stint.left
        ends = used_up if ends is None else min(ends, used_up)
    if ends is None:
        drop_timer(state, number, state.tasks[number])
    else:
        set_timer(state, number, ends)


def _stand(state: State, number: int, at: float) -> None:
    stint = state.stints[number]
    if stint.since is not None:
        stint.left -= at - stint.since
        stint.since = None
        _set(state, number)


def moved(state: State, number: int, at: float) -> None:
    """Something begins, or somebody has decided: the time of the run and of all that is around it counts again."""
    if state.active_since is None:
        state.active_since = at
    while number >= 0 and state.stints:
        stint = state.stints.get(number)
        if stint is not None and stint.since is None:
            stint.since = at
            _set(state, number)
        number = state.tasks[number].frame.owner


def parked(state: State, at: float) -> None:
    """Nobody acts on the run any more."""
    for number in state.stints:
        _stand(state, number, at)


def resumed(state: State, at: float, idle: float) -> None:
    """Somebody acts on the run again; of a runner that was killed the ``idle`` seconds since its last entry do not
    count."""
    for number, stint in state.stints.items():
        stint.since = at if stint.since is None else stint.since + idle
        _set(state, number)


def people_awaited(state: State, event: PeopleAwaited, at: float) -> None:
    if event.task:
        _stand(state, state.index[event.task], at)
    elif state.active_since is not None:
        state.active += at - state.active_since
        state.active_since = None


FOLDS: dict[type, Callable[[State, Any, float], None]] = {PeopleAwaited: people_awaited}


# Decisions


def standstill(state: State) -> list[Command]:
    """The tasks inside which only people can move anything from now on."""
    if not (state.counts.get("blocked") or state.counts.get("in_doubt")):
        return []
    counting = [number for number, stint in state.stints.items() if stint.since is not None]
    return [Record(PeopleAwaited(state.specs[number].id)) for number in counting if _waits_for_people(state, number)]


def _waits_for_people(state: State, owner: int) -> bool:
    frame = state.tasks[owner].inner
    assert frame is not None
    people = False
    for number in range(frame.first, len(state.tasks)):
        found = state.tasks[number]
        if found.status not in _OPEN or not is_within(state, number, owner):
            continue
        if number in state.running or number in state.asked or number in state.held or found.status == "queued":
            return False
        if found.status == "pending" and found.due is not None:
            return False
        people = people or found.status in ("blocked", "in_doubt")
    return people


_OPEN = frozenset({"pending", "queued", "running", "blocked", "in_doubt"})
