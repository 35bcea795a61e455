"""From the state to all that follows from it without the world: decide, turn each command into its events, repeat.

The driver and the replay share this code; they differ in where the events go and in what is done with the effects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from planrunner.engine.calls import Place, plan_outputs, prepare
from planrunner.engine.effects import Effect, StartCall
from planrunner.machine.commands import Command, End, Record, Start
from planrunner.machine.decide import decide
from planrunner.machine.events import (
    AttemptEnded,
    Event,
    Outcome,
    RunEnded,
    TaskSettled,
)
from planrunner.machine.evolve import forget_candidates
from planrunner.machine.state import State

if TYPE_CHECKING:
    from planrunner.engine.rare_decisions import Turn


Sink = Callable[[Event, float], None]
"""Takes an event that was decided at a time and folds it into the state."""

SETTLE_ROUNDS = 1_000_000
"""Decisions without an effect in between; a plan of 100,000 tasks needs a few thousand, more is a bug."""


class Decisions:
    """Decides for one run. Everything that follows at one time carries that time: the same entries and the same time
    give the same decisions again."""

    __slots__ = ("_now", "_place", "_record", "_todo", "state")

    def __init__(self, state: State, place: Place, record: Sink) -> None:
        self.state = state
        self._place = place
        self._record = record
        self._now = 0.0
        self._todo: list[Effect] = []

    def settle(self, now: float, todo: list[Effect]) -> bool:
        """Decide until nothing more follows at ``now`` (seconds since 1970), and add to ``todo`` the effects that are
        allowed once the events are durable. True when a stop was decided: what runs has to end."""
        if self._resting():
            return False
        self._now, self._todo = now, todo
        self.state.now = now
        stopping = self.state.stop_reason
        for _ in range(SETTLE_ROUNDS):
            decision = decide(self.state, now)
            forget_candidates(self.state, decision.left)
            only_starts = not decision.left
            for command in decision.commands:
                only_starts = only_starts and type(command) is Start
                self._enact(command)
            if (only_starts and not self.state.candidates) or self._resting():
                # from a start alone nothing follows before it has ended
                return self.state.stop_reason not in (stopping, "budget")
        raise RuntimeError("the decisions of this run do not come to rest")

    def _resting(self) -> bool:
        return self.state.status not in ("running", "pending")

    def _enact(self, command: Command) -> None:
        if isinstance(command, Start):
            self._start(command)
        elif isinstance(command, Record):
            self._keep(command.event)
        elif isinstance(command, End):
            self._end(command)
        else:
            from planrunner.engine.rare_decisions import enact

            for following in enact(command, self._turn()):
                self._enact(following)

    def _keep(self, event: Event) -> None:
        if type(event).__name__ == "GateDecided":
            from planrunner.engine.gates import with_values

            event = with_values(self.state, event)
        self._record(event, self._now)
        if type(event) is TaskSettled:
            follows = event.status == "completed" and bool(self.state.freshness)
        else:
            follows = type(event).__name__ in ("AttemptStopping", "FrameClosing", "UndoSettled")
        if follows:
            from planrunner.engine.rare_decisions import follow

            follow(event, self._turn())

    def _start(self, command: Start) -> None:
        prepared = prepare(self.state, command, self._place)
        self._record(prepared.intent, self._now)
        if prepared.call is not None:
            self._todo.append(StartCall(prepared.call))
        else:
            ended = AttemptEnded(prepared.intent.task, command.attempt, prepared.outcome or Outcome())
            self._record(ended, self._now)

    def _turn(self) -> Turn:
        from planrunner.engine.rare_decisions import Turn

        return Turn(self.state, self._place, self._now, self._record, self._todo)

    def _end(self, command: End) -> None:
        status, reason = command.status, command.reason
        outputs, problem = plan_outputs(self.state) if self.state.plan.outputs else ({}, "")
        if status != "completed":
            problem = ""  # a run that failed before has its cause already
        elif problem:
            status, reason = "failed", "outputs"
        self._record(RunEnded(status, reason, outputs, problem), self._now)  # type: ignore[arg-type]
