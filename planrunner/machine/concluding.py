"""When the task that stands for the ``done`` of a plan starts: what it asks is about everything before it."""

from __future__ import annotations

from planrunner.machine.commands import Command, settle
from planrunner.machine.frame import Frame
from planrunner.machine.moves import others_done
from planrunner.machine.state import State


def first(state: State, number: int) -> tuple[bool, Command | None]:
    """Whether the task goes on to start, and where it does not the command that comes instead, if there is one: of a
    plan that has failed, or a task of which was cancelled, nothing is asked any more."""
    frame = state.tasks[number].frame
    if not others_done(state, frame):
        return False, None
    if broken := _broken(state, frame):
        first, word = broken[0], "failed" if frame.failures else "was cancelled"
        return False, settle(state.specs[number], "omitted", "done", f"`{state.specs[first].id}` {word}")
    return True, None


def _broken(state: State, frame: Frame) -> list[int]:
    """The tasks that keep a plan from completing, whatever its ``done`` says."""
    found = state.tasks
    inner = range(frame.first, frame.first + frame.size)
    return frame.failures or [each for each in inner if found[each].standing == found[each].status == "cancelled"]
