"""The loop that joins machine, journal and effects. Every mode is this loop with another journal and other effects.

Decide; turn each command into its event; append durably; only then act; wait for what happens; repeat. The outcome of
one task and the intents of the next share a commit.
"""

from __future__ import annotations

from planrunner.capabilities.contract import Call
from planrunner.engine.calls import Place, Prepared, asked, plan_outputs, prepare, with_values
from planrunner.engine.effects import UNDO, Cancel, Observe, Probe, StartCall
from planrunner.machine.commands import AskFacts, AskProbe, Close, End, Open, Record, Start, Undo
from planrunner.machine.decide import decide
from planrunner.machine.events import (
    AttemptEnded,
    Entry,
    FactsRequested,
    FrameClosing,
    Outcome,
    RunEnded,
    StopRequested,
    TaskSettled,
    UndoEnded,
)
from planrunner.machine.evolve import evolve, forget_candidates
from planrunner.machine.state import State
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from planrunner.engine.effects import Effect, Effects
    from planrunner.machine.commands import Command
    from planrunner.machine.events import Event

TICK = 0.12
"""Seconds between two looks at the clock while nothing happens."""

GATHERED = 500
"""Entries of one commit from which on nothing more is waited for."""

SETTLE_ROUNDS = 1_000_000
"""Decisions without an effect in between; a plan of 100,000 tasks needs a few thousand, more is a bug."""


if TYPE_CHECKING:
    Append = Callable[[Sequence[Entry]], None]
    """Writes entries to the journal of a run that this process holds; they are durable on return. Raises
    StorageFailed or Fenced when nothing was written."""

NOT_BEGUN = Outcome(failure="unstarted", message="the run was stopped before this began")


if TYPE_CHECKING:

    class Onlooker(Protocol):
        """Told of every entry once it is durable, and of the time at least every ``TICK`` seconds."""

        def event(self, entry: Entry) -> None: ...

        def tick(self, now: float) -> None: ...


class Driver:
    """Drives one run until it ends or parks. ``seq`` is the number of the last entry in the journal."""

    __slots__ = ("_append", "_effects", "_fresh", "_onlooker", "_place", "_seq", "_todo", "state")

    def __init__(
        self, state: State, append: Append, effects: Effects, place: Place, onlooker: Onlooker, seq: int
    ) -> None:
        self.state = state
        self._append = append
        self._effects = effects
        self._place = place
        self._onlooker = onlooker
        self._seq = seq
        self._fresh: list[Entry] = []
        self._todo: list[Effect] = []

    def record(self, event: Event) -> None:
        """Fold an event and keep it for the next commit."""
        now = self._effects.now()
        evolve(self.state, event, now)
        self._seq += 1
        self._fresh.append(Entry(self._seq, now, event))

    def run(self) -> None:
        """Loop until the run ended or parked. What was decided but not written when storage fails never took effect."""
        while True:
            self._decide_all()
            if self._gather():
                continue
            self._commit()
            if self._fresh:
                continue  # effects that were left out have to be recorded too
            if self._resting():
                return
            for event in self._wait():
                self._arrived(event)

    def _gather(self) -> bool:
        """Take in what has happened meanwhile, so that more of it shares the commit that comes."""
        under_way = len(self.state.running) > len(self._todo)
        if not under_way or self._resting() or not self._fresh or len(self._fresh) > GATHERED:
            return False
        events = self._effects.wait(self._effects.now())
        for event in events:
            self._arrived(event)
        return bool(events)

    def _commit(self) -> None:
        """Make durable what was decided, tell it, and begin the effects it allows."""
        if not self._fresh:
            return
        entries, effects = self._fresh, self._todo
        self._fresh, self._todo = [], []
        self._append(entries)
        for entry in entries:
            self._onlooker.event(entry)
        if effects and not self._stopping():
            self._effects.start(effects)
        elif effects:
            self._leave_out(effects)

    def _stopping(self) -> bool:
        """Somebody asked the run to stop before these effects began; only ``finally`` outlives
        that."""
        reason = self.state.stop_reason
        return bool(reason) and reason != "rollback" and (reason != "deadline" or bool(self.state.open))

    def _leave_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StartCall):
                self._arrived(AttemptEnded(effect.call.task.id, effect.call.attempt, NOT_BEGUN))
            else:
                self._effects.start([effect])

    def _wait(self) -> list[Event]:
        """What happens next; empty when a timer is due or the time budget is used up."""
        timers = self.state.timers
        due = self._until(timers[0][0] if timers else None)
        while True:
            now = self._effects.now()
            self._onlooker.tick(now)
            if due is not None and due <= now:
                return []
            events = self._effects.wait(now + TICK if due is None else min(due, now + TICK))
            if events:
                return events

    def _until(self, due: float | None) -> float | None:
        limit = self.state.plan.budgets.time
        if limit is None or self.state.stop_reason:
            return due
        now = self._effects.now()
        deadline = now + limit - self.state.spent_time(now)
        return deadline if due is None else min(due, deadline)

    def _resting(self) -> bool:
        return self.state.status not in ("running", "pending")

    def _arrived(self, event: Event) -> None:
        if isinstance(event, StopRequested):
            self._effects.stop()
            if self.state.stop_reason:
                return
        elif type(event) is AttemptEnded:
            undone = event.task.startswith(UNDO)
            event = UndoEnded(event.task[len(UNDO) :], *event[1:]) if undone else with_values(self.state, event)
        self.record(event)

    def _decide_all(self) -> None:
        """Decide until nothing more follows without the world: one commit for all of it."""
        for _ in range(SETTLE_ROUNDS):
            decision = decide(self.state, self._effects.now())
            forget_candidates(self.state, decision.left)
            only_starts = not decision.left
            for command in decision.commands:
                only_starts = only_starts and type(command) is Start
                self._enact(command)
            if (only_starts and not self.state.candidates) or self._resting():
                return  # from a start alone nothing follows before it has ended
        raise RuntimeError("the decisions of this run do not come to rest")

    def _enact(self, command: Command) -> None:
        if isinstance(command, Start):
            prepared = prepare(self.state, command, self._place)
            if prepared.intent.undo and prepared.call is not None:
                prepared = self._saved(command, prepared)
            self.record(prepared.intent)
            if prepared.call is not None:
                self._todo.append(StartCall(prepared.call))
            else:
                self.record(AttemptEnded(prepared.intent.task, command.attempt, prepared.outcome or Outcome()))
        elif isinstance(command, Record):
            event = command.event
            if type(event) is TaskSettled and event.status == "blocked":
                event = asked(self.state, event)
            self.record(event)
            if isinstance(event, StopRequested):
                self._effects.stop()
            elif type(event) is FrameClosing:
                self._stop_inside(event)
        elif isinstance(command, (Open, Close)):
            self._turn(command)
        elif isinstance(command, Undo):
            self._undo(command)
        elif isinstance(command, AskFacts):
            task = self.state.specs[command.number].id
            self.record(FactsRequested(task, command.names))
            self._todo.append(Observe(task, command.names))
        elif isinstance(command, AskProbe):
            self._todo.append(Probe(self._probe(command)))
        else:
            self._end(command)

    def _saved(self, command: Start, prepared: Prepared) -> Prepared:
        """The attempt once the files that its task names are saved; one whose files cannot be saved fails instead."""
        from planrunner.engine.undoing import saved  # late: few tasks say how they are undone

        made = saved(self.state, command, prepared, self._place)
        if isinstance(made, Outcome):
            return prepared._replace(intent=prepared.intent._replace(undo=False), call=None, outcome=made)
        if made is not None:
            self.record(made)
        return prepared

    def _undo(self, command: Undo) -> None:
        from planrunner.engine.undoing import prepare_undo  # late, as above

        intent, effect, outcome = prepare_undo(self.state, command, self._place, self._effects.now())
        self.record(intent)
        if effect is not None:
            self._todo.append(effect)
        else:
            self.record(UndoEnded(intent.task, intent.attempt, outcome))

    def _turn(self, command: Open | Close) -> None:
        """A task that holds others begins, goes into its next round or ends."""
        from planrunner.engine.opening import closed, opened  # late: many plans are flat

        for event in opened(self.state, command) if isinstance(command, Open) else [closed(self.state, command)]:
            self.record(event)

    def _stop_inside(self, event: FrameClosing) -> None:
        from planrunner.machine.containers import inside  # late, as above

        state = self.state
        owner = state.index[event.task]
        for number in state.running:
            found = state.tasks[number]
            if found.outcome is None and inside(state, number, owner):
                self._todo.append(Cancel(state.specs[number].id, found.attempts, event.reason))

    def _probe(self, command: AskProbe) -> Call:
        prepared = prepare(self.state, Start(command.number, command.attempt), self._place)
        self.record(
            TaskSettled(prepared.intent.task, "in_doubt", "probe", "asks the capability whether it took effect")
        )
        if prepared.call is None:
            raise RuntimeError(f"the call of `{prepared.intent.task}` was rendered before and cannot be rendered now")
        return prepared.call

    def _end(self, command: End) -> None:
        outputs = plan_outputs(self.state) if self.state.plan.outputs else {}
        self.record(RunEnded(command.status, command.reason, outputs))  # type: ignore[arg-type]
