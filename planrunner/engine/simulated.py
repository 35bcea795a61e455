"""Effects that only happen on paper: for dry runs, simulation and tests of plans, on a virtual clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from planrunner.capabilities.contract import Call
from planrunner.engine.effects import (
    Cancel,
    CheckFreshness,
    DropFreshness,
    Effect,
    Examine,
    ObserveFacts,
    Probe,
    RecheckEvidence,
    RecordFreshness,
    Restore,
    Save,
    StartCall,
    TakeCheckpoint,
    ended,
)
from planrunner.machine.events import (
    AttemptEnded,
    BackupMade,
    CheckpointTaken,
    DoubtSettled,
    Event,
    FactsObserved,
    FreshnessSeen,
    GateExamined,
    Outcome,
    UndoEnded,
)
from planrunner.records import Struct, astuple

Json = Any


class Script(Struct):
    """How the imagined world answers: the outcome of a call with the seconds it takes (in ``Outcome.duration``), the
    facts it shows, what a probe finds (``retry``, ``completed`` or ``failed``), and the evidence of a gate."""

    outcome: Callable[[Call], Outcome]
    facts: Callable[[tuple[str, ...]], dict[str, Json]]
    probe: Callable[[Call], str] = lambda call: "retry"
    evidence: Callable[[Examine], tuple[dict[str, Json], ...]] = lambda effect: ()


def in_time(call: Call, outcome: Outcome) -> Outcome:
    """The outcome, or what becomes of it where it takes longer than the call may."""
    if call.timeout is None or outcome.duration <= call.timeout:
        return outcome
    message = f"stopped after its timeout of {call.timeout:g} s"
    return Outcome(failure="timeout", message=message, duration=call.timeout)


class SimulatedEffects:
    """An ``Effects`` whose time jumps to the next thing that happens."""

    def __init__(self, script: Script, start: float) -> None:
        self._script = script
        self._clock = start
        self._coming: list[tuple[float, int, Event]] = []
        self._count = 0
        self.started: list[Call] = []

    def start(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case StartCall(call):
                    self.started.append(call)
                    outcome = in_time(call, self._script.outcome(call))
                    self._later(outcome.duration, ended(call, outcome))
                case ObserveFacts():
                    self._later(0.0, FactsObserved(effect.task, self._script.facts(effect.names)))
                case Cancel():
                    self._call_off(effect)
                case CheckFreshness():
                    self._later(0.0, FreshnessSeen(effect.task, why="not observed", fault=effect.fault))
                case RecordFreshness() | DropFreshness():
                    pass  # what is imagined is not done
                case Save():
                    self._later(0.0, BackupMade(effect.task, effect.visit, effect.patterns))
                case Restore():
                    self._later(0.0, UndoEnded(effect.task, effect.attempt, Outcome()))
                case TakeCheckpoint():
                    self._later(0.0, CheckpointTaken(*astuple(effect.asked)))  # there are no files to keep
                case RecheckEvidence():
                    effect.found.append((self._script.evidence(Examine("", 0, effect.looks, effect.directory)), ""))
                case Examine():
                    self._later(0.0, GateExamined(effect.task, effect.visit, self._script.evidence(effect)))
                case Probe(call):
                    resolution = self._script.probe(call)
                    self._later(0.0, DoubtSettled(call.task.id, call.attempt, resolution, "probe"))  # type: ignore[arg-type]
                case _:
                    assert_never(effect)

    def wait(self, until: float | None) -> list[Event]:
        if not self._coming or (until is not None and until < self._coming[0][0]):
            if until is None:
                raise RuntimeError("the simulation waits for an event that never happens")
            self._clock = max(self._clock, until)
            return []
        self._clock = max(self._clock, self._coming[0][0])
        events = []
        while self._coming and self._coming[0][0] <= self._clock:
            events.append(heapq.heappop(self._coming)[2])
        return events

    def now(self) -> float:
        return self._clock

    def stop(self, forced: bool = False) -> None:
        """Whatever is under way ends now, as interrupted."""
        stopped: list[tuple[float, int, Event]] = []
        for _, count, event in self._coming:
            if isinstance(event, (AttemptEnded, UndoEnded)):
                outcome = Outcome(failure="interrupted", message="stopped in order")
                stopped.append((self._clock, count, event._replace(outcome=outcome)))
            else:
                stopped.append((self._clock, count, event))
        heapq.heapify(stopped)
        self._coming = stopped

    def _call_off(self, effect: Cancel) -> None:
        """The attempt ends now."""
        outcome = Outcome(failure=effect.failure, message=effect.message)
        for at, (_, count, event) in enumerate(self._coming):
            if isinstance(event, AttemptEnded) and (event.task, event.attempt) == (effect.task, effect.attempt):
                self._coming[at] = (self._clock, count, event._replace(outcome=outcome))
        heapq.heapify(self._coming)

    def close(self) -> None:
        self._coming = []

    def _later(self, seconds: float, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._coming, (self._clock + seconds, self._count, event))
