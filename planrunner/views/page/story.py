"""The story of a run for its page: the fold of its entries, with the moments that the scrubber shows, the pieces of the
timeline and the curve of what was spent.

A place is the path of a task without rounds and visits (``polish/draft`` for ``polish#2/draft``): the page shows one
row for each. A story grows with every entry, so that a live page never folds a history twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

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
    TaskDelayed,
    TaskSettled,
    TasksReset,
    UndoEnded,
    UndoSettled,
    UndoStarted,
)
from planrunner.machine.evolve import evolve
from planrunner.machine.ledger import PLAN, amount
from planrunner.machine.names import owners
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED
from planrunner.views.page.sentences import TOLD, sentence
from planrunner.views.status import shown_status

Json = Any

CALM = frozenset({"completed", "pending", "omitted", "skipped"})
"""Statuses of which nothing is to be said."""
WORST = {"failed": 0, "in_doubt": 1, "blocked": 2, "running": 3, "retrying": 4}
"""The order of statuses that people look for first; all others come after these."""

Made = TypeVar("Made")

_MARKS = re.compile(r"[#@]\d+")
_EVERY = (RunStarted, RunForked, RunRevised, RunReopened)
"""After these any task may stand otherwise."""
_RESTING = (RunParked, RunResumed, RunEnded)
"""After these tasks that were under way stand otherwise."""
_REACHING = (TasksReset, ResetPlanned, DoubtSettled, FailureResolved, FrameClosing, UndoSettled)
"""After these what holds the task may stand otherwise too."""
_SPENDING = (AttemptStarted, AttemptEnded, UndoEnded, GateExamined)
"""With these something may be spent."""
_UNDOING = (UndoSettled, RollbackEnded)
"""With these a task that holds others may have become one of which everything is undone."""


class Spent(NamedTuple):
    """What a run had used: dollars, tokens, calls of models and attempts."""

    cost: float = 0.0
    tokens: float = 0
    calls: float = 0
    attempts: int = 0


class Moment(NamedTuple):
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


_ENDS = {
    "completed": "succeeded",
    "rolled_back": "succeeded",
    "failed": "failed",
    "in_doubt": "was cut off",
    "cancelled": "was stopped",
}


def end_text(piece: Piece) -> str:
    """How an attempt or an undo ended, as the verb of a sentence; another status stands for itself."""
    return _ENDS.get(piece.status, piece.status.replace("_", " ") or "ended")


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
        self.pieces: dict[str, list[Piece]] = {}
        self.statuses: dict[str, str] = {}
        self.rests: list[tuple[float, float | None]] = []
        """When no process acted on the run: from the pause on, to the resume (None: still)."""
        self.spending: list[tuple[float, Spent]] = []
        self.backs: dict[tuple[str, str], tuple[int, int]] = {}
        """How often a task sent the run back to another, and the entry of the last time; both by place."""
        self.seq = 0
        self.began = self.last = 0.0
        self._attempts = 0
        self._spent = Spent()
        self._open: dict[str, Piece] = {}
        self._lively: dict[str, None] = {}
        self._memo: dict[str, Any] = {}

    def take(self, entries: Iterable[Entry]) -> Story:
        """Fold further entries; gives the story itself."""
        for entry in entries:
            self._take(entry)
        return self

    def _take(self, entry: Entry) -> None:
        if not self.seq:
            self.began = entry.at
        evolve(self.state, entry.event, entry.at)
        self._piece(entry)
        self._spend(entry)
        self._rest(entry)
        self.seq, self.last = entry.seq, max(self.last, entry.at)
        changes = self._changes(entry)
        if changes or type(entry.event) in TOLD:
            self.moments.append(Moment(entry.seq, entry.at, entry.event, changes, self._spent))
        self._memo.clear()

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
            self._close(task, "in_doubt", self.last, seq)

    def _changes(self, entry: Entry) -> dict[str, str]:
        changes: dict[str, str] = {}
        for path, status in self._statuses(entry):
            place = place_of(path)
            if self.statuses.get(place, "pending") != status:
                self.statuses[place] = changes[place] = status
            if status in SETTLED or status == "pending":
                self._lively.pop(path, None)
            else:
                self._lively[path] = None
        return changes

    def _statuses(self, entry: Entry) -> Iterator[tuple[str, str]]:
        """The tasks that an entry may concern, with how they stand."""
        state, event = self.state, entry.event
        if isinstance(event, _EVERY):
            numbers: Iterable[int] = range(len(state.specs))
        elif isinstance(event, _RESTING):
            numbers = [state.index[path] for path in self._lively if path in state.index]
        else:
            task = getattr(event, "task", "")
            named = (task,) if task else tuple(getattr(event, "tasks", ()))
            numbers = [state.index[name] for name in named if name in state.index]
            if isinstance(event, _REACHING):
                numbers = [number for at in numbers for number in (*owners(state, at), at)]
            if isinstance(event, FrameOpened):
                frame = state.tasks[state.index[event.task]].inner
                numbers += () if frame is None else range(frame.first, frame.first + frame.size)
        undone = undone_containers(state) if isinstance(event, _UNDOING) else set()
        numbers = [*numbers, *(undone if isinstance(event, RollbackEnded) else ())]
        for number in numbers:
            yield state.specs[number].id, "rolled_back" if number in undone else self._status(number)

    def _status(self, number: int) -> str:
        status = shown_status(self.state, number)
        return "retrying" if status == "pending" and self.state.tasks[number].reason == "retry" else status

    def _rest(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, RunParked):
            self.rests.append((entry.at, None))
        elif isinstance(event, RunResumed):
            if self.rests and self.rests[-1][1] is None:
                self.rests[-1] = (self.rests[-1][0], entry.at)
            elif event.idle:
                self.rests.append((max(self.began, entry.at - event.idle), entry.at))

    def _spend(self, entry: Entry) -> None:
        if not isinstance(entry.event, _SPENDING):
            return
        if isinstance(entry.event, AttemptStarted) and self.state.index[entry.event.task] not in self.state.containers:
            self._attempts += 1
        ledger = self.state.ledger
        spent = ledger.accounts[PLAN].spent if ledger is not None and PLAN in ledger.accounts else {}
        cost, tokens, calls = (amount(what, spent.get(what, 0)) for what in ("cost", "tokens", "calls"))
        now = Spent(cost, tokens, int(calls), self._attempts)
        if now != self._spent:
            self._spent = now
            self.spending.append((entry.at, now))

    def _piece(self, entry: Entry) -> None:
        event, at, seq = entry.event, entry.at, entry.seq
        if isinstance(event, AttemptStarted):
            self._close(event.task, "", at, seq)
            kind = "span" if self.state.index[event.task] in self.state.containers else "attempt"
            self._begin(Piece(kind, event.task, event.attempt, entry))
        elif isinstance(event, AttemptEnded):
            piece = self._open.get(event.task)
            if piece is not None and piece.kind == "attempt":
                piece.outcome = event.outcome
                piece.note = event.outcome.message if event.outcome.failure else ""
                ends = {"": "completed", "cancelled": "cancelled", "interrupted": "cancelled"}
                self._close(event.task, ends.get(event.outcome.failure, "failed"), at, seq)
        elif isinstance(event, (RetryScheduled, TaskDelayed)):
            self._judge(event.task, "failed") if isinstance(event, RetryScheduled) else None
            self._close(event.task, "", at, seq)
            self._begin(Piece("wait", event.task, getattr(event, "attempt", 0), entry))
        elif isinstance(event, GateOpened):
            self._begin(Piece("gate", event.task, event.visit, entry))
        elif isinstance(event, GateDecided):
            self._close(event.task, event.decision, at, seq)
        elif isinstance(event, UndoStarted):
            self._begin(Piece("undo", event.task, event.attempt, entry))
        elif isinstance(event, UndoEnded):
            self._close(event.task, "failed" if event.outcome.failure else "rolled_back", at, seq)
        elif isinstance(event, TaskSettled) and event.status in SETTLED:
            self._judge(event.task, event.status)
            self._close(event.task, event.status, at, seq)
        elif isinstance(event, TasksReset):
            for task in event.tasks:
                self._close(task, "cancelled", at, seq)
            if event.cause and event.tasks:
                way = place_of(event.cause), place_of(event.tasks[0])
                self.backs[way] = (self.backs.get(way, (0, 0))[0] + 1, seq)
        elif isinstance(event, RunResumed):
            self._cut_off(seq)
        elif isinstance(event, RunEnded):
            for task in list(self._open):
                self._close(task, event.status, at, seq)

    def _begin(self, piece: Piece) -> None:
        self._open[piece.task] = piece
        self.pieces.setdefault(piece.task, []).append(piece)

    def _close(self, task: str, status: str, at: float, seq: int) -> None:
        piece = self._open.pop(task, None)
        if piece is not None:
            piece.end(status, at, seq)

    def _judge(self, task: str, status: str) -> None:
        """The last attempt of a task that ended by itself counts as its criteria say: it did not hold them, or was
        allowed to end as it did."""
        counts = {("completed", "failed"): "failed", ("failed", "completed"): "completed"}
        for piece in reversed(self.pieces.get(task, ())):
            if piece.kind == "attempt":
                piece.status = counts.get((piece.status, status), piece.status)
                return
