"""What other processes ask of a run: left in a table, found by whoever holds the run, answered with what follows.

Each bears a seal while it waits, so that nobody steers a run who can write to the database and does not have the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planrunner.errors import NotFound
from planrunner.journal.database import Connection
from planrunner.journal.records import Answer, Request
from planrunner.journal.store import Store
from planrunner.jsontext import read_json, write_json

if TYPE_CHECKING:
    from planrunner.journal.chain import Chain


_POST = "INSERT INTO requests (run, at, kind, body, by) VALUES (?, ?, ?, ?, ?)"
_SEAL = "UPDATE requests SET seal = ? WHERE id = ?"
_WAITING = "SELECT id, run, at, kind, body, by, seal FROM requests WHERE run = ? AND result IS NULL ORDER BY id"
_ANSWER = "UPDATE requests SET result = ?, seal = NULL WHERE id = ? AND result IS NULL"


class Requests(Store):
    """The part of a journal that several processes write for one run. Answers are written by the holder of the run.
    ``notices`` are for people."""

    __slots__ = ("_chain", "_version", "notices")

    def __init__(self, connection: Connection, path: str, chain: Chain) -> None:
        super().__init__(connection, path)
        self._chain = chain
        self._version = -1
        self.notices: tuple[str, ...] = ()

    def post(self, run: str, request: Request) -> int:
        """Leave a request for whoever holds the run; its number, by which ``answered`` tells what became of it.

        The holder finds it within a moment; where nobody holds the run it waits, and whoever posted it may hold the
        run and answer it. Raises StorageFailed.
        """
        number: list[int] = []
        row = (run, request.at + 0.0, request.kind, write_json(request.body), request.by)
        self._transact(lambda: number.append(self._insert(row)))
        return number[0]

    def waiting(self, run: str) -> list[Request]:
        """The requests for a run that have no answer yet, in the order in which they were posted. Of those that are not
        ``ours`` a notice tells."""
        return [self._read(row, seal) for *row, seal in self._query(_WAITING, run)]

    def answered(self, request: int) -> Answer | None:
        """What became of a request; None while it waits. Raises NotFound."""
        found = self._query("SELECT result FROM requests WHERE id = ?", request)
        if not found:
            raise NotFound(f"there is no request {request} in the journal")
        return None if found[0][0] is None else Answer(*read_json(found[0][0]))

    def touched(self) -> bool:
        """Whether another connection has written since the last call; True at the first one. Costs microseconds."""
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
            self._connection.execute(_ANSWER, (write_json(answer), number))


def cover_waiting(connection: Connection, chain: Chain, run: str) -> None:
    """Inside a transaction: take the requests that wait for a run as they stand. Raises the errors of SQLite."""
    for *row, _ in connection.execute(_WAITING, (run,)).fetchall():
        connection.execute(_SEAL, (seal_of(chain, *row), row[0]))


def seal_of(chain: Chain, *row: object) -> bytes | None:
    """What a request bears that the holder of the key made: id, run, at, kind, body and by."""
    return chain.seal("request", *row)
