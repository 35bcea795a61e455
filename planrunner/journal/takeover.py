"""Taking up a run that stands in the journal: nobody acts on events that were not written by a holder of the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planrunner.errors import RecordMismatch
from planrunner.journal.breaks import breaks_of
from planrunner.journal.chain import Chain, Head
from planrunner.journal.walking import Sealed, sealed_rows

if TYPE_CHECKING:
    from planrunner.journal.database import Connection
    from planrunner.journal.records import RunHandle


def take_up(connection: Connection, chain: Chain, handle: RunHandle) -> None:
    """Inside a transaction: raise the epoch of a run and give the handle what it goes on from.

    Raises RecordMismatch for a run that is not what was written, or was written under another key; StorageFailed for
    damaged heads; the errors of SQLite.
    """
    row = sealed_rows(connection, handle.run)[0]
    handle.link = _compared(connection, chain, row, chain.head(row.number))
    handle.number, handle.epoch = row.number, row.epoch + 1
    handle.row = row[:6]
    seal = chain.seal(*handle.row, handle.epoch, row.status, row.ended)
    connection.execute("UPDATE runs SET epoch = ?, seal = ? WHERE number = ?", (handle.epoch, seal, row.number))


def prove(connection: Connection, chain: Chain, run: str) -> None:
    """Compare a run that another process may hold. Raises as ``take_up``."""
    if chain.key is None:
        return
    head = chain.head(sealed_rows(connection, run)[0].number)  # first: the events go at least as far
    connection.execute("BEGIN")  # row and events of one moment
    try:
        _compared(connection, chain, sealed_rows(connection, run)[0], head)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _compared(connection: Connection, chain: Chain, row: Sealed, head: Head | None) -> bytes:
    """The last link of a run that is what was written; without a key nothing is compared, and there is none."""
    if chain.key is None:
        return b""
    walked, found = breaks_of(connection, chain, row, head)
    if found:
        raise refused(row.name, found[0].message)
    return walked.link


def refused(run: str, why: str) -> RecordMismatch:
    """The error for a run that is not what was written."""
    return RecordMismatch(
        f"run `{run}` is not what was written, so nobody acts on it: {why}",
        f"`planrunner audit verify {run}` tells more; restore the state directory from a copy, or take the run as it is"
        f" with `planrunner audit accept {run}`",
    )
