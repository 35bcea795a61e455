"""Runs that go on from a place in the record of another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from planrunner.machine import stints
from planrunner.machine.events import (
    AttemptEnded,
    CheckpointTaken,
    Entry,
    FactsObserved,
    GateExamined,
    GateReopened,
    GateVoted,
    RunEnded,
    RunForked,
    TaskSettled,
)
from planrunner.machine.gates import ask_anew
from planrunner.machine.moves import free_slot, move
from planrunner.machine.state import State
from planrunner.machine.statuses import IllegalMove


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
    found = []
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
        found.append(Position(task, seq, entry.at, taken, ended))
    return found


def rest_after(entries: Sequence[Entry], seq: int) -> int:
    """The first entry from ``seq`` on after which the runner had decided all there was to decide: what is decided
    together carries one time, and what arrived is followed by what was decided on it."""
    while seq < len(entries):
        last, following = entries[seq - 1], entries[seq]
        undecided = isinstance(last.event, _ARRIVED) and not isinstance(following.event, _ARRIVED)
        if last.at != following.at and not undecided:
            break
        seq += 1
    return seq


_ARRIVED = (AttemptEnded, CheckpointTaken, FactsObserved, GateExamined, GateReopened, GateVoted)


def run_forked(state: State, event: RunForked, at: float) -> None:
    """Another run from here on. What was under way has not begun in it, and its clock stands still until it is taken
    up."""
    if state.ended_at is not None:
        raise IllegalMove(f"run {event.parent} had ended")
    state.run_id = event.run
    state.params = {**state.params, **event.params}
    for number in list(state.running):
        _never_began(state, number)
    if any(found.gate is not None for found in state.tasks):
        ask_anew(state)
    state.status, state.reason = "paused", "forked"
    if state.active_since is not None:
        state.active += at - event.idle - state.active_since
        state.active_since = None
    if state.stints:
        stints.parked(state, at - event.idle)


def _never_began(state: State, number: int) -> None:
    found = state.tasks[number]
    free_slot(state, number)
    if found.status == "in_doubt":
        return  # asked about already: whether it took effect in the other run is still to be told
    move(state, number, found, "pending")
    found.attempts -= 1
    found.reissues = 0
    found.uncertain = False
    found.judged = True
    found.outcome = None
    found.reason = found.detail = ""
    if not found.attempts:
        found.started = None


FOLDS: dict[type, Callable[[State, Any, float], None]] = {RunForked: run_forked}
