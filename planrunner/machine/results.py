"""The names in expressions over results, ``needs`` and ``join``: what became of the tasks before one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planrunner.machine.scope import PLAN_ROOTS, TasksScope, numbered, result_of, status_of
from planrunner.machine.state import State
from planrunner.plan.expressions.values import MissingName, Undecided

Json = Any

FLAGS = frozenset({"ok", "completed", "failed", "skipped", "omitted", "cut_off", "cancelled", "done"})
"""What is true or false of a task that has ended."""

_COMPLETED = {flag: flag in ("ok", "completed", "done") for flag in FLAGS}


class ResultScope:
    """A task id stands for its result, ``lint.ok`` or ``lint.skipped``; a need that has not ended is undecided. With
    ``ideal`` every need reads as completed, with nothing known of what it gave."""

    __slots__ = ("_frame", "_ideal", "_needs", "_state")

    def __init__(self, state: State, number: int, ideal: bool = False) -> None:
        self._state = state
        self._frame = state.tasks[number].frame
        self._needs = state.shape.needs[number]
        self._ideal = ideal

    def resolve(self, name: str) -> Json:
        """The result of a task, or one of the plan's names; raises MissingName for a name nothing defines."""
        state = self._state
        number = numbered(state, self._frame, name)
        if name == "tasks":
            return _Tasks(self, number)
        if number is not None:
            return self.result(number)
        make = PLAN_ROOTS.get(name)
        if make is not None:
            return make(state, self._frame)
        raise MissingName(f"there is no task `{name}`")

    def result(self, number: int) -> Json:
        """The flags and the status of a task."""
        found = self._state.tasks[number]
        return self._unknown(number) or {**result_of(self._state, found), "status": status_of(found)}

    def record(self, name: str) -> Json:
        """What ``tasks.name`` stands for; raises MissingName."""
        number = numbered(self._state, self._frame, name)
        unknown = self._unknown(number) if number is not None else None
        return unknown or TasksScope(self._state, self._frame).resolve(name)

    def _unknown(self, number: int) -> _Unknown | None:
        """What a need reads as where its result is not looked at."""
        if number not in self._needs or (self._state.tasks[number].standing and not self._ideal):
            return None
        return _Unknown(self._state.specs[number].id, _COMPLETED if self._ideal else {})


class _Tasks:
    """``tasks``: any task by its id, and first the flags of the task that is called so, where there is one."""

    __slots__ = ("_own", "_scope")

    def __init__(self, scope: ResultScope, own: int | None) -> None:
        self._scope = scope
        self._own = own

    def resolve(self, name: str) -> Json:
        """The record of a task, or a flag of the task called ``tasks``; raises MissingName."""
        if self._own is None or (name not in FLAGS and name != "status"):
            return self._scope.record(name)
        own = self._scope.result(self._own)
        return own.resolve(name) if isinstance(own, _Unknown) else own[name]


class _Unknown:
    """A task of which no more is known than some flags: anything else that is read of it is undecided."""

    __slots__ = ("_flags", "_name")

    def __init__(self, name: str, flags: Mapping[str, bool]) -> None:
        self._name = name
        self._flags = flags

    def resolve(self, name: str) -> bool:
        """A flag that is known; raises Undecided for anything else."""
        if name in self._flags:
            return self._flags[name]
        raise Undecided(f"`{self._name}` has not ended", name in FLAGS)
