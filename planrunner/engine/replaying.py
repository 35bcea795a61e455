"""Walk a recorded run again: what came from outside is taken from the record, everything else is decided anew and
compared. Nothing is started, nobody is asked, no capability is loaded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from planrunner.engine.calls import Place, with_values
from planrunner.engine.decisions import Decisions
from planrunner.engine.effects import Effect
from planrunner.journal.codec import decode, encode
from planrunner.machine.decide import next_time
from planrunner.machine.events import (
    AttemptEnded,
    Entry,
    Event,
    FactsObserved,
    RunForked,
    RunReopened,
    RunResumed,
    RunRevised,
    RunStarted,
)
from planrunner.machine.evolve import evolve
from planrunner.machine.replay import Difference, Replayed, differ, is_input, missing, task_of
from planrunner.machine.state import State
from planrunner.machine.statuses import IllegalMove
from planrunner.plan.model import Plan


def replay(plan: Plan, run_id: str, entries: Sequence[Entry], plans: Mapping[str, Plan] = {}) -> Replayed:
    """Walk the entries of a run of ``plan``, and of the ``plans`` of its revisions by digest; stops at the first
    difference."""
    walk = Replay(State(plan, origin(run_id, entries), plans))
    for entry in entries:
        difference = walk.step(entry)
        if difference is not None:
            return walk.result(difference)
    return walk.result(walk.rest())


def origin(run_id: str, entries: Sequence[Entry]) -> str:
    """The run that the record began as: another one where it was forked, since keys hold the name of their run."""
    return next((entry.event.parent for entry in entries if isinstance(entry.event, RunForked)), run_id)


class Replay:
    """The walk of one run, entry by entry.

    Inputs that arrived together carry one time, and a runner decides before it waits for more. So a decision is made
    again before anything that was decided, at the time of that, and between inputs of different times, where it must
    come to nothing.
    """

    __slots__ = ("_ahead", "_batch", "_decisions", "_inputs", "_seen", "effects", "got", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.effects: list[Effect] = []
        """What the last decisions would have begun."""
        self.got: Event | None = None
        """The decided event that was compared last; None where nothing was decided."""
        self._ahead: deque[Entry] = deque()
        self._decisions: Decisions | None = None
        self._inputs = 0
        self._batch: Entry | None = None
        """The entry before, where that came from outside."""
        self._seen = 0

    def step(self, entry: Entry) -> Difference | None:
        """Take the next entry; the first difference ends the walk."""
        self._seen += 1
        if entry.seq != self._seen:
            message = f"entry {entry.seq} follows entry {self._seen - 1}"
            return Difference(entry.seq, "", task_of(entry.event), "seq", entry.seq, self._seen, message)
        batch, self._batch, self.got = self._batch, None, None
        if not self._ahead:
            if is_input(self.state, entry.event):
                self._batch = entry
                return self._input(entry, batch)
            self._decide(entry.at)
            if not self._ahead:
                return differ(entry, None)
        got = self._ahead.popleft()
        self.got = got.event
        if got.event == entry.event or _stored(got.event) == entry.event:
            return differ(entry, got) if got.at != entry.at else None
        return differ(entry, got)

    def following(self) -> Event | None:
        """What is decided together with the event that was compared last, right after it."""
        return self._ahead[0].event if self._ahead else None

    def reason(self) -> str:
        """Why the attempt that was compared last ended at once; empty where it did not."""
        coming = self.following()
        return coming.outcome.message if isinstance(coming, AttemptEnded) else ""

    def _input(self, entry: Entry, batch: Entry | None) -> Difference | None:
        self._inputs += 1
        for at in self._between(batch, entry):
            self._decide(at)
            if self._ahead:
                return self._missing(entry.seq)
        return self._take(entry)

    def _between(self, batch: Entry | None, entry: Entry) -> Iterator[float]:
        """The times at which a runner that lived decided before an input, and found nothing to do."""
        taken_up = isinstance(entry.event, _TAKEN_UP)
        if batch is not None:
            stored_alone = isinstance(batch.event, _ALONE) or (taken_up and not isinstance(batch.event, _SEEN))
            if batch.at == entry.at or (stored_alone and not isinstance(entry.event, _SEEN)):
                return
            yield min(batch.at, entry.at)
        due = next_time(self.state, entry.at)
        if due is not None and due <= entry.at and not taken_up:
            yield entry.at

    def rest(self) -> Difference | None:
        """What should have followed the last entry. A runner that died leaves nothing decided and unwritten, but for
        the time between the first entry and the first decision."""
        self.got = None
        if self._batch is not None and not self._ahead and not isinstance(self._batch.event, _ALONE):
            self._decide(self._batch.at)
        return self._missing(self._seen + 1) if self._ahead else None

    def _missing(self, seq: int) -> Difference:
        self.got = self._ahead[0].event
        return missing(self._ahead[0], seq)

    def result(self, difference: Difference | None) -> Replayed:
        """The walk so far, with the difference that ended it."""
        decided = self._seen - self._inputs - (difference is not None and difference.seq <= self._seen)
        return Replayed(self._seen, decided, self._inputs, difference)

    def _take(self, entry: Entry) -> Difference | None:
        event = entry.event
        try:
            if isinstance(event, AttemptEnded):
                if self.state.tasks[self.state.index[event.task]].uncertain:
                    raise IllegalMove(f"task `{event.task}` was cut off and its attempt was not issued again")
                found = self._check_values(entry, event)
                if found is not None:
                    return found
            evolve(self.state, event, entry.at)
        except (IllegalMove, KeyError) as error:
            return self._impossible(entry, str(error))
        if event.__class__ is RunStarted:
            self._decisions = Decisions(self.state, place_of(self.state), self._decided)
        return None

    def _impossible(self, entry: Entry, why: str) -> Difference:
        """An input that cannot follow: something that was decided before it is not in the record."""
        task = task_of(entry.event)
        if task and task not in self.state.index:
            message = f"task `{task}` is not in the plan"
            return Difference(entry.seq, "", task, "task", task, None, message)
        self._decide(entry.at)
        if self._ahead:
            return self._missing(entry.seq)
        return differ(entry, None)._replace(message=why)

    def _decide(self, at: float) -> None:
        if self._decisions is not None and self.state.status == "running":
            self.effects = []
            self._decisions.settle(at, self.effects)

    def _decided(self, event: Event, at: float) -> None:
        evolve(self.state, event, at)
        self._ahead.append(Entry(0, at, event))

    def _check_values(self, entry: Entry, event: AttemptEnded) -> Difference | None:
        """Outputs that are declared by a value were worked out when the attempt ended, and are worked out again."""
        task = self.state.specs[self.state.index[event.task]]
        outcome = event.outcome
        declared = {output.name for output in task.outputs if output.value is not None}
        if not declared or outcome.failure:
            return None
        bare = {name: value for name, value in outcome.outputs.items() if name not in declared}
        again = with_values(self.state, event._replace(outcome=outcome._replace(outputs=bare)))
        if again.outcome.failure or again.outcome.outputs == outcome.outputs:
            return None  # a value may read an output of its own name, which the record has no more
        return differ(entry, Entry(entry.seq, entry.at, again))


_ALONE = (RunStarted, RunForked)
"""Entries with which a run is made, before anything is decided."""
_SEEN = (AttemptEnded, FactsObserved)
"""What only a runner that lives sees; between these it decides."""
_TAKEN_UP = (RunForked, RunReopened, RunResumed, RunRevised)
"""A runner takes up what another one left. Requests that came in between were stored without a decision."""


def place_of(state: State) -> Place:
    """Where the attempts of a recorded run were at home."""
    return Place(str(state.environment.get("directory") or "/"), "/")


def _stored(event: Event) -> Event:
    """The event as the journal gives it back: tuples in data are lists there."""
    return decode(*encode(event))
