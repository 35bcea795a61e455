"""Memory in a SQLite database: found by text with FTS5 and by vector, safe for many processes at once."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from planrunner.jsontext import read_json, stable_json
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
from planrunner.knowledge.ranking import terms
from planrunner.knowledge.vectors import Matrix, Vector
from planrunner.records import Struct

_APPLICATION = 0x706C6D65
_BUSY_SECONDS = 0.05
"""For which SQLite itself waits; the rest of the wait can be stopped."""
_TABLES = """
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, space TEXT NOT NULL, key TEXT NOT NULL, row TEXT NOT NULL, words TEXT NOT NULL,
    tags TEXT NOT NULL, updated REAL NOT NULL, embedder TEXT, vector BLOB, UNIQUE (space, key)
);
CREATE INDEX by_age ON entries (updated);
CREATE INDEX by_space ON entries (space, updated);
CREATE INDEX by_embedder ON entries (space, embedder);
CREATE TABLE acts (
    mark TEXT PRIMARY KEY, key TEXT NOT NULL, is_left INTEGER NOT NULL, at REAL NOT NULL, former TEXT, embedder TEXT,
    vector BLOB
) WITHOUT ROWID;
CREATE INDEX acts_by_age ON acts (at);
CREATE TABLE version (number INTEGER NOT NULL);
INSERT INTO version VALUES (1);
CREATE VIRTUAL TABLE found USING fts5 (
    words, content = 'entries', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
"""
"""``acts`` are the writes of the last month with what they replaced: one that is issued again does nothing, and one
that is undone brings exactly that back. ``version`` counts the writes, so that vectors in
memory are known to be current."""

_TAGGED = (
    " AND NOT EXISTS (SELECT 1 FROM json_each(?) AS wanted"
    " WHERE wanted.value NOT IN (SELECT value FROM json_each(entries.tags)))"
)
_EMBEDDERS = """WITH RECURSIVE each (name) AS (
    SELECT min(embedder) FROM entries WHERE space = ?1 UNION ALL
    SELECT (SELECT min(embedder) FROM entries WHERE space = ?1 AND embedder > name) FROM each WHERE name IS NOT NULL
) SELECT name FROM each WHERE name IS NOT NULL"""
"""From one name to the next, without a look at all entries."""
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM found WHERE found MATCH ? LIMIT ?)"
_RANKED = 3_000
"""Entries that a search by text ranks at most: relevance is counted out of all that have a word."""

_matrices: dict[tuple[str, str], tuple[int, Matrix]] = {}
"""The vectors of the layers that this process searched last, with the version they are of."""
_MOST_MATRICES = 4


class _Row(Struct):
    row: str
    embedder: str | None
    vector: bytes | None

    def entry(self) -> Entry:
        vector = None if self.embedder is None or self.vector is None else Vector(self.embedder, self.vector)
        return entry_from(read_json(self.row), vector)


class Database:
    """The ``Store`` in the database at ``path``; ``space`` parts the runs of the task layer."""

    is_there = True  # its file is made when it is opened
    __slots__ = ("_connection", "_lock", "_path", "_space", "_stopped")

    def __init__(self, path: str, space: str = "", stopped: Stopped = never) -> None:
        self._path = path
        self._stopped = stopped
        self._space = space
        self._lock = threading.RLock()
        with self._named():
            claim_file(path)
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        execute = self._connection.execute
        # the first look waits: another process may open the database for the first time, or close it for the last
        if self._patiently("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            self._patiently("PRAGMA journal_mode = WAL")
            with self._writing():
                if execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:  # another process may have made them
                    for statement in _statements(_TABLES):
                        execute(statement)
                    execute(f"PRAGMA application_id = {_APPLICATION}")
        execute("PRAGMA synchronous = FULL")
        execute("PRAGMA trusted_schema = OFF")

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of the database as those of planrunner; one thread at a time."""
        with self._lock:
            try:
                yield
            except (sqlite3.Error, OSError) as error:
                raise failed(self._path, error) from error

    def _patiently(self, statement: str) -> sqlite3.Cursor:
        """Carry out what has to wait until other processes have written."""
        turn = Turn(self._stopped)
        while True:
            try:
                return self._connection.execute(statement)
            except sqlite3.OperationalError as error:
                if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
                    raise
                turn.wait()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._patiently("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("UPDATE version SET number = number + 1")
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def change(self, key: str, mark: str, make: Make) -> Changed:
        with self._named(), self._writing():
            before = self._full(key)
            if self._connection.execute("SELECT 1 FROM acts WHERE mark = ?", (mark,)).fetchone() is not None:
                return Changed(before, before, again=True)
            after = make(before)
            self._place(key, after)
            former = (None, None, None) if before is None else (row_of(before), *_columns(before.vector))
            now = time.time()
            self._connection.execute(
                "INSERT INTO acts VALUES (?, ?, ?, ?, ?, ?, ?)", (mark, key, after is not None, now, *former)
            )
            self._connection.execute("DELETE FROM acts WHERE at < ?", (now - ACTS_KEPT,))
            return Changed(before, after)

    def revert(self, mark: str) -> bool:
        with self._named(), self._writing():
            select = "SELECT key, is_left, former, embedder, vector FROM acts WHERE mark = ?"
            act = self._connection.execute(select, (mark,)).fetchone()
            if act is None:
                return False
            key, left, *rest = act
            former = None if rest[0] is None else _Row(*rest).entry()
            stands = may_go_back(mark, bool(left), self._full(key), former)
            if stands:
                self._place(key, former)
            self._connection.execute("DELETE FROM acts WHERE mark = ?", (mark,))
            return stands

    def get(self, key: str) -> Entry | None:
        with self._named():
            select = "SELECT row FROM entries WHERE space = ? AND key = ?"
            row = self._connection.execute(select, (self._space, key)).fetchone()
            return None if row is None else entry_from(read_json(row[0]))

    def page(self, picked: Picked, limit: int, offset: int = 0) -> tuple[list[Entry], int]:
        with self._named():
            fits, values = self._fits(picked)
            total = self._connection.execute(f"SELECT count(*) FROM entries WHERE {fits}", values).fetchone()[0]  # noqa: S608
            select = f"SELECT row FROM entries WHERE {fits} ORDER BY updated DESC, id DESC LIMIT ? OFFSET ?"  # noqa: S608
            rows = self._connection.execute(select, (*values, limit, offset)).fetchall()
            return [entry_from(read_json(row)) for (row,) in rows], total

    def by_text(self, query: str, limit: int, picked: Picked = ANY) -> list[Hit]:
        """Where words have many thousand entries, the rarer ones choose; of all that fit, the newest are ranked."""
        with self._named():
            quoted = [f'"{word}"' for word in terms(query)]
            counts = {word: self._connection.execute(_COUNT, (word, _RANKED)).fetchone()[0] for word in quoted}
            match = " OR ".join([word for word in quoted if 0 < counts[word] < _RANKED] or quoted)
            if not match:
                return []
            fits, values = self._fits(picked)
            select = (
                "SELECT row, score FROM (SELECT id, row, -bm25(found) AS score"  # noqa: S608
                f" FROM found CROSS JOIN entries ON id = found.rowid WHERE found MATCH ? AND {fits}"
                " ORDER BY found.rowid DESC LIMIT ?) ORDER BY score DESC, id LIMIT ?"
            )
            rows = self._connection.execute(select, (match, *values, _RANKED, limit)).fetchall()
            return [Hit(entry_from(read_json(row)), score) for row, score in rows]

    def by_vector(self, query: Vector, limit: int, picked: Picked = ANY) -> list[Hit]:
        with self._named():
            check_embedder(query.embedder, self.embedders())
            matrix, asked = self._matrix(), limit
            while True:
                near = matrix.nearest(query.data, asked)
                hits = [hit for number, score in near if (hit := self._hit(number, score, picked)) is not None]
                if len(hits) >= limit or len(near) < asked:
                    return hits[:limit]
                asked *= 4

    def _hit(self, number: int, score: float, picked: Picked) -> Hit | None:
        row = self._connection.execute("SELECT row FROM entries WHERE id = ?", (number,)).fetchone()
        entry = None if row is None else entry_from(read_json(row[0]))
        return Hit(entry, score) if entry is not None and picked.fits(entry) else None

    def _matrix(self) -> Matrix:
        place = (self._path, self._space)
        version = self._connection.execute("SELECT number FROM version").fetchone()[0]
        kept = _matrices.pop(place, None)
        if kept is None or kept[0] != version:
            select = "SELECT id, vector FROM entries WHERE space = ? AND vector IS NOT NULL"
            kept = version, Matrix(self._connection.execute(select, (self._space,)).fetchall())
        _matrices[place] = kept
        for oldest in [*_matrices][:-_MOST_MATRICES]:
            _matrices.pop(oldest, None)
        return kept[1]

    def embedders(self) -> tuple[str, ...]:
        with self._named():
            return tuple(name for (name,) in self._connection.execute(_EMBEDDERS, (self._space,)))

    def embed(self, vectors: Mapping[str, Vector | None]) -> None:
        update = "UPDATE entries SET embedder = ?, vector = ? WHERE space = ? AND key = ?"
        with self._named(), self._writing():
            self._connection.executemany(
                update, [(*_columns(vector), self._space, key) for key, vector in vectors.items()]
            )

    def retain(self, most: int | None, since: float) -> int:
        old = "FROM entries WHERE updated < ?"
        beyond = "FROM entries WHERE space = ? ORDER BY updated DESC, id DESC LIMIT -1 OFFSET ?"
        limit = (self._space, -1 if most is None else most)
        with self._named():
            first = self._connection.execute(f"SELECT 1 {old} LIMIT 1", (since,)).fetchone()
            if first is None and (
                most is None or self._connection.execute(f"SELECT 1 {beyond}", limit).fetchone() is None
            ):
                return 0
            with self._writing():
                gone = self._connection.execute(f"SELECT id, words {old}", (since,)).fetchall()
                self._remove(gone)
                later = (
                    self._connection.execute(f"SELECT id, words {beyond}", limit).fetchall() if most is not None else []
                )
                self._remove(later)
                return len(gone) + len(later)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _full(self, key: str) -> Entry | None:
        """An entry with its vector."""
        select = "SELECT row, embedder, vector FROM entries WHERE space = ? AND key = ?"
        row = self._connection.execute(select, (self._space, key)).fetchone()
        return None if row is None else _Row(*row).entry()

    def _place(self, key: str, entry: Entry | None) -> None:
        select = "SELECT id, words FROM entries WHERE space = ? AND key = ?"
        self._remove(self._connection.execute(select, (self._space, key)).fetchall())
        if entry is None:
            return
        insert = (
            "INSERT INTO entries (space, key, row, words, tags, updated, embedder, vector)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
        )
        words = entry.text
        values = (self._space, key, row_of(entry), words, _tags(entry.tags), entry.updated, *_columns(entry.vector))
        number = self._connection.execute(insert, values).fetchone()[0]
        self._connection.execute("INSERT INTO found (rowid, words) VALUES (?, ?)", (number, words))

    def _remove(self, rows: Sequence[tuple[int, str]]) -> None:
        """Remove entries, and what they have in the index of words, which has to be told what that was."""
        self._connection.executemany("INSERT INTO found (found, rowid, words) VALUES ('delete', ?, ?)", rows)
        self._connection.executemany("DELETE FROM entries WHERE id = ?", [(number,) for number, _ in rows])

    def _fits(self, picked: Picked) -> tuple[str, tuple[Any, ...]]:
        """What has to hold for an entry that is meant, and the values in it."""
        fits, values = "space = ?", [self._space]
        if picked.prefix:
            fits += " AND substr(key, 1, length(?)) = ?"
            values += [picked.prefix, picked.prefix]
        if picked.tags:
            fits += _TAGGED
            values.append(_tags(picked.tags))
        return fits, tuple(values)


def _tags(tags: Sequence[str]) -> str:
    """Tags as a JSON list, which the database looks into."""
    return stable_json([*tags])


def _columns(vector: Vector | None) -> tuple[str | None, bytes | None]:
    return (None, None) if vector is None else (vector.embedder, vector.data)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, which ``executescript`` would carry out outside the transaction."""
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""
