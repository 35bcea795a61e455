"""Memory in a file of JSON lines: a line for each act, read by people and programs as it is; for small memories.

Writers take a lock in turn and append; a line that a kill cut off counts as not written. Where most lines have been
replaced by later ones the file is written again with what is left. Searches look at every entry.
"""

from __future__ import annotations

import base64
import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from planrunner.errors import StorageFailed
from planrunner.fileio import replace_file
from planrunner.jsontext import read_json, write_json
from planrunner.knowledge.memory.entries import (
    ANY,
    Changed,
    Entry,
    Hit,
    Make,
    Picked,
    check_embedder,
    entry_from,
    failed,
    may_go_back,
    row_of,
)
from planrunner.knowledge.memory.places import ACTS_KEPT, Stopped, Turn, claim_file, never
from planrunner.knowledge.ranking import ranked, words
from planrunner.knowledge.vectors import Matrix, Vector
from planrunner.records import Struct

Json = Any
Name = tuple[str, str]
"""The space and the key of an entry."""

_SLACK = 1_000
"""Lines beyond twice those that are needed, before the file is written again."""


class _Act(Struct):
    """What an act replaced; ``left`` tells that it left an entry."""

    name: Name
    left: bool
    former: Entry | None
    at: float


class _Content:
    """What the lines of one file come to, read as far as ``end``."""

    __slots__ = ("acts", "end", "entries", "identity", "lines")

    def __init__(self, identity: tuple[int, int]) -> None:
        self.identity = identity
        self.end = self.lines = 0
        self.entries: dict[Name, Entry] = {}
        self.acts: dict[str, _Act] = {}

    def take(self, line: Json) -> None:
        """``[mark, at, space, key, entry, left, former]``; without a mark nothing can be taken back, and ``left`` is
        null where the act of the mark was."""
        mark, at, space, key, row, left, former = line
        name = (space, key)
        self.lines += 1
        self.entries.pop(name, None)
        if row is not None:
            self.entries[name] = _read(row)
        if mark and left is not None:
            self.acts[mark] = _Act(name, left, None if former is None else _read(former), at)
        elif mark:
            self.acts.pop(mark, None)


_contents: dict[str, _Content] = {}
_lock = threading.RLock()
"""What this process has read, and the lock of its threads."""
_MOST_CONTENTS = 8


class Lines:
    """The ``Store`` in the file at ``path``; ``space`` parts the runs of the task layer."""

    is_there = True  # its file is made when it is opened
    __slots__ = ("_path", "_space", "_stopped")

    def __init__(self, path: str, space: str = "", stopped: Stopped = never) -> None:
        self._path = path
        self._stopped = stopped
        self._space = space
        with self._opened(False):
            pass

    @contextmanager
    def _opened(self, writes: bool) -> Iterator[tuple[int, _Content]]:
        """The open file and what it says; a writer is alone among all processes."""
        with _lock:
            try:
                claim_file(self._path)
                guard = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                try:
                    self._lock_file(guard, fcntl.LOCK_EX if writes else fcntl.LOCK_SH)
                    file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
                    try:
                        yield file, self._content(file)
                    finally:
                        os.close(file)
                finally:
                    os.close(guard)
            except OSError as error:
                raise failed(self._path, error) from error

    def _lock_file(self, guard: int, kind: int) -> None:
        turn = Turn(self._stopped)
        while True:
            try:
                fcntl.flock(guard, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                turn.wait()

    def _content(self, file: int) -> _Content:
        about = os.fstat(file)
        identity = (about.st_dev, about.st_ino)
        content = _contents.pop(self._path, None)
        if content is None or content.identity != identity or content.end > about.st_size:
            content = _Content(identity)
        data = _rest(file, content.end, about.st_size)
        whole = data[: data.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), content.lines + 1):
            try:
                content.take(read_json(line.decode()))
            except (ValueError, TypeError, KeyError) as error:
                hint = "repair or remove that line; the others stay as they are"
                raise StorageFailed(
                    f"line {number} of the memory `{self._path}` cannot be read: {error}", hint
                ) from None
        content.end += len(whole)
        _contents[self._path] = content
        for oldest in [*_contents][:-_MOST_CONTENTS]:
            _contents.pop(oldest, None)
        return content

    def _append(self, file: int, content: _Content, lines: list[Json]) -> None:
        """Write acts; what a kill left of a line before is cut off first."""
        data = b"".join(write_json(line).encode("ascii") + b"\n" for line in lines)
        os.ftruncate(file, content.end)
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
        for line in lines:
            content.take(line)
        content.end += len(data)
        if content.lines > 2 * (len(content.entries) + len(content.acts)) + _SLACK:
            self._compact(content)

    def _compact(self, content: _Content) -> None:
        """Write the file again: an act that is still known stands before what its entry is now."""
        since = time.time() - ACTS_KEPT
        own = {entry.mark: entry for entry in content.entries.values()}
        acts = {mark: act for mark, act in content.acts.items() if act.at >= since}
        lines: list[Json] = [
            [mark, act.at, *act.name, _row(own.get(mark)), act.left, _row(act.former)] for mark, act in acts.items()
        ]
        for name, entry in sorted(content.entries.items(), key=lambda pair: pair[1].updated):
            if entry.mark not in acts:
                lines.append(["", entry.updated, *name, _row(entry), None, None])
        replace_file(self._path, b"".join(write_json(line).encode("ascii") + b"\n" for line in lines), durable=True)

    def change(self, key: str, mark: str, make: Make) -> Changed:
        with self._opened(True) as (file, content):
            name = (self._space, key)
            before = content.entries.get(name)
            if mark in content.acts:
                return Changed(before, before, again=True)
            after = make(before)
            line = [mark, time.time(), *name, _row(after), after is not None, _row(before)]
            self._append(file, content, [line])
            return Changed(before, after)

    def revert(self, mark: str) -> bool:
        with self._opened(True) as (file, content):
            act = content.acts.get(mark)
            if act is None:
                return False
            now = content.entries.get(act.name)
            stands = may_go_back(mark, act.left, now, act.former)
            row = _row(act.former if stands else now)
            self._append(file, content, [[mark, time.time(), *act.name, row, None, None]])
            return stands

    def get(self, key: str) -> Entry | None:
        with self._opened(False) as (_, content):
            entry = content.entries.get((self._space, key))
            return None if entry is None else entry._replace(vector=None)

    def page(self, picked: Picked, limit: int, offset: int = 0) -> tuple[list[Entry], int]:
        entries = self._fitting(picked)
        last = sorted(entries, key=lambda entry: entry.updated, reverse=True)
        return [entry._replace(vector=None) for entry in last[offset : offset + limit]], len(entries)

    def by_text(self, query: str, limit: int, picked: Picked = ANY) -> list[Hit]:
        """By the words that an entry has: rare ones count more."""
        entries = self._fitting(picked)
        found = ranked(query, [dict.fromkeys(words(entry.text), 1) for entry in entries])
        return [Hit(entries[at]._replace(vector=None), score) for at, score in found[:limit]]

    def by_vector(self, query: Vector, limit: int, picked: Picked = ANY) -> list[Hit]:
        check_embedder(query.embedder, self.embedders())
        entries = self._fitting(picked)
        rows = [(at, entry.vector.data) for at, entry in enumerate(entries) if entry.vector is not None]
        near = Matrix(rows).nearest(query.data, limit)
        return [Hit(entries[at]._replace(vector=None), score) for at, score in near]

    def embedders(self) -> tuple[str, ...]:
        return tuple({entry.vector.embedder for entry in self._fitting(ANY) if entry.vector is not None})

    def embed(self, vectors: Mapping[str, Vector | None]) -> None:
        with self._opened(True) as (file, content):
            lines: list[Json] = []
            for key, vector in vectors.items():
                entry = content.entries.get((self._space, key))
                if entry is not None:
                    row = _row(entry._replace(vector=vector))
                    lines.append(["", time.time(), self._space, key, row, None, None])
            self._append(file, content, lines)

    def retain(self, most: int | None, since: float) -> int:
        with self._opened(True) as (file, content):
            gone = {name for name, entry in content.entries.items() if entry.updated < since}
            own = [(entry.updated, name) for name, entry in content.entries.items() if name[0] == self._space]
            if most is not None and len(own) > most:
                gone |= {name for _, name in sorted(own)[: len(own) - most]}
            if gone:
                self._append(file, content, [["", time.time(), *name, None, None, None] for name in gone])
            return len(gone)

    def close(self) -> None:
        """Nothing stays open."""

    def _fitting(self, picked: Picked) -> list[Entry]:
        with self._opened(False) as (_, content):
            return [e for (space, _), e in content.entries.items() if space == self._space and picked.fits(e)]


def _rest(file: int, start: int, end: int) -> bytes:
    parts: list[bytes] = []
    while start < end and (part := os.pread(file, min(end - start, 1 << 20), start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _row(entry: Entry | None) -> list[Json] | None:
    if entry is None:
        return None
    vector = entry.vector
    packed = None if vector is None else [vector.embedder, base64.b64encode(vector.data).decode("ascii")]
    row: list[Json] = read_json(row_of(entry))
    return [*row[:8], packed]


def _read(row: list[Json]) -> Entry:
    packed = row[8]
    return entry_from(row, None if packed is None else Vector(packed[0], base64.b64decode(packed[1])))
