"""The write-ahead log of the database as a file: room kept ready in it, and when it is moved into the database."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from planrunner.journal.database import BUSY_SECONDS, Connection, sqlite3

if TYPE_CHECKING:
    from planrunner.journal.locks import JournalLock


FULL = 64 << 20
"""Bytes from which the log is worth moving into the database while a run goes on."""

_WARM = 8
"""Commits between two looks at the file."""
_MANY = 128
"""Commits after which the log is written from its start again."""
_READERS_MS = 100
"""How long the one who moves the log waits for readers in the midst of a query."""

_BULK = 100
_SMALL = 256 << 10
_FIRST = 256 << 10
_MOST = 4 << 20


class WriteAheadLog:
    """Keeps zeros ready behind the end of the log, so that a commit overwrites blocks instead of growing the file.

    A file that grows makes every fsync write its size and block map too, which doubles the time of a small commit.
    SQLite ignores what follows the last valid frame, as it does after each restart of the log. Only whoever is inside a
    write transaction may call ``make_room``: nobody else writes then. Short runs, of fewer than ``_WARM`` commits, and
    large commits are left alone; room that another process made is recognised by the jump in size and used.
    """

    __slots__ = ("_chunk", "_commits", "_end", "_full", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._commits = 0
        self._end = 0
        self._chunk = _FIRST
        self._full = False

    def size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0

    def make_room(self, rows: int) -> None:
        """Called before a commit of so many rows; looks at the file now and then, since that costs as much as a row."""
        self._commits += 1
        if self._commits % _WARM and rows < _BULK:
            return
        size = self.size()
        self._full = size > FULL
        grown = size - self._end
        if rows < _BULK and 0 < grown <= _SMALL and self._extend(size):
            size += self._chunk
            self._chunk = min(self._chunk * 2, _MOST)
        self._end = max(self._end, size)

    def tend(self, connection: Connection, lock: JournalLock) -> None:
        """Called after a commit: moves a long log into the database and empties it.

        After many small commits the log is moved too, but keeps its length and is written from its start again: they
        touch the same few pages over and over, and to make the file longer costs more than that. Either needs that no
        other writer has the database open; until then the log goes on growing.
        """
        if not self._full and self._commits < _MANY:
            return
        self._commits = 0  # where it is refused, the next try comes after as many commits again
        if lock.alone():
            try:
                self._move(connection, "TRUNCATE" if self._full else "PASSIVE")
            finally:
                lock.share()

    def _move(self, connection: Connection, how: str) -> None:
        try:
            connection.execute(f"PRAGMA busy_timeout={_READERS_MS}")
            connection.execute(f"PRAGMA wal_checkpoint({how})").fetchall()
            self._full = False
            self._end = min(self._end, self.size())
        except sqlite3.Error:
            pass  # the log stays whole; a disk that really fails shows at the next append
        finally:
            connection.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000:.0f}")

    def _extend(self, size: int) -> bool:
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            return os.pwrite(descriptor, bytes(self._chunk), size) == self._chunk
        except OSError:
            return False  # no space for room is no failure: the commit itself may still fit
        finally:
            os.close(descriptor)
