"""Follows the runs of a state directory: one thread waits for new entries and tells those who wait for them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from planrunner.app.follow.summaries import Summaries
from planrunner.errors import NotFound, PlanrunnerError
from planrunner.journal import stores
from planrunner.journal.ports import Journal
from planrunner.journal.stores import open_journal
from planrunner.machine.events import Entry

POLL = 0.05
"""Seconds between two looks at whether anything was written."""

LEASES = 0.5
"""Seconds between two looks at leases: the death of a process writes nothing."""

REST = 9.0
"""How much longer than it works the follower rests after it: it takes a tenth of a core at most."""

FIRST = 50
"""Runs that have ended whose summaries are made before a list asks for them, the newest ones."""

PIECE = 256
"""Entries that ``read`` gives at once."""

Told = Callable[[frozenset[str]], None]
Wake = Callable[[], object]
"""Wakes a caller that waits; any thread may call it."""


class Follower:
    """Follows all runs of a state directory from ``start`` until ``close``; ``summaries`` are up to date meanwhile.

    Readers of entries are told that a run goes on (``beyond``) and read them themselves (``read``), at their own
    pace: nothing is queued for them and nothing is lost. A directory without a journal has no runs until it gets one.
    """

    def __init__(self, state: str) -> None:
        self.state = state
        self.summaries = Summaries(self.journal)
        self.problem = ""
        """Why the journal cannot be read at this time; empty while it can."""
        self._own = threading.local()
        self._identity: tuple[int, int] | None = None
        """Of the file that the summaries are of."""
        self._lock = threading.Lock()
        self._waiters: dict[str, set[Wake]] = {}
        self._listeners: list[Told] = []
        self._stop = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="planrunner-follow", daemon=True)

    def start(self) -> None:
        """Begin to follow; on return all runs there are stand in the summaries."""
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """Stop following, and wake all who wait."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._wake(frozenset(self._waiters))

    def __enter__(self) -> Follower:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, run: str, after: int = 0, limit: int = PIECE) -> list[Entry]:
        """The next entries of a run, ``limit`` of them at most; any thread may ask. Raises what the journal raises."""
        return list(islice(self.journal().entries(run, after), limit))

    def listen(self, told: Told) -> None:
        """Have ``told`` called with the runs that have changed, in the thread that follows, after each look."""
        self._listeners.append(told)

    async def beyond(self, run: str, after: int) -> bool:
        """Wait until a run has an entry after ``after``; False once nothing is followed any more."""
        return await self._until(run, lambda: self.summaries.last_seq(run) > after)

    async def changed(self, version: int) -> bool:
        """Wait until the summaries have another ``version``; False once nothing is followed any more."""
        return await self._until("", lambda: self.summaries.version != version)

    def wait(self, version: int, timeout: float) -> bool:
        """``changed`` for a thread: False as well when ``timeout`` seconds have passed."""
        event = threading.Event()
        with self._waiting("", event.set):
            return self.summaries.version != version or (event.wait(timeout) and not self._stop.is_set())

    async def _until(self, run: str, come: Callable[[], bool]) -> bool:
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        with self._waiting(run, lambda: loop.call_soon_threadsafe(event.set)):
            while not come():
                if self._stop.is_set():
                    return False
                await event.wait()
                event.clear()
        return True

    @contextmanager
    def _waiting(self, run: str, wake: Wake) -> Iterator[None]:
        with self._lock:
            self._waiters.setdefault(run, set()).add(wake)
        try:
            yield
        finally:
            with self._lock:
                waiters = self._waiters[run]
                waiters.discard(wake)
                if not waiters:
                    del self._waiters[run]

    def _wake(self, runs: frozenset[str]) -> None:
        with self._lock:
            woken = [wake for run in (*runs, "") for wake in self._waiters.get(run, ())]
        for wake in woken:
            with suppress(RuntimeError):  # the loop of the one who waits has ended
                wake()

    def journal(self) -> Journal:
        """The journal, open for reading in this thread; opened again where its file was replaced. Raises NotFound while
        there is none, StorageFailed."""
        identity = stores.identity(self.state)
        if getattr(self._own, "identity", None) != identity or identity is None:
            if getattr(self._own, "journal", None) is not None:
                self._own.journal.close()
            self._own.identity, self._own.journal = None, None
            self._own.journal = open_journal(self.state, readonly=True)
            self._own.identity = identity
        journal: Journal = self._own.journal
        return journal

    def _follow(self) -> None:
        looked = 0.0
        while not self._stop.is_set():
            began = time.monotonic()
            if began - looked >= LEASES:
                looked = began
            changed = self._tried(looked == began)
            if not self._ready.is_set():
                self._ready.set()
                self._fold_newest()
            if changed:
                self._tell(changed)
                self._fold(changed)
            self._stop.wait(max(POLL, REST * (time.monotonic() - began)))

    def _tried(self, leases: bool) -> frozenset[str]:
        """What has changed since the last look; nothing where the journal cannot be read, as ``problem`` says."""
        try:
            changed = self._look(leases)
            self.problem = ""
            return changed
        except NotFound:
            self.problem = ""  # there are no runs yet, or not any more
            return self.summaries.clear()
        except PlanrunnerError as error:
            self.problem = str(error)
            return frozenset()

    def _look(self, leases: bool) -> frozenset[str]:
        journal = self.journal()
        changed: frozenset[str] = frozenset()
        if self._own.identity != self._identity:
            changed = self.summaries.clear()
            self._identity = self._own.identity
        if journal.touched():
            changed |= self.summaries.refresh(journal)
        if changed or leases:
            changed |= self.summaries.lease(journal.leased())
        return changed

    def _fold_newest(self) -> None:
        """Fold the runs that a list shows first, also those that have ended."""
        for head in self.summaries.heads()[: -FIRST - 1 : -1]:
            if self._stop.is_set():
                return
            with suppress(PlanrunnerError):  # it was removed, or the next look says why
                self.summaries.one(head.run)

    def _fold(self, changed: frozenset[str]) -> None:
        """Fold what is going on, a piece at a time: a caller that asks meanwhile waits for one of them."""
        for run in changed:
            with suppress(PlanrunnerError):  # the next look says why
                while not self._stop.is_set() and self.summaries.fold(run, PIECE):
                    continue

    def _tell(self, changed: frozenset[str]) -> None:
        for told in self._listeners:
            told(changed)
        self._wake(changed)
