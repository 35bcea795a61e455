"""What lies in the database beside events: requests that other processes make of a run, and the notes of its attempts.

A request bears a seal while it waits, so that write access to the database is not enough to steer a run without the
key.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

from planrunner.errors import AGAIN, Hint, NotFound, StorageFailed
from planrunner.fileio import turn
from planrunner.journal import leases
from planrunner.journal.database import FILE, Connection, Store, failure, open_database, sqlite3
from planrunner.journal.records import Answer, Request
from planrunner.jsontext import read_json, write_json
from planrunner.records import astuple

if TYPE_CHECKING:
    from planrunner.journal.chain import Chain

_POST = "INSERT INTO requests (run, at, kind, body, by) VALUES (?, ?, ?, ?, ?)"
_SEAL = "UPDATE requests SET seal = ? WHERE id = ?"
_WAITING = "SELECT id, run, at, kind, body, by, seal FROM requests WHERE run = ? AND result IS NULL ORDER BY id"
_ANSWER = "UPDATE requests SET result = ?, seal = NULL WHERE id = ? AND result IS NULL"


class Requests(Store):
    """The part of a journal that several processes write for one run. Answers are written by the holder of the run.
    ``notices`` are for people."""

    def __init__(self, connection: Connection, path: str, chain: Chain) -> None:
        super().__init__(connection, path)
        self._chain = chain
        self._version = -1
        self.notices: tuple[str, ...] = ()

    def post(self, run: str, request: Request) -> int:
        number: list[int] = []
        row = (run, request.at + 0.0, request.kind, write_json(request.body), request.by)
        self._transact(lambda: number.append(self._insert(row)))
        return number[0]

    def waiting(self, run: str) -> list[Request]:
        return [self._read(row, seal) for *row, seal in self._query(_WAITING, run)]

    def answered(self, request: int) -> Answer | None:
        rows = self._query("SELECT result FROM requests WHERE id = ?", request)
        if not rows:
            raise NotFound(f"there is no request {request} in the journal")
        return None if rows[0][0] is None else Answer(*read_json(rows[0][0]))

    def touched(self) -> bool:
        (version,) = self._query("PRAGMA data_version")[0]
        before, self._version = self._version, version
        return bool(before != version)

    def _insert(self, row: tuple[object, ...]) -> int:
        number = self._connection.execute(_POST, row).lastrowid or 0
        self._connection.execute(_SEAL, (seal_of(self._chain, number, *row), number))
        return number

    def _read(self, row: Sequence[Any], seal: bytes | None) -> Request:
        number, run, at, kind, body, by = row
        if self._chain.key is None or seal == seal_of(self._chain, *row):
            return Request(kind, read_json(body), by, number, at)
        notice = f"a request to run {run} counts for nothing: it was not made by your planrunner (`state.foreign`)"
        if notice not in self.notices:
            self.notices += (notice,)
        return Request("", {}, "", number, ours=False)

    def _store_answers(self, answers: Sequence[tuple[int, Answer]]) -> None:
        """Inside the transaction of what follows from the requests."""
        for number, answer in answers:
            self._connection.execute(_ANSWER, (write_json(astuple(answer)), number))


def cover_waiting(connection: Connection, chain: Chain, run: str) -> None:
    """Inside a transaction: take the requests that wait for a run as they stand. Raises the errors of SQLite."""
    for *row, _ in connection.execute(_WAITING, (run,)).fetchall():
        connection.execute(_SEAL, (seal_of(chain, *row), row[0]))


def seal_of(chain: Chain, *row: object) -> bytes | None:
    """What a request bears that the holder of the key made: id, run, at, kind, body and by."""
    return chain.seal("request", *row)


KEPT = 30 * 86400.0
"""Seconds after the end of its run for which a note is kept: until then the run may be rolled back."""

_RARELY = 64
_OVER = "DELETE FROM notes WHERE run IN (SELECT run FROM runs WHERE ended < ?)"


def read_note(state: str, name: str) -> str:
    """The text of a note; empty where there is none, or no journal yet. Raises StorageFailed."""
    try:
        connection = open_database(state)
    except NotFound:
        return ""
    try:
        row = connection.execute("SELECT text FROM notes WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])
    except sqlite3.Error as error:
        raise failure(error, os.path.join(state, FILE)) from error
    finally:
        connection.close()


def write_note(state: str, run: str, name: str, text: str) -> None:
    """Keep a note of a run in place of the one of that name; empty removes it. Durable on return; any thread may call
    it. Raises StorageFailed."""
    path = os.path.join(state, FILE)
    if not os.path.lexists(path):
        raise StorageFailed(f"the journal `{path}` is gone", Hint("restore it from a copy, then ", AGAIN))
    lock, _ = leases.open_lock(state, False)  # all who write share it
    try:
        connection = open_database(state, _begin)
        try:
            with turn(state):
                _keep(connection, run, name, text)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise failure(error, path) from error
    finally:
        if lock is not None:
            lock.close()


def _keep(connection: Connection, run: str, name: str, text: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if text:
        connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (name, run, text))
    else:
        connection.execute("DELETE FROM notes WHERE name = ?", (name,))
    if crc32(name.encode()) % _RARELY == 0:
        connection.execute(_OVER, (time.time() - KEPT,))
    connection.execute("COMMIT")


def _begin(_: Connection) -> None:
    raise StorageFailed("the journal has no tables", Hint("restore it from a copy, then ", AGAIN))
