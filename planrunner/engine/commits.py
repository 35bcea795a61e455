"""Durable appends, at once or beside the loop: while one batch travels to the disk, the loop starts what the batch
before allowed and collects the next. What a batch holds counts, and what it allows begins, only when it is durable."""

from __future__ import annotations

import _thread
from collections.abc import Callable, Sequence
from typing import Protocol

from planrunner.machine.events import Entry

Append = Callable[[Sequence[Entry]], None]


class Commits(Protocol):
    """One batch at a time. ``finished`` raises what the append raised: StorageFailed, Fenced."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Write and return when it is durable."""
        ...

    def begin(self, entries: Sequence[Entry]) -> None:
        """Start to write; only after the batch before is finished."""
        ...

    def finished(self, wait: bool = False) -> bool:
        """Whether the batch that was begun is durable; with ``wait`` not before it is."""
        ...

    def close(self) -> None: ...


class DirectCommits:
    """Every batch is durable when ``begin`` returns: for journals in memory."""

    __slots__ = ("append",)

    def __init__(self, append: Append) -> None:
        self.append = append

    def begin(self, entries: Sequence[Entry]) -> None:
        self.append(entries)

    def finished(self, wait: bool = False) -> bool:
        return True

    def close(self) -> None:
        pass


class ThreadedCommits:
    """Writes in one thread of its own, started with the first batch that has something to overlap with.

    ``wake`` is called from that thread when a batch is done. ``threading`` is not imported: two locks are all it takes.
    """

    __slots__ = ("_append", "_batch", "_done", "_error", "_go", "_running", "_wake")

    def __init__(self, append: Append, wake: Callable[[], None]) -> None:
        self._append = append
        self._wake = wake
        self._go = _thread.allocate_lock()
        self._done = _thread.allocate_lock()
        self._batch: Sequence[Entry] | None = None
        self._error: BaseException | None = None
        self._running = False

    def append(self, entries: Sequence[Entry]) -> None:
        self._append(entries)

    def begin(self, entries: Sequence[Entry]) -> None:
        self._batch = entries
        self._done.acquire()
        if not self._running:
            self._running = True
            self._go.acquire()
            _thread.start_new_thread(self._work, ())
        self._go.release()

    def finished(self, wait: bool = False) -> bool:
        if not self._done.acquire(blocking=wait):
            return False
        self._done.release()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return True

    def close(self) -> None:
        if self._running:
            self._done.acquire()
            self._done.release()
            self._batch = None
            self._running = False
            self._go.release()

    def _work(self) -> None:
        while True:
            self._go.acquire()
            batch = self._batch
            if batch is None:
                return
            try:
                self._append(batch)
            except BaseException as error:  # handed to the loop, which raises it
                self._error = error
            self._done.release()
            self._wake()
