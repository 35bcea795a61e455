"""What other processes ask of a run: left in a table, found by whoever holds the run, answered with what follows."""

from __future__ import annotations

from planrunner.errors import NotFound
from planrunner.journal.database import Connection
from planrunner.journal.records import Answer, Request
from planrunner.journal.store import Store
from planrunner.jsontext import read_json, write_json
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_POST = "INSERT INTO requests (run, at, kind, body, by) VALUES (?, ?, ?, ?, ?)"
_WAITING = "SELECT kind, body, by, id, at FROM requests WHERE run = ? AND result IS NULL ORDER BY id"
_ANSWER = "UPDATE requests SET result = ? WHERE id = ? AND result IS NULL"


class Requests(Store):
    """The part of a journal that several processes write for one run. Answers are written by the holder of the run."""

    __slots__ = ("_version",)

    def __init__(self, connection: Connection, path: str) -> None:
        super().__init__(connection, path)
        self._version = -1

    def post(self, run: str, request: Request) -> int:
        """Leave a request for whoever holds the run; its number, by which ``answered`` tells what became of it.

        The holder finds it within a moment; where nobody holds the run it waits, and whoever posted it may hold the
        run and answer it. Raises StorageFailed.
        """
        number: list[int] = []
        row = (run, request.at, request.kind, write_json(request.body), request.by)
        self._transact(lambda: number.append(self._connection.execute(_POST, row).lastrowid or 0))
        return number[0]

    def waiting(self, run: str) -> list[Request]:
        """The requests for a run that have no answer yet, in the order in which they were posted."""
        found = self._query(_WAITING, run)
        return [Request(kind, read_json(body), by, number, at) for kind, body, by, number, at in found]

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

    def _store_answers(self, answers: Sequence[tuple[int, Answer]]) -> None:
        """Inside the transaction of what follows from the requests."""
        for number, answer in answers:
            self._connection.execute(_ANSWER, (write_json(answer), number))
