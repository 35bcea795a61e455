"""Taking up a run that stands in the journal: nobody acts on events that were not written by a holder of the key."""

from __future__ import annotations

from planrunner.errors import RecordMismatch
from planrunner.journal.adopting import adopt
from planrunner.journal.breaks import breaks_of
from planrunner.journal.walking import sealed_rows
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.journal.chain import Chain
    from planrunner.journal.database import Connection
    from planrunner.journal.records import RunHandle


def take_up(connection: Connection, chain: Chain, handle: RunHandle) -> None:
    """Inside a transaction: raise the epoch of a run and give the handle what it goes on from.

    A run of another key is taken as it stands where this key has never seen this place, as in a fresh container. Raises
    RecordMismatch for a run that is not what was written, StorageFailed for damaged heads, the errors of SQLite.
    """
    row = sealed_rows(connection, handle.run)[0]
    if chain.key is not None:
        head = chain.head(row.number)
        walked, found = breaks_of(connection, chain, row, head)
        handle.link = walked.link
        if found and found[0].kind in ("key", "unchained") and not chain.count():
            try:
                seq, handle.link = adopt(connection, chain, row)
            except (ValueError, TypeError) as error:
                raise refused(handle.run, str(error)) from error
            row, found = row._replace(since=max(seq, 1)), []
        if found:
            raise refused(handle.run, found[0].message)
    handle.number, handle.epoch = row.number, row.epoch + 1
    handle.row = row[:6]
    seal = chain.seal(*handle.row, handle.epoch, row.status, row.ended)
    connection.execute("UPDATE runs SET epoch = ?, seal = ? WHERE number = ?", (handle.epoch, seal, row.number))


def refused(run: str, why: str) -> RecordMismatch:
    """The error for a run that is not what was written."""
    return RecordMismatch(
        f"run `{run}` is not what was written, so nobody acts on it: {why}",
        f"`planrunner audit verify {run}` tells more; restore the state directory from a copy, or take the run as it is"
        f" with `planrunner audit accept {run}`",
    )
