"""Walk a recorded run again: inputs from outside are taken from the record, everything else is decided again and
compared. Nothing is started, no question is asked, no capability is loaded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planrunner.capabilities.contract import Call
from planrunner.engine.calls import Place, prepare, with_values
from planrunner.engine.containers import opened
from planrunner.engine.effects import Effect, StartCall
from planrunner.engine.loop import Decisions
from planrunner.frozen import EMPTY
from planrunner.journal.codec import decode, encode
from planrunner.machine.commands import Open, Start
from planrunner.machine.decide import next_time
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    Entry,
    Event,
    FactsObserved,
    FrameOpened,
    RunForked,
    RunReopened,
    RunResumed,
    RunRevised,
    RunStarted,
)
from planrunner.machine.evolve import evolve
from planrunner.machine.replay import (
    Difference,
    Replayed,
    differ,
    first_difference,
    is_input,
    kind_of,
    missing,
    plain,
    task_of,
)
from planrunner.machine.state import State
from planrunner.machine.statuses import IllegalMove
from planrunner.plan.model import Plan
from planrunner.source import NOWHERE

Json = Any


def replay(plan: Plan, run_id: str, entries: Sequence[Entry], plans: Mapping[str, Plan] = EMPTY) -> Replayed:
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

    A decision is made again before anything that was decided, at the time of that, and between inputs of different
    turns, where it must have no effect. In journals without turns, inputs that arrived together carry one time.
    """

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
                self._inputs += 1
                for at in self._between(batch, entry):
                    self._decide(at)
                    if self._ahead:
                        return self._missing(entry.seq)
                return self._take(entry)
            self._decide(entry.at)
            if not self._ahead:
                return differ(entry, None)
        got = self._ahead.popleft()
        self.got = got.event
        if got.event == entry.event or decode(*encode(got.event)) == entry.event:
            return differ(entry, got) if got.at != entry.at else None
        return differ(entry, got)

    def following(self) -> Event | None:
        """What is decided together with the event that was compared last, right after it."""
        return self._ahead[0].event if self._ahead else None

    def reason(self) -> str:
        """Why the attempt that was compared last ended at once; empty where it did not."""
        coming = self.following()
        return coming.outcome.message if isinstance(coming, AttemptEnded) else ""

    def _between(self, batch: Entry | None, entry: Entry) -> Iterator[float]:
        """The times at which a runner that lived decided before an input, and found nothing to do."""
        taken_up = isinstance(entry.event, _TAKEN_UP)
        if batch is not None:
            stored_alone = isinstance(batch.event, _ALONE) or (taken_up and not isinstance(batch.event, _SEEN))
            together = batch.shares_turn(entry)
            if together is None:
                together = batch.at == entry.at
            if together or (stored_alone and not isinstance(entry.event, _SEEN)):
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
                difference = self._check_values(entry, event)
                if difference is not None:
                    return difference
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


def replay_edited(pinned: Plan, edited: Plan, run_id: str, entries: Sequence[Entry], started: RunStarted) -> Replayed:
    """Walk a run of ``pinned`` with the plan ``edited``; ``started`` is the first event as it would be with that."""
    began = origin(run_id, entries)
    walk = _Comparison(State(pinned, began), Replay(State(edited, began)))
    for entry in entries:
        difference = walk.step(entry, started)
        if difference is not None:
            return walk.replay.result(difference)
    difference = walk.replay.rest()
    return walk.replay.result(difference and walk.explain(difference, None))


class _Comparison:
    """Two plans side by side: ``pinned`` follows the record, ``replay`` decides with the edited plan."""

    def __init__(self, pinned: State, replay: Replay) -> None:
        self.pinned = pinned
        self.replay = replay
        self._effects: list[Effect] = []
        self._calls: dict[tuple[str, int], Call] = {}

    def step(self, entry: Entry, started: RunStarted) -> Difference | None:
        first = isinstance(entry.event, RunStarted)
        difference = self.replay.step(entry._replace(event=started) if first else entry)
        if isinstance(entry.event, AttemptStarted) and (difference is None or difference.field == "inputs"):
            difference = self._compare_calls(entry, entry.event, difference)
        if difference is not None:
            return self.explain(difference, entry)
        evolve(self.pinned, entry.event, entry.at)
        return None

    def _compare_calls(self, entry: Entry, event: AttemptStarted, known: Difference | None) -> Difference | None:
        number = self.pinned.index[event.task]
        if number in self.pinned.containers:
            return known and self._compare_frames(known, number, event.attempt)
        start = Start(number, event.attempt, event.reissue, event.reserved)
        before = prepare(self.pinned, start, place_of(self.pinned))
        if self.replay.effects is not self._effects:
            self._effects = self.replay.effects
            calls = [effect.call for effect in self._effects if isinstance(effect, StartCall)]
            self._calls = {(call.task.id, call.attempt): call for call in calls}
        after = self._calls.get((event.task, event.attempt))
        if before.call is None or after is None:
            was = before.outcome.message if before.outcome is not None else None
            message = "the call can be rendered by one plan only"
            return known and known._replace(
                field="message", expected=was, got=self.replay.reason() or None, message=message
            )
        one, other = _asked(before.call), _asked(after)
        if one == other:
            return known
        field, expected, got = first_difference(one, other)
        message = f"attempt {event.attempt} of `{event.task}` would be called with another `{field}`"
        return Difference(entry.seq, kind_of(event), event.task, field, expected, got, message)

    def _compare_frames(self, known: Difference, number: int, attempt: int) -> Difference:
        """A task that holds others begins with other items, parameters or carried values."""
        before, after = opened(self.pinned, Open(number, attempt))[-1], self.replay.following()
        if not (isinstance(before, FrameOpened) and isinstance(after, FrameOpened)):
            reason = before.outcome.message if isinstance(before, AttemptEnded) else None
            return known._replace(field="message", expected=reason, got=self.replay.reason() or None)
        field, expected, got = first_difference(plain(before.values), plain(after.values))
        word = {"items": "items", "round": "carry", "subplan": "params"}[after.kind]
        where = f"{word}{field}" if field.startswith("[") or not field else f"{word}.{field}"
        message = f"`{known.task}` would begin with another `{where}`"
        return known._replace(field=where, expected=expected, got=got, message=message)

    def explain(self, difference: Difference, entry: Entry | None) -> Difference:
        """Say of a task that only one of the plans has that this is so."""
        got = self.replay.got
        new = "" if got is None else task_of(got)
        if got is not None and new and new not in self.pinned.index:
            what = "would start here" if isinstance(got, AttemptStarted) else f"is decided here ({kind_of(got)})"
            message = f"task `{new}` is new and {what}"
            return Difference(difference.seq, kind_of(got), new, "task", None, new, message)
        gone = "" if entry is None else task_of(entry.event)
        if gone and gone not in self.replay.state.index:
            message = f"task `{gone}` is not in the plan any more"
            return difference._replace(task=gone, field="task", expected=gone, got=None, message=message)
        return difference


def _asked(call: Call) -> Json:
    """Everything an attempt is told, as plain data under the names that plans use."""
    task = call.task
    templates = dict(task.script.values) if task.script is not None else {}
    return plain({
        "uses": task.uses,
        "with": dict(call.inputs),
        "run": task.run,
        "arguments": call.arguments,
        "values": {templates.get(name, name): value for name, value in call.values.items()},
        "env": dict(call.env),
        "cwd": call.directory,
        "stdin": call.stdin,
        "ready": call.ready,
        "shell": task.shell,
        "stdout": task.stdout,
        "timeout": call.timeout,
        "outputs": {output.name: output._replace(span=NOWHERE) for output in task.outputs},
        "artifacts": {artifact.name: artifact._replace(span=NOWHERE) for artifact in task.artifacts},
    })  # fmt: skip
