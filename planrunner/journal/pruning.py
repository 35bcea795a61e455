"""Takes runs that have ended out of the journal.

Of each a record stays under the seal of the key: which run it was, how many events it had and the link of the last. By
it verification tells a run that was pruned from one that was cut.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from planrunner.errors import UsageError
from planrunner.journal import locks
from planrunner.journal.breaks import breaks_of, cut, is_ours
from planrunner.journal.chain import Chain, Head
from planrunner.journal.database import Connection
from planrunner.journal.store import Store
from planrunner.journal.takeover import refused
from planrunner.journal.walking import BITS, Break, plans_of, sealed_rows

if TYPE_CHECKING:
    from planrunner.journal.records import RunRow


PRUNED = 7
"""The version of the tables that brought the records of pruned runs."""

_RECORDS = (
    "SELECT number, run, plan_id, created, status, ended, last_seq, link, at, by, seal FROM pruned ORDER BY number"
)
_KEEP = "INSERT INTO pruned VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_REMOVE = ("DELETE FROM requests WHERE run = ?", "DELETE FROM notes WHERE run = ?", "DELETE FROM runs WHERE run = ?")


class Pruned(NamedTuple):
    """The record of a pruned run as it is stored, whatever anybody made of its types: the row that the run had, its
    last event and the link of that, when it was pruned (seconds since 1970) and by whom."""

    number: int
    run: Any
    plan_id: Any
    created: Any
    status: Any
    ended: Any
    last_seq: Any
    link: Any
    at: Any
    by: Any
    seal: Any


def records(connection: Connection) -> list[Pruned]:
    """The records of all pruned runs. Raises the errors of SQLite."""
    if int(connection.execute("PRAGMA user_version").fetchone()[0]) < PRUNED:
        return []  # an older planrunner wrote the journal, and nobody has written since
    return [Pruned(*row) for row in connection.execute(_RECORDS)]


class Pruning(Store):
    """Removes runs from a journal that is open for writing, by its connection and under its ``lock``."""

    __slots__ = ("_chain", "_lock", "_state")

    def __init__(
        self, connection: Connection, path: str, chain: Chain, state: str, lock: locks.JournalLock | None
    ) -> None:
        super().__init__(connection, path)
        self._chain = chain
        self._state = state
        self._lock = lock

    def remove(self, row: RunRow, at: float, by: str) -> None:
        """Take a run that has ended, and stands as ``row`` tells, out of the journal; a record of it stays. Durable on
        return. Raises RunHeld, UsageError for a run that was taken up since, RecordMismatch, StorageFailed."""
        lock = locks.lock_run(self._state, row.run)
        try:
            self._transact(lambda: _prune(self._connection, self._chain, row, at, by))
        finally:
            locks.unlock_run(self._state, row.run, lock)

    def drop_plans(self) -> None:
        """Remove the plans that no run has, unless another process is at work here: it may be about to use one.
        Raises StorageFailed."""
        if self._lock is not None and self._lock.alone():
            try:
                self._transact(lambda: _drop_plans(self._connection))
            finally:
                self._lock.share()

    def pruned(self) -> list[str]:
        """The ids of the runs that were pruned."""
        return [str(each.run) for each in records(self._connection)]


def _prune(connection: Connection, chain: Chain, row: RunRow, at: float, by: str) -> None:
    """Inside a transaction, by whoever has the lock of the run: put the record in the place of a run that stands as
    ``row`` tells. Raises UsageError where it does not any more, RecordMismatch for a run that is not what was written,
    StorageFailed for damaged heads, the errors of SQLite."""
    found = sealed_rows(connection, row.run)
    if not found or not row.status or (found[0].status, found[0].epoch) != (row.status, row.epoch):
        raise UsageError(f"run {row.run} has not ended", f"planrunner show {row.run}")
    sealed = found[0]
    walked, breaks = breaks_of(connection, chain, sealed, chain.head(sealed.number))
    if breaks and chain.key is not None:
        raise refused(row.run, breaks[0].message)
    kept = (sealed.number, row.run, row.plan_id, row.created, row.status, row.ended, walked.seq, walked.link, at, by)
    connection.execute(_KEEP, (*kept, chain.seal(*kept)))
    first = sealed.number << BITS
    connection.execute("DELETE FROM entries WHERE id >= ? AND id < ?", (first, first + (1 << BITS)))
    for statement in _REMOVE:
        connection.execute(statement, (row.run,))


def _drop_plans(connection: Connection) -> None:
    """Inside a transaction, with nobody else at work in the journal: remove the plans that no run has. Raises the
    errors of SQLite."""
    used = {digest for row in sealed_rows(connection) for digest in plans_of(connection, row)}
    stored = [digest for (digest,) in connection.execute("SELECT digest FROM plans")]
    for digest in stored:
        if digest not in used:
            connection.execute("DELETE FROM plans WHERE digest = ?", (digest,))


def seal(connection: Connection, chain: Chain, runs: Container[str]) -> set[int]:
    """Seal the records of ``runs`` as they stand; the numbers of the other pruned runs. Raises the errors of SQLite."""
    found = records(connection)
    for each in found:
        if each.run in runs:
            connection.execute("UPDATE pruned SET seal = ? WHERE number = ?", (chain.seal(*each[:-1]), each.number))
    return {each.number for each in found if each.run not in runs}


def record_breaks(chain: Chain, heads: dict[int, Head], found: Iterable[Pruned]) -> list[Break]:
    """The records that are not what was written, and those whose head knows more of the run."""
    return [each for record in found for each in _breaks(chain, heads.get(record.number), record)]


def _breaks(chain: Chain, head: Head | None, record: Pruned) -> list[Break]:
    run = str(record.run)
    if chain.key is None:
        return [Break(run, 0, "key", f"nothing can be compared: {chain.unchained}")]
    if record.seal is None:
        return [Break(run, 0, "unchained", "the record that the run was pruned bears no seal: made without a key")]
    if not is_ours(chain, record.seal):
        return [Break(run, 0, "key", "the run was pruned under another key, which is not here")]
    if record.seal != chain.seal(*record[:-1]):
        return [Break(run, 0, "pruned", "the record that the run was pruned is not the one that was written")]
    if head is None:
        return []
    if not run.startswith(head[3]):
        return [Break(run, 0, "head", f"in its place the head knows run `{head[3]}`")]
    if head[0] > record.last_seq:
        return [cut(run, record.last_seq, head[0])]
    if head[0] == record.last_seq and head[2] != record.link:
        return [Break(run, head[0], "head", f"event {head[0]} is not the one that its head knows")]
    return []
