"""The loop that joins machine, journal and effects. Every mode is this loop with another journal and other effects.

Decide; turn each command into its event; append durably; only then act; wait for what happens; repeat. The outcome of
one task and the intents of the next share a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from planrunner.capabilities.contract import Call
from planrunner.engine.answering import answer, looks
from planrunner.engine.calls import Place, rights_of, with_values
from planrunner.engine.decisions import Decisions
from planrunner.engine.effects import AT_ONCE, UNDO, Effect, Effects, StartCall, Weigh
from planrunner.journal.records import Answer, Request
from planrunner.machine.decide import next_time
from planrunner.machine.events import AttemptEnded, AttemptStopping, Entry, Event, Outcome, StopRequested, UndoEnded
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.machine.statuses import STOPS
from planrunner.machine.stops import GOES_ON, outlives

if TYPE_CHECKING:
    from planrunner.engine.inbox import Inbox


TICK = 0.12
"""Seconds between two looks at the clock while nothing happens."""

GATHERED = 500
"""Entries of one commit from which on nothing more is waited for."""


Append = Callable[[Sequence[Entry]], None]
"""Writes entries to the journal of a run that this process holds; they are durable on return. Raises
    StorageFailed or Fenced when nothing was written."""

NOT_BEGUN = Outcome(failure="unstarted", message="the run was stopped before this began")


class Onlooker(Protocol):
    """Told of every entry once it is durable, and of the time at least every ``TICK`` seconds."""

    def event(self, entry: Entry) -> None: ...

    def tick(self, now: float) -> None: ...


class Driver:
    """Drives one run until it ends or parks. ``seq`` is the number of the last entry in the journal; ``inbox``, where
    there is one, brings the requests of other processes."""

    __slots__ = (
        "_answers",
        "_append",
        "_batch",
        "_decisions",
        "_effects",
        "_fresh",
        "_onlooker",
        "_place",
        "_seq",
        "_todo",
        "_weighing",
        "inbox",
        "state",
    )

    def __init__(
        self, state: State, append: Append, effects: Effects, place: Place, onlooker: Onlooker, seq: int
    ) -> None:
        self.state = state
        self._append = append
        self._effects = effects
        self._onlooker = onlooker
        self._place = place
        self._seq = seq
        self._fresh: list[Entry] = []
        self._todo: list[Effect] = []
        self._decisions = Decisions(state, place, self._record)
        self._batch: float | None = None
        """The time of what came from outside since the last decision: all of it carries one time, so that the record
        shows between which entries nothing was decided."""
        self._answers: list[tuple[int, Answer]] = []
        self._weighing: dict[int, tuple[Request, Weigh]] = {}
        """Requests for which somebody looks at the world before they are answered."""
        self.inbox: Inbox | None = None

    def record(self, *events: Event) -> None:
        """Fold events that come from outside and keep them for the next commit."""
        if self._batch is None:
            self._batch = self._effects.now()
        for event in events:
            self._record(event, self._batch)

    def _record(self, event: Event, now: float) -> None:
        evolve(self.state, event, now)
        self._seq += 1
        self._fresh.append(Entry(self._seq, now, event))

    def run(self) -> None:
        """Loop until the run ended or parked. What was decided but not written when storage fails never took effect."""
        self._take_requests()
        while True:
            self._decide(self._effects.now())
            if self._gather():
                continue
            self._commit()
            if self._fresh:
                continue  # effects that were left out have to be recorded too
            if self._resting():
                return
            self._arrived(self._wait())
            if not self._answers:  # a request that came meanwhile is heard before anything follows from what ended
                self._take_requests()

    def _decide(self, now: float) -> None:
        """Everything that follows without the world, at one point of time: one commit for all of it."""
        self._batch = None
        if self._decisions.settle(now, self._todo):
            self._effects.stop()

    def _gather(self) -> bool:
        """Take in what has happened meanwhile, so that more of it shares the commit that comes."""
        under_way = len(self.state.running) > len(self._todo)
        if not under_way or self._resting() or not self._fresh or len(self._fresh) > GATHERED:
            return False
        events = self._effects.wait(self._effects.now())
        self._arrived(events)
        return bool(events)

    def _commit(self) -> None:
        """Make durable what was decided, tell it, and begin the effects it allows."""
        if not (self._fresh or self._answers):
            return
        entries, effects, answers = self._fresh, self._todo, self._answers
        self._fresh, self._todo, self._answers = [], [], []
        if answers and self.inbox is not None:
            self.inbox.store(entries, answers)
        else:
            self._append(entries)
        for entry in entries:
            self._onlooker.event(entry)
        if effects and not self._stopping():
            self._effects.start(effects)
        elif effects:
            self._leave_out(effects)

    def _stopping(self) -> bool:
        """Somebody asked the run to stop before these effects began."""
        return self.state.stop_reason not in ("", "budget")

    def _leave_out(self, effects: Sequence[Effect]) -> None:
        left = [effect.call for effect in effects if isinstance(effect, StartCall) and not self._outlives(effect.call)]
        self.record(*(_undone(AttemptEnded(call.task.id, call.attempt, NOT_BEGUN)) for call in left))
        self._effects.start([each for each in effects if not (isinstance(each, StartCall) and each.call in left)])

    def _outlives(self, call: Call) -> bool:
        """Whether a call begins though the run is stopped: what undoes something, and what stands under ``finally``."""
        if call.task.id.startswith(UNDO):
            return self.state.stop_reason in GOES_ON
        return outlives(self.state, self.state.index[call.task.id])

    def _wait(self) -> list[Event]:
        """What happens next; empty when a timer is due or the time budget is used up."""
        due = next_time(self.state, self._effects.now())
        while True:
            now = self._effects.now()
            self._onlooker.tick(now)
            if self._take_requests() or (due is not None and due <= now):
                return []
            events = self._effects.wait(now + TICK if due is None else min(due, now + TICK))
            if events:
                return events

    def _resting(self) -> bool:
        return self.state.status not in ("running", "pending")

    def _take_requests(self) -> bool:
        """Fold what other processes ask for; True when there was something, which the next commit answers."""
        asked = self.inbox.news() if self.inbox is not None else ()
        if not (asked or self._weighing):
            return False
        seen = [each for each in self._weighing.values() if each[1].found]
        for request, weighed in seen:
            del self._weighing[request.id]
            self._answer(request, weighed)
        new = [request for request in asked if request.id not in self._weighing]
        new = [request for request in new if all(request.id != other.id for other, _ in seen)]
        for request in new:
            if look := looks(self.state, request, self._place):
                number = self.state.index[str(request.body["gate"])]
                weigh = Weigh(look, self._place.directory, [], rights_of(self.state, number))
                self._weighing[request.id] = (request, weigh)
                self._effects.start([weigh])
            else:
                self._answer(request, None)
        return bool(self._answers)

    def _answer(self, request: Request, weighed: Weigh | None) -> None:
        found = answer(self.state, request, self._place, self._effects.now(), weighed)
        self._arrived(found.events)
        self._answers.append((request.id, Answer(found.applied, found.message, found.code)))

    def _arrived(self, events: Sequence[Event]) -> None:
        """Record what happened; a timer that is due by now comes first, so that the order does not hang on a race."""
        now = self._effects.now()
        due = next_time(self.state, now) if self._batch is None else None
        if due is not None and due <= now:
            self._decide(now)
        for event in events:
            if isinstance(event, StopRequested) and event.reason:
                if event.reason != "pause":
                    self._effects.stop(event.reason == "killed")
                if STOPS[event.reason] <= STOPS[self.state.stop_reason]:
                    if event.comment != AT_ONCE or self.state.stop_reason not in ("time", "deadline", "cancelled"):
                        continue
                    event = StopRequested("killed", comment="interrupted twice")
            elif type(event) is AttemptEnded:
                event = with_values(self.state, event) if UNDO not in event.task else _undone(event)
            elif type(event).__name__ == "AttemptStopping":
                self._call_off(event)
            self.record(event)

    def _call_off(self, event: Event) -> None:
        assert isinstance(event, AttemptStopping)
        from planrunner.engine.rare_decisions import stopping

        self._todo.append(stopping(event))


def _undone(event: AttemptEnded) -> AttemptEnded | UndoEnded:
    """What the end of a call means: calls that undo a task are told by their name."""
    return UndoEnded(event.task[len(UNDO) :], *event[1:]) if event.task.startswith(UNDO) else event
