"""Checkpoints that hold files, and runs that go on from a place in the record of another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planrunner.machine import clocks
from planrunner.machine.commands import Close, Command, Open, Record, TakeCheckpoint
from planrunner.machine.events import (
    AttemptEnded,
    CheckpointAsked,
    CheckpointTaken,
    Entry,
    FactsObserved,
    FrameClosing,
    GateExamined,
    GateReopened,
    GateVoted,
    RunEnded,
    RunForked,
    TaskSettled,
)
from planrunner.machine.gates import ask_anew
from planrunner.machine.state import Checkpointed, State
from planrunner.machine.statuses import IllegalMove, free_slot, move

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
        state.wheel.drop(number)  # its work is done, whatever time it still had


def checkpoint_taken(state: State, event: CheckpointTaken, at: float) -> None:
    number = state.index[event.task]
    moment = number, event.visit, event.attempt, event.round
    checkpoints = _known(state)
    if moment not in checkpoints.asked:
        raise IllegalMove(f"a checkpoint of task `{event.task}` was taken without an intent")
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


def kept_first(state: State, command: Command, now: float) -> Command | None:
    """A checkpoint in place of what ends a task or a round which calls for one; nothing while it is taken."""
    calls = _calls_for(state, command)
    if calls is None:
        return command
    number, round_ = calls
    task = state.tasks[number]
    moment = number, task.visit, task.attempts, round_
    checkpoints = _known(state)
    if checkpoints.taken.get(number) == moment:
        return command
    if number not in state.asked or moment not in checkpoints.asked:
        return TakeCheckpoint(number, round_)
    if round_ and (due := state.wheel.due(number)) is not None and due <= now:
        return Record(FrameClosing(state.specs[number].id, "timeout"))
    return None


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
    task, task_state = state.specs[command.number], state.tasks[command.number]
    patterns = task.checkpoint or ()
    since = _known(state).newest.get(patterns, "")
    return CheckpointAsked(task.id, task_state.visit, task_state.attempts, command.round, patterns, since)


class Position(NamedTuple):
    """A place that a run can be taken up from: after the entry ``seq``, where ``task`` had completed, or a round of it
    (``task#round``), at ``at`` (seconds since 1970). Nothing that was decided with that entry is cut off. ``taken`` is
    the entry that tells of its files, 0 where none were asked for. Where the run ``ended`` with it nothing is left to
    take up, and it is listed for what it holds."""

    task: str
    seq: int
    at: float
    taken: int = 0
    ended: bool = False


def positions(entries: Sequence[Entry]) -> list[Position]:
    """Where tasks had completed, and rounds whose files were kept, in the order in which they did."""
    places = []
    files: dict[str, int] = {}
    for entry in entries:
        event, task, taken = entry.event, "", 0
        if isinstance(event, CheckpointTaken):
            if event.round:
                task, taken = f"{event.task}#{event.round}", entry.seq
            else:
                files[event.task] = entry.seq
        elif isinstance(event, TaskSettled) and event.status == "completed":
            task, taken = event.task, files.pop(event.task, 0)
        if not task:
            continue
        seq = rest_after(entries, entry.seq)
        ended = isinstance(entries[seq - 1].event, RunEnded)
        places.append(Position(task, seq, entry.at, taken, ended))
    return places


def rest_after(entries: Sequence[Entry], seq: int) -> int:
    """The last entry of the turn of ``seq``: after it the runner had decided all there was to decide. In journals
    without turns what was decided together carries one time, and follows what arrived."""
    while seq < len(entries):
        last, following = entries[seq - 1], entries[seq]
        together = last.shares_turn(following)
        if together is None:
            undecided = isinstance(last.event, _ARRIVED) and not isinstance(following.event, _ARRIVED)
            together = last.at == following.at or undecided
        if not together:
            break
        seq += 1
    return seq


_ARRIVED = (AttemptEnded, CheckpointTaken, FactsObserved, GateExamined, GateReopened, GateVoted)


def run_forked(state: State, event: RunForked, at: float) -> None:
    """Another run from here on. What was under way has not begun in it, and its clock stands still until it is taken
    up."""
    if state.ended_at is not None:
        raise IllegalMove(f"run {event.parent} had ended")
    state.run_id, state.begun_at = event.run, at
    state.params = {**state.params, **event.params}
    if event.by:
        state.environment = {**state.environment, "user": event.by}  # who forks a run has started the new one
    state.releases.clear()
    for number in list(state.running):
        task_state = state.tasks[number]
        free_slot(state, number)
        if task_state.status == "in_doubt":
            continue  # asked about already: whether it took effect in the other run is still to be told
        move(state, number, task_state, "pending")
        task_state.attempts -= 1
        task_state.reissues = 0
        task_state.uncertain = False
        task_state.judged = True
        task_state.outcome = None
        task_state.reason = task_state.detail = ""
        if not task_state.attempts:
            task_state.started = None
    if any(task_state.gate is not None for task_state in state.tasks):
        ask_anew(state, "the run")
    state.status, state.reason = "paused", "forked"
    if state.active_since is not None:
        state.active += at - event.idle - state.active_since
        state.active_since = None
    if state.meters:
        clocks.meters_paused(state, at - event.idle)
