"""Checkpoints that hold files: asked for before a task counts as completed, and between two rounds of a loop.

Nothing that waits for the task or for the next round begins before the files are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from planrunner.machine.checkpointed import Checkpointed
from planrunner.machine.commands import Close, Command, Open, Record, TakeCheckpoint
from planrunner.machine.events import CheckpointAsked, CheckpointTaken, FrameClosing, TaskSettled
from planrunner.machine.moves import drop_timer
from planrunner.machine.state import State
from planrunner.machine.statuses import IllegalMove

UNTOUCHED = ("reused", "fresh")
"""Reasons of tasks that completed without having run."""


def _known(state: State) -> Checkpointed:
    if state.checkpoints is None:
        state.checkpoints = Checkpointed()
    return state.checkpoints


def checkpoint_asked(state: State, event: CheckpointAsked, at: float) -> None:
    number = state.index[event.task]
    state.asked.add(number)
    _known(state).asked.add((number, event.visit, event.attempt, event.round))
    if not event.round:
        drop_timer(state, number, state.tasks[number])  # its work is done, whatever time it still had


def checkpoint_taken(state: State, event: CheckpointTaken, at: float) -> None:
    number = state.index[event.task]
    moment = number, event.visit, event.attempt, event.round
    checkpoints = _known(state)
    if moment not in checkpoints.asked:
        raise IllegalMove(f"a checkpoint of task `{event.task}` was taken that nobody had asked for")
    checkpoints.asked.discard(moment)
    checkpoints.taken[number] = moment
    if event.files:
        checkpoints.newest[event.patterns] = event.files
    name = f"{event.task}#{event.round}" if event.round else event.task
    if event.problem:
        checkpoints.problems[name] = bool(event.files), event.problem
    else:
        checkpoints.problems.pop(name, None)
    if state.tasks[number].visit == event.visit:
        state.asked.discard(number)
        state.candidates[number] = None


FOLDS: dict[type, Callable[[State, Any, float], None]] = {
    CheckpointAsked: checkpoint_asked,
    CheckpointTaken: checkpoint_taken,
}


def kept_first(state: State, commands: Sequence[Command], now: float) -> list[Command]:
    """The commands, with a checkpoint in place of each that ends a task or a round which calls for one, until that is
    taken."""
    found: list[Command] = []
    for command in commands:
        calls = _calls_for(state, command)
        if calls is None:
            found.append(command)
            continue
        number, round_ = calls
        task = state.tasks[number]
        moment = number, task.visit, task.attempts, round_
        checkpoints = _known(state)
        if checkpoints.taken.get(number) == moment:
            found.append(command)
        elif number not in state.asked or moment not in checkpoints.asked:
            found.append(TakeCheckpoint(number, round_))
        elif round_ and task.due is not None and task.due <= now:
            found.append(Record(FrameClosing(state.specs[number].id, "timeout")))
    return found


def _calls_for(state: State, command: Command) -> tuple[int, int] | None:
    """The task and the round (0: all of the task) that a command ends, where a checkpoint comes first."""
    if isinstance(command, Record):
        event = command.event
        if not isinstance(event, TaskSettled) or event.status != "completed" or event.reason in UNTOUCHED:
            return None
        number = state.index[event.task]
        return None if state.specs[number].checkpoint is None else (number, 0)
    if not isinstance(command, (Open, Close)):
        return None
    number, loop, frame = command.number, state.specs[command.number].loop, state.tasks[command.number].inner
    if loop is None or not loop.checkpoint or frame is None or frame.closing or frame.round % loop.checkpoint:
        return None
    goes_on = command.round > 1 if isinstance(command, Open) else command.failure in ("", "exhausted")
    return (number, frame.round) if goes_on and frame.kind == "round" else None


def asked(state: State, command: TakeCheckpoint) -> CheckpointAsked:
    """The intent to keep the files of the working directory."""
    task, found = state.specs[command.number], state.tasks[command.number]
    patterns = task.checkpoint or ()
    since = _known(state).newest.get(patterns, "")
    return CheckpointAsked(task.id, found.visit, found.attempts, command.round, patterns, since)
