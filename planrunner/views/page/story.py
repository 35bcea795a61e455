"""The story of a run for its page: the fold of its entries, with the moments that the scrubber shows, the pieces of the
timeline and the curve of what was spent.

A place is the path of a task without rounds and visits (``polish/draft`` for ``polish#2/draft``): the page shows one
row for each. A story grows with every entry, so that a live page never folds a history twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

from planrunner.escapes import harmless
from planrunner.machine.compensation import undone_containers
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    DoubtSettled,
    Entry,
    Event,
    FailureResolved,
    FrameClosing,
    FrameOpened,
    GateDecided,
    GateExamined,
    GateOpened,
    GateVoted,
    Outcome,
    ResetPlanned,
    RetryScheduled,
    RollbackEnded,
    RunEnded,
    RunForked,
    RunParked,
    RunReopened,
    RunResumed,
    RunRevised,
    RunStarted,
    StopRequested,
    TaskDelayed,
    TaskSettled,
    TasksReset,
    UndoEnded,
    UndoSettled,
    UndoStarted,
)
from planrunner.machine.evolve import evolve
from planrunner.machine.ledger import PLAN, amount
from planrunner.machine.names import labelled, owners
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED
from planrunner.plan.model import Plan
from planrunner.records import Struct
from planrunner.statuses import status_word
from planrunner.views.events import ROWS, Telling
from planrunner.views.page.figures import duration
from planrunner.views.status import shown_status
from planrunner.views.terminal import cut

Json = Any

CALM = frozenset({"completed", "pending", "omitted", "skipped"})
"""Statuses of which nothing is to be said."""
WORST = {"failed": 0, "in_doubt": 1, "blocked": 2, "running": 3, "retrying": 4}
"""The order of statuses that people look for first; all others come after these."""

LONGEST = 160
"""Characters of a sentence."""

Made = TypeVar("Made")

_MARKS = re.compile(r"[#@]\d+")
_EVERY = frozenset({RunStarted, RunForked, RunRevised, RunReopened})
"""After these any task may stand otherwise."""
_RESTING = frozenset({RunParked, RunResumed, RunEnded})
"""After these tasks that were under way stand otherwise."""
_REACHING = frozenset({TasksReset, ResetPlanned, DoubtSettled, FailureResolved, FrameClosing, UndoSettled})
"""After these what holds the task may stand otherwise too."""
_SPENDING = frozenset({AttemptStarted, AttemptEnded, UndoEnded, GateExamined})
"""With these something may be spent."""
_UNDOING = frozenset({UndoSettled, RollbackEnded})
"""With these a task that holds others may have become one of which everything is undone."""
_LOUD = frozenset({RetryScheduled, GateOpened, GateVoted, TasksReset, RunParked, RunResumed, RunRevised, StopRequested})
"""Events that people ask for."""
_WIDE = _EVERY | _RESTING | _REACHING | _UNDOING | {FrameOpened}
"""All others concern the tasks that they name alone."""


class Spent(NamedTuple):
    """What a run had used: dollars, tokens, calls of models and attempts."""

    cost: float = 0.0
    tokens: float = 0
    calls: float = 0
    attempts: int = 0


class Moment(Struct):
    """One step of the scrubber: an entry that changed or says something. ``at`` is seconds since 1970, ``changes`` are
    the places that stand otherwise, with their status. ``text`` and ``tone`` (the colour of its tick, empty for an
    ordinary one) are there once the moment was ``told``."""

    seq: int
    at: float
    event: Event
    changes: dict[str, str]
    spent: Spent
    text: str = ""
    tone: str = ""


class Piece:
    """A part of the row of a task: an ``attempt``, a ``wait`` before the next one, a ``gate`` that waits for people, an
    ``undo``, or the ``span`` of a task that holds others. Times are seconds since 1970; ``ended`` is None while it goes
    on. ``seq`` and ``until`` are the entries that began and ended it."""

    __slots__ = ("began", "ended", "kind", "note", "number", "outcome", "seq", "status", "task", "until")

    def __init__(self, kind: str, task: str, number: int, entry: Entry) -> None:
        self.kind, self.task, self.number = kind, task, number
        self.began, self.seq = entry.at, entry.seq
        self.ended: float | None = None
        self.until = 0
        self.status = ""
        self.note = ""
        self.outcome: Outcome | None = None
        """Of an attempt or an undo that has ended."""

    def end(self, status: str, at: float, seq: int) -> None:
        """End it, unless it has ended."""
        if self.ended is None:
            self.ended, self.until, self.status = at, seq, status

    def lasted(self, now: float) -> float:
        """Its seconds so far."""
        return max(0.0, (now if self.ended is None else self.ended) - self.began)


def end_text(piece: Piece) -> str:
    """How an attempt, an undo or a gate ended, as the verb of a sentence."""
    words = {"in_doubt": "was cut off", "rolled_back": "completed", "cancelled": "was cancelled", "": "ended"}
    return words.get(piece.status) or status_word(piece.status).replace("_", " ")


def sentence(state: State, event: Event, at: float) -> tuple[str, str]:
    """What an event at that time says, and the tone of its tick; both empty for one that only the machine needs. The
    state may be ahead of it."""
    row = ROWS.get(type(event))
    told = Telling(state, event, at, duration)
    text = "" if row is None else row.text(told)
    if row is None or not text:
        return "", ""
    tone = row.tone if isinstance(row.tone, str) else row.tone(told)
    return cut(harmless(labelled(state, text)), LONGEST), tone


def place_of(path: str) -> str:
    """The path of a task without rounds and visits."""
    return _MARKS.sub("", path) if "#" in path or "@" in path else path


def owner_of(place: str) -> str:
    """The place that holds another: ``build`` of ``build[3]`` and of ``build/pack``; empty for a task of the plan."""
    if place.endswith("]"):
        return place[: place.rindex("[")]
    return place.rpartition("/")[0]


def with_owners(places: Iterable[str]) -> set[str]:
    """Places with all that hold them."""
    every: set[str] = set()
    for place in places:
        while place and place not in every:
            every.add(place)
            place = owner_of(place)
    return every


class Story:
    """A run up to its last entry. ``moments`` are in the order of the entries, ``pieces`` by the path of a task,
    ``statuses`` by place; ``seq`` is the number of the last entry."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.moments: list[Moment] = []
        self.loud: list[int] = []
        """The moments that people ask for, by their place among all."""
        self.pieces: dict[str, list[Piece]] = {}
        self.statuses: dict[str, str] = {}
        self.rests: list[tuple[float, float | None]] = []
        """When no process acted on the run: from the pause on, to the resume (None: still)."""
        self.spending: list[tuple[float, Spent]] = []
        self.backs: dict[tuple[str, str], tuple[int, int]] = {}
        """How often a task sent the run back to another, and the entry of the last time; both by place."""
        self.places: list[str] = []
        """The place of each task by its number."""
        self.numbers: dict[str, list[int]] = {}
        """The tasks of each place, the oldest first."""
        self.changed: dict[str, int] = {}
        """The entry with which a place began to stand as it does."""
        self.seq = 0
        self.began = self.last = 0.0
        self._attempts = 0
        self._spent = Spent()
        self._open: dict[str, Piece] = {}
        self._lively: dict[str, None] = {}
        self._memo: dict[str, Any] = {}
        self._plan: tuple[object, object] = (None, None)

    def take(self, entries: Iterable[Entry]) -> Story:
        """Fold further entries; gives the story itself."""
        for entry in entries:
            self._take(entry)
        return self

    def _take(self, entry: Entry) -> None:
        event = entry.event
        kind = type(event)
        if not self.seq:
            self.began = entry.at
        evolve(self.state, event, entry.at)
        piece = _PIECES.get(kind)
        if piece is not None:
            piece(self, event, entry)
        if kind in _SPENDING:
            self._spend(entry)
        self.seq, self.last = entry.seq, max(self.last, entry.at)
        self._number(kind)
        changes = self._changes(event)
        if changes or kind in ROWS:
            if kind in _LOUD or "failed" in changes.values():
                self.loud.append(len(self.moments))
            self.moments.append(Moment(entry.seq, entry.at, event, changes, self._spent))
        self._memo.clear()

    def _number(self, kind: type) -> None:
        """Know the places of tasks that there were not before."""
        specs = self.state.specs
        if kind in _EVERY:
            self.places, self.numbers = [], {}
        for number in range(len(self.places), len(specs)):
            place = place_of(specs[number].id)
            self.places.append(place)
            self.numbers.setdefault(place, []).append(number)

    def pieces_of(self, numbers: Iterable[int]) -> list[Piece]:
        """The pieces of some tasks in the order in which they began."""
        paths = [self.state.specs[number].id for number in numbers]
        return sorted((piece for path in paths for piece in self.pieces.get(path, ())), key=lambda piece: piece.began)

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """What ``make`` gives, kept under a name until the next entry."""
        if name not in self._memo:
            self._memo[name] = make()
        made: Made = self._memo[name]
        return made

    def of_plan(self, make: Callable[[Plan], Made]) -> Made:
        """What ``make`` gives of the plan, kept until a revision brings another one."""
        if self._plan[0] is not self.state.plan:
            self._plan = self.state.plan, make(self.state.plan)
        return cast("Made", self._plan[1])

    def told(self, moments: Iterable[Moment]) -> Iterator[Moment]:
        """Moments with their sentences; those that neither say nor change anything are left out."""
        for moment in moments:
            text, tone = sentence(self.state, moment.event, moment.at)
            if text or moment.changes:
                yield moment._replace(text=text, tone=tone)

    def status_at(self, seq: int) -> dict[str, str]:
        """The statuses of places after the entry of that number; places that had not begun are left out."""
        statuses: dict[str, str] = {}
        for moment in self.moments:
            if moment.seq > seq:
                break
            statuses.update(moment.changes)
        return statuses

    def refresh(self) -> None:
        """See again how tasks under way stand, after the state was said to rest: no process acts on the run."""
        for path in list(self._lively):
            if path in self.state.index:
                self.statuses[place_of(path)] = self._status(self.state.index[path])
        if self.state.reason == "cut off":
            self._cut_off(self.seq)
        self._memo.clear()

    def _cut_off(self, seq: int) -> None:
        """Attempts that go on ended with their process, after its last entry."""
        for task in [task for task, piece in self._open.items() if piece.kind == "attempt"]:
            self._open.pop(task).end("in_doubt", self.last, seq)

    def _changes(self, event: Event) -> dict[str, str]:
        changes: dict[str, str] = {}
        for path, status in self._statuses(event):
            place = place_of(path)
            if self.statuses.get(place, "pending") != status:
                self.statuses[place] = changes[place] = status
                self.changed[place] = self.seq
            if status in SETTLED or status == "pending":
                self._lively.pop(path, None)
            else:
                self._lively[path] = None
        return changes

    def _statuses(self, event: Event) -> Iterable[tuple[str, str]]:
        """The tasks that an event may concern, with how they stand."""
        state = self.state
        task = getattr(event, "task", "")
        named = (task,) if task else getattr(event, "tasks", ())
        numbers: Iterable[int] = [state.index[name] for name in named if name in state.index]
        if type(event) in _WIDE:
            return self._reached(event, numbers)
        return [(state.specs[number].id, self._status(number)) for number in numbers]

    def _reached(self, event: Event, numbers: Iterable[int]) -> Iterator[tuple[str, str]]:
        state, kind = self.state, type(event)
        if kind in _EVERY:
            numbers = range(len(state.specs))
        elif kind in _RESTING:
            numbers = [state.index[path] for path in self._lively if path in state.index]
        elif kind in _REACHING:
            numbers = [number for at in numbers for number in (*owners(state, at), at)]
        elif isinstance(event, FrameOpened):
            frame = state.tasks[state.index[event.task]].inner
            numbers = [*numbers, *(() if frame is None else range(frame.first, frame.first + frame.size))]
        undone = undone_containers(state) if kind in _UNDOING else set()
        for number in (*numbers, *(undone if kind is RollbackEnded else ())):
            yield state.specs[number].id, "rolled_back" if number in undone else self._status(number)

    def _status(self, number: int) -> str:
        status = shown_status(self.state, number)
        return "retrying" if status == "pending" and self.state.tasks[number].reason == "retry" else status

    def _spend(self, entry: Entry) -> None:
        if isinstance(entry.event, AttemptStarted) and self.state.index[entry.event.task] not in self.state.containers:
            self._attempts += 1
        ledger = self.state.ledger
        spent = ledger.accounts[PLAN].spent if ledger is not None and PLAN in ledger.accounts else {}
        cost, tokens, calls = (amount(what, spent.get(what, 0)) for what in ("cost", "tokens", "calls"))
        now = Spent(cost, tokens, int(calls), self._attempts)
        if now != self._spent:
            self._spent = now
            self.spending.append((entry.at, now))

    def _attempt_started(self, event: AttemptStarted, entry: Entry) -> None:
        self._close(event.task, "", entry)
        kind = "span" if self.state.index[event.task] in self.state.containers else "attempt"
        self._begin(Piece(kind, event.task, event.attempt, entry))

    def _attempt_ended(self, event: AttemptEnded, entry: Entry) -> None:
        piece = self._open.get(event.task)
        if piece is not None and piece.kind == "attempt":
            piece.outcome = event.outcome
            piece.note = event.outcome.message if event.outcome.failure else ""
            ends = {"": "completed", "cancelled": "cancelled", "interrupted": "cancelled"}
            self._close(event.task, ends.get(event.outcome.failure, "failed"), entry)

    def _waits(self, event: RetryScheduled | TaskDelayed, entry: Entry) -> None:
        if isinstance(event, RetryScheduled):
            self._judge(event.task, "failed")
        self._close(event.task, "", entry)
        self._begin(Piece("wait", event.task, getattr(event, "attempt", 0), entry))

    def _settled(self, event: TaskSettled, entry: Entry) -> None:
        if event.status in SETTLED:
            self._judge(event.task, event.status)
            self._close(event.task, event.status, entry)

    def _reset(self, event: TasksReset, entry: Entry) -> None:
        for task in event.tasks:
            self._close(task, "cancelled", entry)
        if event.cause and event.tasks:
            way = place_of(event.cause), place_of(event.tasks[0])
            self.backs[way] = (self.backs.get(way, (0, 0))[0] + 1, entry.seq)

    def _parked(self, event: RunParked, entry: Entry) -> None:
        self.rests.append((entry.at, None))

    def _resumed(self, event: RunResumed, entry: Entry) -> None:
        self._cut_off(entry.seq)
        if self.rests and self.rests[-1][1] is None:
            self.rests[-1] = (self.rests[-1][0], entry.at)
        elif event.idle:
            self.rests.append((max(self.began, entry.at - event.idle), entry.at))

    def _ended(self, event: RunEnded, entry: Entry) -> None:
        for task in list(self._open):
            self._close(task, event.status, entry)

    def _begin(self, piece: Piece) -> None:
        self._open[piece.task] = piece
        self.pieces.setdefault(piece.task, []).append(piece)

    def _close(self, task: str, status: str, entry: Entry) -> None:
        piece = self._open.pop(task, None)
        if piece is not None:
            piece.end(status, entry.at, entry.seq)

    def _judge(self, task: str, status: str) -> None:
        """The last attempt of a task that ended by itself counts as its criteria say: it did not hold them, or was
        allowed to end as it did."""
        counts = {("completed", "failed"): "failed", ("failed", "completed"): "completed"}
        for piece in reversed(self.pieces.get(task, ())):
            if piece.kind == "attempt":
                piece.status = counts.get((piece.status, status), piece.status)
                return


_PIECES: dict[type, Callable[[Story, Any, Entry], None]] = {
    AttemptStarted: Story._attempt_started,
    AttemptEnded: Story._attempt_ended,
    RetryScheduled: Story._waits,
    TaskDelayed: Story._waits,
    GateOpened: lambda story, event, entry: story._begin(Piece("gate", event.task, event.visit, entry)),
    GateDecided: lambda story, event, entry: story._close(event.task, event.decision, entry),
    UndoStarted: lambda story, event, entry: story._begin(Piece("undo", event.task, event.attempt, entry)),
    UndoEnded: lambda story, event, entry: story._close(
        event.task, "failed" if event.outcome.failure else "rolled_back", entry
    ),
    TaskSettled: Story._settled,
    TasksReset: Story._reset,
    RunParked: Story._parked,
    RunResumed: Story._resumed,
    RunEnded: Story._ended,
}
"""What an event means for the pieces of the timeline."""
