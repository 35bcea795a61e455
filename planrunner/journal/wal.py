"""The write-ahead log of the database as a file: room kept ready in it, and its size."""

from __future__ import annotations

import os

FULL = 64 << 20
"""Bytes from which the log is worth moving into the database while a run goes on."""

_WARM = 8
_MANY = 128
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

    __slots__ = ("_chunk", "_commits", "_end", "_path", "is_full")

    def __init__(self, path: str) -> None:
        self._path = path
        self._commits = 0
        self._end = 0
        self._chunk = _FIRST
        self.is_full = False
        """Whether the file was longer than ``FULL`` when it was last looked at."""

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
        self.is_full = size > FULL
        grown = size - self._end
        if rows < _BULK and 0 < grown <= _SMALL and self._extend(size):
            size += self._chunk
            self._chunk = min(self._chunk * 2, _MOST)
        self._end = max(self._end, size)

    def is_due(self) -> bool:
        """Whether so many small commits were made that it costs less to write the log from its start again than to
        make it longer: they touch the same few pages over and over."""
        return self._commits >= _MANY

    def moved(self) -> None:
        """The log was moved into the database."""
        self._commits = 0
        self.is_full = False
        self._end = min(self._end, self.size())

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
