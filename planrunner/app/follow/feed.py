"""Hands every entry of every run to readers that must not miss one: measures, telemetry, notices.

Each entry is folded once for all readers. A reader that cannot deliver (its receiver is away) falls back to its durable
position and is fed from there again later; no run waits for it, and other readers for one try at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from planrunner.app.follow.folds import StateCache
from planrunner.app.follow.follower import Follower
from planrunner.app.follow.positions import Positions, moving
from planrunner.app.history.state import begun, fold_with
from planrunner.errors import NotFound, PlanrunnerError
from planrunner.journal.records import Head
from planrunner.machine.events import Entry
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.machine.statuses import IllegalMove
from planrunner.records import Struct

Json = Any

BATCH = 512
"""Entries after which readers deliver and positions are moved."""
FOLDED = 100_000
"""Tasks of all states together that stay folded."""
AGAIN = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds until a reader that could not deliver tries again, the last one for all further tries."""
LOOK = 1.0
"""Seconds between two rounds: what happens meanwhile is delivered together."""


class Seen(Struct):
    """An entry with the state of its run after it. ``fresh`` is False for one that the reader has dealt with before: it
    only brings the memory of the reader up to date."""

    head: Head
    state: State
    entry: Entry
    fresh: bool


class Reader(Protocol):
    """What is fed. ``name`` is that of its positions. At its first time it is given the runs that began in the last
    ``history`` seconds (None: all there are), and what comes from then on."""

    name: str
    history: float | None

    def restore(self, kept: Json) -> None:
        """Go back to what was kept with the positions; None at the first time."""

    def see(self, seen: Seen) -> None:
        """Take up an entry."""

    def deliver(self) -> Json:
        """Deliver what was taken up since the last time, and give what is kept with the positions (not None). Raises
        ``Undelivered`` where that did not succeed."""


class Undelivered(Exception):
    """A receiver is away or refuses. ``str`` says why."""


class _ReaderState:
    """A reader with its positions."""

    __slots__ = ("is_due", "is_fed", "moved", "positions", "problem", "reader", "retry_at", "tries")

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.positions: dict[str, int] = {}
        self.moved: dict[str, int] = {}
        self.problem = ""
        self.tries = 0
        self.retry_at = 0.0
        self.is_due = True
        """It is to be given all runs: it begins."""
        self.is_fed = True
        """It takes part in this round: it does not wait for its next try."""

    def at(self, run: str) -> int:
        """The last entry of a run that it was given."""
        return self.moved.get(run) or self.positions.get(run, 0)


class Feed:
    """Feeds readers with the runs of a state directory, in a thread of its own from ``start`` until ``close``.

    Of several processes that feed the readers of one directory one is at work, the others wait for it to end. With
    ``run`` a reader is given that run at its first time, whatever its ``history`` says.
    """

    def __init__(self, follower: Follower, readers: Sequence[Reader], run: str = "") -> None:
        self._follower = follower
        self._run_alone = run
        self._fed = [_ReaderState(reader) for reader in readers]
        self._held = StateCache(FOLDED)
        self._skipped: dict[str, int] = {}
        self._only = moving(follower.state)
        self._positions: Positions | None = None
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._woken = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="planrunner-feed", daemon=True)
        follower.listen(self._note)

    def start(self) -> None:
        """Begin to feed."""
        self._thread.start()

    def close(self) -> None:
        """Stop, after what is known by then was delivered once more."""
        self._stop.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def problems(self) -> dict[str, str]:
        """Why readers cannot deliver, by their names."""
        return {fed.reader.name: fed.problem for fed in self._fed if fed.problem}

    @property
    def is_at_work(self) -> bool:
        """Whether this process is the one that feeds."""
        return self._positions is not None

    def once(self) -> bool:
        """Feed everything that is known to the readers that can deliver; False where another process feeds them, or a
        reader could not deliver. Raises what the journal and the positions raise. For callers without ``start``."""
        try:
            if not self._is_first():
                return False
            self._round()
            return not self.problems
        finally:
            self._end()

    def _note(self, runs: frozenset[str]) -> None:
        with self._lock:
            self._changed |= runs
        self._woken.set()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._woken.clear()
                self._tried()
                self._stop.wait(LOOK)
                self._woken.wait(self._patience())
            self._tried()
        finally:
            self._end()

    def _tried(self) -> None:
        try:
            if self._is_first():
                self._round()
        except PlanrunnerError as error:
            for fed in self._fed:
                fed.problem = str(error)

    def _end(self) -> None:
        if self._positions is not None:
            self._positions.close()
            self._positions = None
        self._only.release()

    def _patience(self) -> float | None:
        """Seconds to wait for a change: until a reader tries again, or this process may have become the first."""
        if self._positions is None:
            return LOOK
        waits = [fed.retry_at - time.monotonic() for fed in self._fed if fed.tries]
        return max(0.0, min(waits)) if waits else None

    def _is_first(self) -> bool:
        """Whether this process feeds; it opens the positions when it becomes the one. A directory without a journal
        has none yet."""
        if self._positions is not None:
            return True
        if not self._follower.summaries.newest or not self._only.take():
            return False
        self._positions = Positions(self._follower.state)
        for fed in self._fed:
            self._begin(fed, self._positions)
        return True

    def _begin(self, fed: _ReaderState, positions: Positions) -> None:
        fed.is_due = True
        fed.positions, kept = positions.read(fed.reader.name)
        fed.reader.restore(kept)
        heads = self._follower.summaries.heads()
        gone = fed.positions.keys() - {head.run for head in heads}
        if gone:
            positions.forget(gone)
        if kept is None and (self._run_alone or fed.reader.history is not None):
            oldest = time.time() - (fed.reader.history or 0.0)
            earlier = [
                head for head in heads if (head.run != self._run_alone if self._run_alone else head.created < oldest)
            ]
            fed.positions = {head.run: head.last_seq for head in earlier}
            positions.move(fed.reader.name, fed.positions, fed.reader.deliver())

    def _round(self) -> None:
        """All runs where a reader begins or tries again, else those that have changed."""
        now = time.monotonic()
        again = [fed for fed in self._fed if fed.is_due or (fed.tries and now >= fed.retry_at)]
        with self._lock:
            changed, self._changed = self._changed, set()
        for fed in self._fed:
            fed.is_fed = not fed.tries or fed in again
            fed.is_due = False
        heads = self._follower.summaries.heads() if again else tuple(self._follower.summaries.some(changed))
        count = 0
        for head in heads:
            for entries in self._fed_with(head):
                count += entries
                if count >= BATCH:
                    self._deliver()
                    count = 0
        self._deliver()

    def _fed_with(self, head: Head) -> Iterator[int]:
        """Feed the new entries of a run; gives how many, piece by piece. One that was removed has none, and one that
        cannot be read or folded is left alone until it goes on: lists say why."""
        wanting = [fed for fed in self._fed if fed.is_fed and fed.at(head.run) < head.last_seq]
        if not wanting or self._skipped.get(head.run, 0) >= head.last_seq:
            return
        try:
            yield from self._pieces(head, wanting)
        except NotFound:
            return
        except (PlanrunnerError, IllegalMove):
            self._skipped[head.run] = head.last_seq

    def _pieces(self, head: Head, wanting: list[_ReaderState]) -> Iterator[int]:
        at, state = self._state(head, {fed.at(head.run) for fed in wanting})
        while at < head.last_seq:
            entries = [entry for entry in self._follower.read(head.run, at) if entry.seq <= head.last_seq]
            if not entries:
                return
            wanting = [fed for fed in wanting if fed.is_fed]  # one of them may have failed to deliver
            for entry in entries:
                evolve(state, entry.event, entry.at)
                for fed in wanting:
                    fed.reader.see(Seen(head, state, entry, entry.seq > fed.at(head.run)))
            at = entries[-1].seq
            for fed in wanting:
                fed.moved[head.run] = max(at, fed.at(head.run))
            yield len(entries)
        if not head.status:
            self._held.hold(head.run, at, state)

    def _state(self, head: Head, positions: set[int]) -> tuple[int, State]:
        """The state of a run at the position at which all readers are, else from its start."""
        known = self._held.take(head.run)
        if known is not None and positions == {known[0]}:
            fold_with(known[1], self._follower.journal())
            return known
        return 0, begun(self._follower.journal(), head.run)

    def _deliver(self) -> None:
        assert self._positions is not None
        for fed in self._fed:
            if not fed.is_fed or not fed.moved:
                continue
            try:
                self._positions.move(fed.reader.name, fed.moved, fed.reader.deliver())
            except Undelivered as error:
                self._fall_back(fed, self._positions, str(error))
                continue
            fed.positions |= fed.moved
            fed.moved.clear()
            fed.problem, fed.tries = "", 0

    def _fall_back(self, fed: _ReaderState, positions: Positions, why: str) -> None:
        """Let a reader that could not deliver start again from its positions, after a while."""
        fed.problem = why
        fed.retry_at = time.monotonic() + AGAIN[min(fed.tries, len(AGAIN) - 1)]
        fed.tries += 1
        fed.is_fed = False
        fed.moved.clear()
        fed.reader.restore(positions.read(fed.reader.name)[1])
