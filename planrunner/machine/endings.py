"""A task that ends its plan: once it has completed nothing else of the plan begins, and what runs is stopped. The plan
has completed then, unless something failed before."""

from __future__ import annotations

from planrunner.machine.commands import Command, Record, settle
from planrunner.machine.events import AttemptStopping
from planrunner.machine.moves import wake
from planrunner.machine.state import State
from planrunner.machine.stops import overlooked


def ended(state: State, number: int) -> None:
    """A task that ends its plan has completed."""
    frame = state.tasks[number].frame
    if frame.ended < 0:
        frame.ended = number
        state.endings += 1
        wake(state, frame)


def goes_on(state: State, number: int) -> None:
    """A task begins anew: where it ended its plan, that goes on."""
    frame = state.tasks[number].frame
    if frame.ended == number:
        frame.ended = -1
        state.endings -= 1


def ended_by(state: State, number: int) -> str:
    """Why a task is not run, since another one has ended its plan or one around it; empty where none has. What stands
    under ``finally``, what decides whether the plan is done, and what somebody asked for by name still run."""
    while number >= 0:
        task, found = state.specs[number], state.tasks[number]
        if task.finally_ or task.concluding or found.insisted:
            return ""
        by = found.frame.ended
        if by >= 0 and not (found.overlooks and overlooked(state, found, by)):
            return f"`{state.specs[by].id}` has ended the plan" if by != number else ""
        number = found.frame.owner
    return ""


def not_run(state: State, number: int) -> Command | None:
    """The end of a task that has not begun, or waits for another attempt; None where it goes on."""
    found = state.tasks[number]
    why = ended_by(state, number)
    began = found.attempts > found.past
    return settle(state.specs[number], "cancelled" if began else "skipped", "ended", why) if why else None


def stopping(state: State) -> list[Command]:
    """What still runs in a plan that has ended."""
    found: list[Command] = []
    for number in state.running:
        at = state.tasks[number]
        known = at.outcome is not None or at.uncertain
        if known or (state.alarms is not None and number in state.alarms.stopping):
            continue
        if why := ended_by(state, number):
            event = AttemptStopping(state.specs[number].id, at.attempts, "cancelled", "ended", why)
            found.append(Record(event))
    return found
