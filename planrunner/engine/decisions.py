"""From the state to all that follows from it without the world: decide, turn each command into its events, repeat.

The driver and the replay share this code; they differ in where the events go and in what is done with the effects.
"""

from __future__ import annotations

from planrunner.capabilities.contract import Call
from planrunner.engine.calls import Place, asked, plan_outputs, prepare
from planrunner.engine.effects import Cancel, Examine, Observe, Probe, StartCall
from planrunner.machine.commands import (
    AskFacts,
    AskFresh,
    AskPeople,
    AskProbe,
    Close,
    End,
    Open,
    Record,
    Save,
    Start,
    TakeCheckpoint,
    Undo,
)
from planrunner.machine.decide import decide
from planrunner.machine.events import (
    AttemptEnded,
    FactsRequested,
    FrameClosing,
    Outcome,
    RunEnded,
    TaskSettled,
    UndoEnded,
)
from planrunner.machine.evolve import forget_candidates
from planrunner.machine.state import State
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from planrunner.engine.effects import Effect
    from planrunner.machine.commands import Command
    from planrunner.machine.events import Event, UndoSettled

    Sink = Callable[[Event, float], None]
    """Takes an event that was decided at a time and folds it into the state."""

SETTLE_ROUNDS = 1_000_000
"""Decisions without an effect in between; a plan of 100,000 tasks needs a few thousand, more is a bug."""


class Decisions:
    """Decides for one run. Everything that follows at one time carries that time: the same entries and the same time
    give the same decisions again."""

    __slots__ = ("_now", "_place", "_record", "_reused", "_todo", "state")

    def __init__(self, state: State, place: Place, record: Sink) -> None:
        self.state = state
        self._place = place
        self._record = record
        self._now = 0.0
        self._reused = False
        self._todo: list[Effect] = []

    def settle(self, now: float, todo: list[Effect]) -> bool:
        """Decide until nothing more follows at ``now`` (seconds since 1970), and add to ``todo`` the effects that are
        allowed once the events are durable. True when a stop was decided: what runs has to end."""
        if self._resting():
            return False
        self._now, self._todo = now, todo
        stopping = self.state.stop_reason
        for _ in range(SETTLE_ROUNDS):
            self._reused = False
            decision = decide(self.state, now)
            forget_candidates(self.state, decision.left)
            only_starts = not decision.left
            for command in decision.commands:
                only_starts = only_starts and type(command) is Start
                self._enact(command)
            only_starts = only_starts and not self._reused
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
            event = command.event
            if type(event) is TaskSettled and event.status == "blocked":
                event = asked(self.state, event)
            self._record(event, self._now)
            if type(event) is FrameClosing and event.reason != "budget":
                self._stop_inside(event)
            elif type(event) is TaskSettled and event.status == "completed" and self.state.freshness:
                self._remember(event)
            elif type(event).__name__ in ("AttemptStopping", "UndoSettled"):
                self._act_on(event)
        elif isinstance(command, (Open, Close)):
            self._turn(command)
        elif isinstance(command, Undo):
            self._undo(command)
        elif isinstance(command, Save):
            self._save(command)
        elif isinstance(command, TakeCheckpoint):
            self._checkpoint(command)
        elif isinstance(command, AskPeople):
            self._ask(command)
        elif isinstance(command, AskFacts):
            task = self.state.specs[command.number].id
            self._record(FactsRequested(task, command.names), self._now)
            self._todo.append(Observe(task, command.names))
        elif isinstance(command, AskFresh):
            self._ask_fresh(command.number)
        elif isinstance(command, AskProbe):
            self._todo.append(Probe(self._probe(command)))
        else:
            self._end(command)

    def _start(self, command: Start) -> None:
        prepared = prepare(self.state, command, self._place)
        found = self.state.tasks[command.number]
        if found.kept is not None and prepared.call is not None and prepared.intent.inputs == found.inputs:
            detail = f"kept: it would be called as in attempt {found.attempts}"
            self._record(TaskSettled(prepared.intent.task, "completed", "reused", detail), self._now)
            self._reused = True
            return
        self._record(prepared.intent, self._now)
        if prepared.call is not None:
            self._todo.append(StartCall(prepared.call))
        else:
            ended = AttemptEnded(prepared.intent.task, command.attempt, prepared.outcome or Outcome())
            self._record(ended, self._now)

    def _ask_fresh(self, number: int) -> None:
        from planrunner.engine.done import asks_fresh  # late: few tasks tell when they are done already

        event, effect = asks_fresh(self.state, number, self._place)
        self._record(event, self._now)
        self._todo.append(effect)

    def _remember(self, event: TaskSettled) -> None:
        from planrunner.engine.done import remembered  # late, as above

        if event.reason != "fresh" and (effect := remembered(self.state, event.task)):
            self._todo.append(effect)

    def _forget(self, event: UndoSettled) -> None:
        from planrunner.engine.done import forgotten  # late, as above

        if effect := forgotten(self.state, event.task):
            self._todo.append(effect)

    def _act_on(self, event: Event) -> None:
        from planrunner.machine.events import AttemptStopping, UndoSettled  # late: few attempts are stopped or undone

        if isinstance(event, AttemptStopping):
            self._todo.append(Cancel(event.task, event.attempt, event.detail, event.failure))
        elif isinstance(event, UndoSettled) and event.status == "undone":
            self._forget(event)

    def _save(self, command: Save) -> None:
        from planrunner.engine.undoing import prepare_save  # late: few tasks name files to save
        from planrunner.machine.events import BackupMade

        asked_for, follows = prepare_save(self.state, command.number, self._place)
        self._record(asked_for, self._now)
        if isinstance(follows, BackupMade):
            self._record(follows, self._now)
        else:
            self._todo.append(follows)

    def _checkpoint(self, command: TakeCheckpoint) -> None:
        from planrunner.engine import effects  # late: few tasks ask for a checkpoint
        from planrunner.machine.checkpoints import asked

        event = asked(self.state, command)
        self._record(event, self._now)
        self._todo.append(effects.TakeCheckpoint(event, self._place.directory))

    def _undo(self, command: Undo) -> None:
        from planrunner.engine.undoing import prepare_undo  # late, as above

        intent, effect, outcome = prepare_undo(self.state, command, self._place, self._now)
        self._record(intent, self._now)
        if effect is not None:
            self._todo.append(effect)
        else:
            self._record(UndoEnded(intent.task, intent.attempt, outcome), self._now)

    def _turn(self, command: Open | Close) -> None:
        """A task that holds others begins, goes into its next round or ends."""
        from planrunner.engine.opening import closed, opened  # late: many plans are flat

        for event in opened(self.state, command) if isinstance(command, Open) else [closed(self.state, command)]:
            self._record(event, self._now)

    def _stop_inside(self, event: FrameClosing) -> None:
        from planrunner.machine.containers import inside  # late, as above

        state = self.state
        owner = state.index[event.task]
        for number in state.running:
            found = state.tasks[number]
            if found.outcome is None and inside(state, number, owner):
                self._todo.append(Cancel(state.specs[number].id, found.attempts, event.reason))

    def _ask(self, command: AskPeople) -> None:
        from planrunner.engine.gates import requested  # late: few plans have gates

        event = requested(self.state, command, self._place)
        self._record(event, self._now)
        looks = tuple(event.request.get("looks", ()))
        self._todo.append(Examine(event.task, event.visit, looks, self._place.directory))

    def _probe(self, command: AskProbe) -> Call:
        prepared = prepare(self.state, Start(command.number, command.attempt), self._place)
        asks = TaskSettled(prepared.intent.task, "in_doubt", "probe", "asks the capability whether it took effect")
        self._record(asks, self._now)
        if prepared.call is None:
            raise RuntimeError(f"the call of `{prepared.intent.task}` was rendered before and cannot be rendered now")
        return prepared.call

    def _end(self, command: End) -> None:
        outputs = plan_outputs(self.state) if self.state.plan.outputs else {}
        self._record(RunEnded(command.status, command.reason, outputs), self._now)  # type: ignore[arg-type]
