"""The loop that joins machine, journal and effects. Every mode is this loop with another journal and other effects.

Decide; turn each command into its event; append durably; only then act; wait for what happens; repeat. The outcome of
one task and the intents of the next share a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from planrunner.engine.calls import Place, plan_outputs, prepare, rights_of, with_values
from planrunner.engine.effects import AT_ONCE, Cancel, Effect, Effects, RecheckEvidence, StartCall, ended
from planrunner.journal.records import Answer, Request
from planrunner.later import Later
from planrunner.machine.commands import Command, End, Record, Start
from planrunner.machine.decide import decide, next_time
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStopping,
    Entry,
    Event,
    FrameClosing,
    GateDecided,
    Outcome,
    RunEnded,
    StopRequested,
    TaskSettled,
    UndoSettled,
)
from planrunner.machine.evolve import evolve, forget_candidates
from planrunner.machine.state import State
from planrunner.machine.stops import GOES_ON, STOPS, outlives
from planrunner.process import is_own_process

if TYPE_CHECKING:
    from types import ModuleType

    from planrunner.journal.ports import JournalPort
    from planrunner.journal.records import Lease
    from planrunner.machine.requests import Reply


Json = Any

looks: Callable[[State, Request, Place], tuple[dict[str, Json], ...]] = Later("planrunner.engine.answers:looks")
answer: Callable[..., Reply] = Later("planrunner.engine.answers:answer")
_gate_with_values: Callable[[State, GateDecided], GateDecided] = Later("planrunner.engine.gates:with_values")


TICK = 0.12
"""Seconds between two looks at the clock while nothing happens."""
CALM = 0.5
"""The same where a process acts on many runs: hundreds that wait would keep it busy."""

GATHERED = 500
"""Entries of one commit from which on nothing more is waited for."""


Append = Callable[[Sequence[Entry]], None]
"""Writes entries to the journal of a run that this process holds; they are durable on return. Raises
    StorageFailed or Fenced when nothing was written."""

NOT_BEGUN = Outcome(failure="unstarted", message="the run was stopped before this began")


class Observer(Protocol):
    """Told of every entry once it is durable, and of the time at least every ``CALM`` seconds."""

    def event(self, entry: Entry) -> None: ...

    def tick(self, now: float) -> None: ...


class Driver:
    """Drives one run until it ends or parks. ``seq`` is the number of the last entry in the journal; ``inbox``, where
    there is one, brings the requests of other processes."""

    def __init__(
        self, state: State, append: Append, effects: Effects, place: Place, onlooker: Observer, seq: int
    ) -> None:
        self.state = state
        self._append = append
        self._effects = effects
        self._onlooker = onlooker
        self._place = place
        self._seq = seq
        self._turn = seq + 1
        self._fresh: list[Entry] = []
        self._todo: list[Effect] = []
        self._decisions = Decisions(state, place, self._record)
        self._batch: float | None = None
        """The time of what came from outside since the last decision: all of it carries one time."""
        self._answers: list[tuple[int, Answer]] = []
        self._rechecks: dict[int, tuple[Request, RecheckEvidence]] = {}
        """Requests whose evidence is looked at again before they are answered."""
        self.inbox: Inbox | None = None
        self._tick = TICK if is_own_process() else CALM

    def record(self, *events: Event) -> None:
        """Fold events that come from outside and keep them for the next commit."""
        if self._batch is None:
            self._batch = self._effects.now()
        for event in events:
            self._record(event, self._batch)

    def _record(self, event: Event, now: float) -> None:
        evolve(self.state, event, now)
        self._seq += 1
        self._fresh.append(Entry(self._seq, now, event, self._turn))

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
        self._turn = self._seq + 1

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
        if effects and self._stopping():
            self._leave_out(effects)
        elif effects:
            self._effects.start(effects)

    def _stopping(self) -> bool:
        """Whether a stop was requested before these effects began."""
        return self.state.stop_reason not in ("", "budget")

    def _leave_out(self, effects: Sequence[Effect]) -> None:
        """A stop was requested before these effects began: of the calls only those are made that outlive it, which undo
        something or stand under ``finally``."""
        left: list[StartCall] = []
        for effect in effects:
            if isinstance(effect, StartCall):
                number = self.state.index[effect.call.task.id]
                undoes = effect.call.purpose == "undo"
                if not (self.state.stop_reason in GOES_ON if undoes else outlives(self.state, number)):
                    left.append(effect)
        self.record(*(ended(effect.call, NOT_BEGUN) for effect in left))
        self._effects.start([effect for effect in effects if effect not in left])

    def _wait(self) -> list[Event]:
        """What happens next; empty when a timer is due or the time budget is used up."""
        due = next_time(self.state, self._effects.now())
        while True:
            now = self._effects.now()
            self._onlooker.tick(now)
            if self._take_requests() or (due is not None and due <= now):
                return []
            events = self._effects.wait(now + self._tick if due is None else min(due, now + self._tick))
            if events:
                return events

    def _resting(self) -> bool:
        return self.state.status not in ("running", "pending")

    def _take_requests(self) -> bool:
        """Fold what other processes ask for; True when there was something, which the next commit answers."""
        asked = self.inbox.news() if self.inbox is not None else ()
        if not (asked or self._rechecks):
            return False
        seen = [each for each in self._rechecks.values() if each[1].found]
        for request, weighed in seen:
            del self._rechecks[request.id]
            self._answer(request, weighed)
        new = [request for request in asked if request.id not in self._rechecks]
        new = [request for request in new if all(request.id != other.id for other, _ in seen)]
        for request in new:
            if look := looks(self.state, request, self._place):
                number = self.state.index[str(request.body["gate"])]
                recheck = RecheckEvidence(look, self._place.directory, [], rights_of(self.state, number))
                self._rechecks[request.id] = (request, recheck)
                self._effects.start([recheck])
            else:
                self._answer(request, None)
        return bool(self._answers)

    def _answer(self, request: Request, weighed: RecheckEvidence | None) -> None:
        outcome = answer(self.state, request, self._place, self._effects.now(), weighed)
        self._arrived(outcome.events)
        self._answers.append((request.id, Answer(outcome.applied, outcome.message, outcome.code)))

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
                event = with_values(self.state, event)
            elif isinstance(event, AttemptStopping):
                self._todo.append(Cancel(event.task, event.attempt, event.detail, event.failure))
            self.record(event)


Sink = Callable[[Event, float], None]
"""Takes an event that was decided at a time and folds it into the state."""

SETTLE_ROUNDS = 1_000_000
"""Decisions without an effect in between; a plan of 100,000 tasks needs a few thousand, more is a bug."""


class Decisions:
    """Decides for one run. Everything that follows at one time carries that time: the same entries and the same time
    give the same decisions again."""

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
            if not decision.commands:
                self.state.stirred.clear()
            only_starts = not decision.left
            for command in decision.commands:
                only_starts = only_starts and type(command) is Start
                self._enact(command)
            if (only_starts and not self.state.candidates) or self._resting():
                # from a start alone nothing follows before it has ended
                return self.state.stop_reason not in (stopping, "budget", "revision")
        raise RuntimeError("the decisions of this run do not settle")

    def _resting(self) -> bool:
        return self.state.status not in ("running", "pending")

    def _enact(self, command: Command) -> None:
        match command:
            case Start():
                prepared = prepare(self.state, command, self._place)
                self._record(prepared.intent, self._now)
                if prepared.call is not None:
                    self._todo.append(StartCall(prepared.call))
                else:
                    ended = AttemptEnded(prepared.intent.task, command.attempt, prepared.outcome or Outcome())
                    self._record(ended, self._now)
            case Record():
                self._keep(command.event)
            case End():
                status, reason = command.status, command.reason
                outputs, problem = plan_outputs(self.state) if self.state.plan.outputs else ({}, "")
                if status != "completed":
                    problem = ""  # a run that failed before has its cause already
                elif problem:
                    status, reason = "failed", "outputs"
                self._record(RunEnded(status, reason, outputs, problem), self._now)  # type: ignore[arg-type]
            case _:
                enactment, turn = self._enactment()
                for following in enactment.enact(command, turn):
                    self._enact(following)

    def _enactment(self) -> tuple[ModuleType, Any]:
        """What makes events of the commands that most runs do without, and the turn that it acts in."""
        from planrunner.engine import enactment

        return enactment, enactment.Turn(self.state, self._place, self._now, self._record, self._todo)

    def _keep(self, event: Event) -> None:
        if isinstance(event, GateDecided):
            event = _gate_with_values(self.state, event)
        self._record(event, self._now)
        if type(event) is TaskSettled:
            follows = event.status == "completed" and bool(self.state.freshness)
        else:
            follows = isinstance(event, (AttemptStopping, FrameClosing, UndoSettled))
        if follows:
            enactment, turn = self._enactment()
            enactment.follow(event, turn)


LOOK = 0.1
"""Seconds between two looks."""


RENEWAL = 10.0
"""Seconds between two renewals of a lease."""


class Inbox:
    """The requests of a run, read by the holder of its lease, which is renewed meanwhile. The journal is queried only
    where another process may have written to it."""

    def __init__(self, journal: JournalPort, lease: Lease) -> None:
        self._journal = journal
        self._lease = lease
        self._next = 0.0
        self._renewal = monotonic() + RENEWAL

    def news(self) -> list[Request]:
        """Requests without an answer; nothing before ``LOOK`` seconds have passed. What is not
        answered through ``store`` by then may be among those of the next call. Raises Fenced where another process has
        the run by now, StorageFailed."""
        now = monotonic()
        if now < self._next:
            return []
        self._next = now + LOOK
        if now >= self._renewal:
            self._renewal = now + RENEWAL
            self._journal.renew(self._lease)
        return self._journal.waiting(self._lease.run) if self._journal.touched() else []

    def store(self, entries: Sequence[Entry], answers: Sequence[tuple[int, Answer]]) -> None:
        """Append entries with the answers to the requests they follow from, in one transaction."""
        self._journal.append(self._lease, entries, answers)
