"""Memory in a PostgreSQL database with pgvector, which a team shares: found by words and by vector, safe for many
processes on many machines."""

from __future__ import annotations

import threading
import time
import unicodedata
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from planrunner.errors import StorageFailed
from planrunner.escapes import database_advice, without_password
from planrunner.jsontext import read_json
from planrunner.knowledge.memory.entries import (
    ANY,
    Changed,
    Entry,
    Hit,
    LayerName,
    Make,
    Picked,
    check_embedder,
    entry_from,
    may_go_back,
    row_of,
)
from planrunner.knowledge.memory.places import ACTS_KEPT, Stopped, Turn, never
from planrunner.knowledge.ranking import terms
from planrunner.knowledge.vectors import Vector

_CONNECT_SECONDS = 10
_TABLES = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE IF NOT EXISTS planrunner_memory (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, layer text NOT NULL, space text NOT NULL, key text NOT NULL,
    entry text NOT NULL, tags text[] NOT NULL, updated double precision NOT NULL, words tsvector NOT NULL,
    embedder text, vector vector, UNIQUE (layer, space, key)
);
CREATE INDEX IF NOT EXISTS planrunner_memory_by_age ON planrunner_memory (layer, updated);
CREATE INDEX IF NOT EXISTS planrunner_memory_by_words ON planrunner_memory USING gin (words);
CREATE TABLE IF NOT EXISTS planrunner_memory_acts (
    layer text NOT NULL, mark text NOT NULL, key text NOT NULL, is_left boolean NOT NULL, at double precision NOT NULL,
    former text, embedder text, vector vector, PRIMARY KEY (layer, mark)
);
CREATE INDEX IF NOT EXISTS planrunner_memory_acts_by_age ON planrunner_memory_acts (at);
"""
"""``planrunner_memory_acts`` are the writes of the last month with what they replaced: one that is issued again does
nothing, and one that is undone brings exactly that back."""
_WRITERS = 0x706C6D65
"""The advisory lock of the one who writes."""
_LOCK = "SELECT pg_try_advisory_xact_lock(%s)"
_HERE = "layer = %s AND space = %s"
_ACT = "layer = %s AND mark = %s"
_WORDS = "to_tsvector('english', %s) || to_tsvector('simple', %s)"
_WANTED = "websearch_to_tsquery('english', %s) || websearch_to_tsquery('simple', %s)"
"""Words are found in any of their forms; common ones are found too, where a query has no others."""


class Server:
    """The ``Store`` in the database at ``address``, an URL; ``space`` parts the runs of the task layer, and entries
    from lessons. Nothing is made before the first write. Vectors have length one, so that their inner product is
    their cosine."""

    __slots__ = ("_address", "_connection", "_here", "_lock", "_name", "_stopped", "is_there")

    def __init__(self, address: str, layer: LayerName, space: str = "", stopped: Stopped = never) -> None:
        self._address, self._name = address, without_password(address)
        self._here = (layer, space)
        self._stopped = stopped
        self._lock = threading.RLock()
        with self._named():
            self._connection = psycopg.connect(address, autocommit=True, connect_timeout=_CONNECT_SECONDS)
            found = self._connection.execute("SELECT to_regclass('planrunner_memory_acts_by_age')").fetchone()
            self.is_there = found is not None and found[0] is not None

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Errors of the database as those of planrunner; one thread at a time."""
        with self._lock:
            try:
                yield
            except (errors.FeatureNotSupported, errors.UndefinedFile, errors.InsufficientPrivilege) as error:
                way = "install pgvector on the server, and let its administrator call `CREATE EXTENSION vector`"
                raise StorageFailed(f"the memory at {self._name} cannot be made: {self._said(error)}", way) from None
            except (psycopg.Error, OSError) as error:
                said = self._said(error)
                way = f"nothing was written; {database_advice(said, 'the settings of this memory')}"
                raise StorageFailed(f"the memory at {self._name} cannot be used: {said}", way) from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction of the only one who writes."""
        turn = Turn(self._stopped)
        while True:
            with self._connection.transaction() as transaction:
                taken = self._one(_LOCK, (_WRITERS,))[0]
                if taken:
                    if not self.is_there:
                        self._connection.execute(_TABLES)
                    yield
                else:
                    raise psycopg.Rollback(transaction)
            if taken:
                self.is_there = True
                return
            turn.wait()

    def change(self, key: str, mark: str, make: Make) -> Changed:
        with self._named(), self._writing():
            before = self._full(key)
            select = f"SELECT 1 FROM planrunner_memory_acts WHERE {_ACT}"  # noqa: S608
            known = self._connection.execute(select, (self._here[0], mark)).fetchone()
            if known is not None:
                return Changed(before, before, again=True)
            after = make(before)
            self._place(key, after)
            former = (None, None, None) if before is None else (row_of(before), *_columns(before.vector))
            now = time.time()
            insert = "INSERT INTO planrunner_memory_acts VALUES (%s, %s, %s, %s, %s, %s, %s, %s::vector)"
            self._connection.execute(insert, (self._here[0], mark, key, after is not None, now, *former))
            self._connection.execute("DELETE FROM planrunner_memory_acts WHERE at < %s", (now - ACTS_KEPT,))
            return Changed(before, after)

    def revert(self, mark: str) -> bool:
        with self._named(), self._writing():
            select = f"SELECT key, is_left, former, embedder, vector::text FROM planrunner_memory_acts WHERE {_ACT}"  # noqa: S608
            act = self._connection.execute(select, (self._here[0], mark)).fetchone()
            if act is None:
                return False
            key, left, *rest = act
            former = None if rest[0] is None else _entry(*rest)
            stands = may_go_back(mark, left, self._full(key), former)
            if stands:
                self._place(key, former)
            self._connection.execute(f"DELETE FROM planrunner_memory_acts WHERE {_ACT}", (self._here[0], mark))  # noqa: S608
            return stands

    def get(self, key: str) -> Entry | None:
        with self._named():
            select = f"SELECT entry FROM planrunner_memory WHERE {_HERE} AND key = %s"  # noqa: S608
            row = self._connection.execute(select, (*self._here, key)).fetchone()
            return None if row is None else _entry(row[0])

    def page(self, picked: Picked, limit: int, offset: int = 0) -> tuple[list[Entry], int]:
        with self._named():
            fits, values = self._fits(picked)
            total = self._one(f"SELECT count(*) FROM planrunner_memory WHERE {fits}", values)[0]  # noqa: S608
            select = (
                f"SELECT entry FROM planrunner_memory WHERE {fits}"  # noqa: S608
                " ORDER BY updated DESC, id DESC LIMIT %s OFFSET %s"
            )
            rows = self._connection.execute(select, (*values, limit, offset)).fetchall()
            return [_entry(row) for (row,) in rows], total

    def by_text(self, query: str, limit: int, picked: Picked = ANY) -> list[Hit]:
        wanted = " or ".join(f'"{word}"' for word in terms(_plain(query)))
        fits, values = self._fits(picked)
        select = (
            "SELECT entry, ts_rank(words, wanted, 1) AS score"  # noqa: S608
            f" FROM planrunner_memory, (SELECT {_WANTED} AS wanted) AS one"
            f" WHERE words @@ wanted AND {fits} ORDER BY score DESC, id LIMIT %s"
        )
        with self._named():
            return self._hits(select, (wanted, wanted, *values, limit))

    def by_vector(self, query: Vector, limit: int, picked: Picked = ANY) -> list[Hit]:
        fits, values = self._fits(picked)
        select = (
            "SELECT entry, -(vector <#> wanted) AS score FROM planrunner_memory, (SELECT %s::vector AS wanted) AS one"  # noqa: S608
            f" WHERE vector IS NOT NULL AND {fits} ORDER BY vector <#> wanted, id LIMIT %s"
        )
        with self._named():
            check_embedder(query.embedder, self.embedders())
            return self._hits(select, (_columns(query)[1], *values, limit))

    def _hits(self, select: str, values: Sequence[Any]) -> list[Hit]:
        return [Hit(_entry(row), float(score)) for row, score in self._connection.execute(select, values).fetchall()]

    def embedders(self) -> tuple[str, ...]:
        with self._named():
            select = (
                f"SELECT DISTINCT embedder FROM planrunner_memory WHERE {_HERE} AND embedder IS NOT NULL ORDER BY 1"  # noqa: S608
            )
            return tuple(name for (name,) in self._connection.execute(select, self._here).fetchall())

    def embed(self, vectors: Mapping[str, Vector | None]) -> None:
        update = f"UPDATE planrunner_memory SET embedder = %s, vector = %s::vector WHERE {_HERE} AND key = %s"  # noqa: S608
        with self._named(), self._writing(), self._connection.cursor() as cursor:
            cursor.executemany(update, [(*_columns(vector), *self._here, key) for key, vector in vectors.items()])

    def retain(self, most: int | None, since: float) -> int:
        beyond = (
            f"SELECT id FROM planrunner_memory WHERE {_HERE}"  # noqa: S608
            " ORDER BY updated DESC, id DESC OFFSET %s"
        )
        with self._named(), self._writing():
            old = "DELETE FROM planrunner_memory WHERE layer = %s AND updated < %s"
            gone = self._connection.execute(old, (self._here[0], since)).rowcount
            if most is not None:
                delete = f"DELETE FROM planrunner_memory WHERE id IN ({beyond})"  # noqa: S608
                gone += self._connection.execute(delete, (*self._here, most)).rowcount
            return gone

    def _said(self, error: BaseException) -> str:
        """The first line of what a server or the driver says, which may quote the address."""
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return line.replace(self._address, self._name)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _one(self, select: str, values: Sequence[Any]) -> Any:
        row = self._connection.execute(select, values).fetchone()
        assert row is not None
        return row

    def _full(self, key: str) -> Entry | None:
        """An entry with its vector."""
        select = f"SELECT entry, embedder, vector::text FROM planrunner_memory WHERE {_HERE} AND key = %s"  # noqa: S608
        row = self._connection.execute(select, (*self._here, key)).fetchone()
        return None if row is None else _entry(*row)

    def _place(self, key: str, entry: Entry | None) -> None:
        self._connection.execute(f"DELETE FROM planrunner_memory WHERE {_HERE} AND key = %s", (*self._here, key))  # noqa: S608
        if entry is None:
            return
        insert = (
            "INSERT INTO planrunner_memory (layer, space, key, entry, tags, updated, words, embedder, vector)"  # noqa: S608
            f" VALUES (%s, %s, %s, %s, %s, %s, {_WORDS}, %s, %s::vector)"
        )
        words = _plain(entry.text)
        row = (row_of(entry), [*entry.tags], entry.updated, words, words, *_columns(entry.vector))
        self._connection.execute(insert, (*self._here, key, *row))

    def _fits(self, picked: Picked) -> tuple[str, tuple[Any, ...]]:
        """What has to hold for an entry that is meant, and the values in it."""
        fits, values = _HERE, [*self._here]
        if picked.prefix:
            fits += " AND starts_with(key, %s)"
            values.append(picked.prefix)
        if picked.tags:
            return f"{fits} AND tags @> %s::text[]", (*values, [*picked.tags])
        return fits, tuple(values)


def _entry(row: str, embedder: str | None = None, vector: str | None = None) -> Entry:
    made = None
    if embedder is not None and vector is not None:
        made = Vector(embedder, array("f", read_json(vector)).tobytes())
    return entry_from(read_json(row), made)


def _columns(vector: Vector | None) -> tuple[str | None, str | None]:
    """The name of the embedder, and the numbers as pgvector reads them."""
    return (None, None) if vector is None else (vector.embedder, str(array("f", vector.data).tolist()))


def _plain(text: str) -> str:
    """A text without accents and the one character that PostgreSQL keeps in no text."""
    parts = unicodedata.normalize("NFKD", text.replace("\0", " "))
    return "".join(each for each in parts if not unicodedata.combining(each))
