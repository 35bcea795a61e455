"""What is shown of a run in which tasks hold others while it goes on: what runs, waits or is in trouble, each below the
tasks that hold it."""

from __future__ import annotations

from planrunner.machine.paths import owners, stands
from planrunner.machine.state import State
from planrunner.views.nesting import name_inside
from planrunner.views.rows import TROUBLE, Row


def chosen(state: State, trouble: dict[int, None], room: int) -> tuple[list[Row], int]:
    """At most ``room`` rows, in the order of the run, and how many running tasks have none. ``trouble`` are the tasks
    that ever got into some, those that are out of it are taken from it."""
    picked = _Picked(state, room)
    for number in _in_trouble(state, trouble, max(1, room // 3)):
        picked.add(number)
    waiting = [number for _, number in state.timers if state.tasks[number].status == "pending"]
    for number in waiting[: max(1, room // 4)]:
        picked.add(number)
    left = sum(not picked.add(number) for number in list(state.running))
    for number in state.holders:
        if picked.full:
            break
        if state.tasks[number].status == "running" and state.tasks[number].frame is state.top:
            picked.add(number)
    return picked.rows(), left


def _in_trouble(state: State, trouble: dict[int, None], most: int) -> list[int]:
    """The newest tasks in trouble that still matter."""
    found: list[int] = []
    for number in list(reversed(trouble)):
        if state.tasks[number].status not in TROUBLE or not stands(state, number):
            del trouble[number]
        elif number not in state.holders or state.tasks[number].inner is None:
            found.append(number)
            if len(found) == most:
                break
    return found


class _Picked:
    """Tasks that have a row, with those that hold them; each costs a row once."""

    __slots__ = ("_room", "_shown", "_state")

    def __init__(self, state: State, room: int) -> None:
        self._state = state
        self._room = room
        self._shown: set[int] = set()

    @property
    def full(self) -> bool:
        return len(self._shown) >= self._room

    def add(self, number: int) -> bool:
        """Whether there was room for the task and whatever holds it."""
        if self.full:
            return False
        wanted = {number, *owners(self._state, number)} - self._shown
        if len(self._shown) + len(wanted) > self._room:
            return False
        self._shown |= wanted
        return True

    def rows(self) -> list[Row]:
        below: dict[int, list[int]] = {}
        for number in sorted(self._shown):
            below.setdefault(self._state.tasks[number].frame.owner, []).append(number)
        found: list[Row] = []
        todo = [(number, 0) for number in reversed(below.get(-1, []))]
        while todo:
            number, level = todo.pop()
            found.append(Row(level, number, name_inside(self._state, number)))
            todo += [(child, level + 1) for child in reversed(below.get(number, []))]
        return found
