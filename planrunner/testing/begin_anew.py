"""Random tasks of a run in an imagined world begin anew, and what must hold for that: what stands under ``finally``
runs again after anything of its level, and nothing is kept that was called otherwise."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from planrunner.app.proof.lives import PLACE, RUN_ID, Broken
from planrunner.engine.calls import prepare
from planrunner.machine.commands import Start
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, RunEnded, TaskSettled, TasksReset
from planrunner.machine.evolve import evolve
from planrunner.machine.graph import Frame
from planrunner.machine.rework import Anew, Unfit, is_current, reset_event, retried, run_again
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.plan.tasks import comes_last

Json = Any


def begin_anew(state: State, seed: int, entries: Sequence[Entry], most: int) -> TasksReset | None:
    """What somebody begins anew in a run that has ended or was stopped; None where they leave it at that, as after
    ``most`` times."""
    if state.status not in ("completed", "failed", "cancelled", "paused"):
        return None
    done = sum(isinstance(entry.event, TasksReset) and entry.event.reason != "rework" for entry in entries)
    if done >= most:
        return None
    rng = random.Random(f"{seed}/anew/{done}")
    for _ in range(4):
        retry = rng.random() < 0.3
        try:
            anew = _retried(rng, state) if retry else _run_again(rng, state)
        except Unfit:
            continue
        return reset_event(state, anew, "retry" if retry else "rerun", "test")
    return None


def _some(rng: random.Random, state: State) -> list[int]:
    numbers = [number for number in range(len(state.tasks)) if is_current(state, number)]
    return sorted(rng.sample(numbers, min(len(numbers), rng.choice([1, 1, 2, 3]))))


def _retried(rng: random.Random, state: State) -> Anew:
    return retried(state, [] if rng.random() < 0.7 else _some(rng, state))


def _run_again(rng: random.Random, state: State) -> Anew:
    wanted, all_after, only_failed = _some(rng, state), rng.random() < 0.2, rng.random() < 0.2
    return run_again(state, wanted, all_after=all_after, by_call=rng.random() < 0.5, only_failed=only_failed)


def check_anew(plan: Plan, entries: Sequence[Entry]) -> None:
    """Raises Broken where something under ``finally`` did not follow what ran on its level, or where a result was kept
    though its call is another."""
    state = State(plan, RUN_ID)
    watched = _Watched()
    for entry in entries:
        event = entry.event
        if isinstance(event, TaskSettled) and event.reason == "reused":
            watched.kept(state, event, entry.seq)
        evolve(state, event, entry.at)
        if isinstance(event, (AttemptStarted, AttemptEnded)):
            watched.acted(state, event, entry.seq)
        elif isinstance(event, TaskSettled):
            watched.settled[state.index[event.task]] = entry.seq
        elif isinstance(event, RunEnded):
            watched.check_finals(state, entry.seq)


class _Watched:
    """What the attempts of a run were called with and gave, and when something last ran on each level."""

    def __init__(self) -> None:
        self.inputs: dict[int, str] = {}
        self.outputs: dict[int, Json] = {}
        self.ran: dict[Frame, int] = {}
        self.settled: dict[int, int] = {}

    def acted(self, state: State, event: AttemptStarted | AttemptEnded, seq: int) -> None:
        number = state.index[event.task]
        if number in state.holders:
            return
        if isinstance(event, AttemptEnded):
            self.outputs[number] = event.outcome.outputs
            return
        self.inputs[number] = event.inputs
        self.outputs[number] = {}  # somebody who saw the end of an attempt in doubt tells no outputs
        while number >= 0:
            frame = state.tasks[number].frame
            if not comes_last(state.specs[number]):
                self.ran[frame] = seq
            number = frame.owner

    def kept(self, state: State, event: TaskSettled, seq: int) -> None:
        number = state.index[event.task]
        found = state.tasks[number]
        if comes_last(state.specs[number]) and found.frame in self.ran:
            raise Broken(f"`{event.task}` comes last and kept its result though its level ran (entry {seq})")
        if number in state.holders:
            if found.inner in self.ran:
                raise Broken(f"`{event.task}` counts as kept though something inside it ran (entry {seq})")
            return
        if found.kept is None:
            raise Broken(f"`{event.task}` kept what nobody gave (entry {seq})")
        before = found.kept.number
        now = prepare(state, Start(number, found.attempts + 1), PLACE).intent.inputs
        if now != self.inputs[before]:
            raise Broken(f"`{event.task}` kept its result though it would be called otherwise (entry {seq})")
        assert found.kept.outcome is not None
        if found.kept.outcome.outputs != self.outputs[before]:
            raise Broken(f"`{event.task}` kept what is not its result (entry {seq})")
        self.inputs[number], self.outputs[number] = now, self.outputs[before]

    def check_finals(self, state: State, seq: int) -> None:
        for frame, at in self.ran.items():
            for final in frame.finals if frame.last < 0 else (frame.last, *frame.finals):
                if is_current(state, final) and self.settled.get(final, 0) < at:
                    raise Broken(f"`{state.specs[final].id}` did not follow what ran on its level (entry {seq})")
