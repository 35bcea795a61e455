"""State directories that came from elsewhere, with a clone or out of an archive.

What lies in one steers what happens next: votes that wait, answers that are remembered, what is put back when a run is
undone. So one is only worked in where the heads outside of it know it, or where it bears the key of its user.
"""

from __future__ import annotations

import os

from planrunner.errors import NotFound, RecordMismatch, StorageFailed
from planrunner.journal.adopting import begin
from planrunner.journal.chain import Chain
from planrunner.journal.database import CHAINED, FILE, Connection, check_layout, failure, open_database, sqlite3
from planrunner.journal.takeover import prove
from planrunner.journal.verifying import known_chain
from planrunner.journal.walking import Sealed
from planrunner.journal.workspace import program

_BELIEVED = ("artifacts", "cache", "tmp")
"""Folders whose files count when they are found again; locks mean nothing without a process, logs are for people."""

_SEALED = (
    "SELECT number, run, plan_id, plan_digest, created, since, epoch, status, ended, seal FROM runs ORDER BY 1 DESC"
)
_SOMETHING = "SELECT 1 FROM runs UNION ALL SELECT 1 FROM plans UNION ALL SELECT 1 FROM requests LIMIT 1"


def refuse_stranger(state: str, chain: Chain) -> None:
    """Raises RecordMismatch for a state directory that this user's planrunner never worked in, and that is not empty.
    The heads of the chain have been asked for; without a key nothing can be told."""
    if chain.key is None or _known(state, chain) or not (why := _foreign(state, chain)):
        return
    chain.close()
    chain.open_heads()
    if not _known(state, chain):  # else another process was first just now
        raise strange(state, why)


def strange(state: str, why: str) -> RecordMismatch:
    """The refusal of a state directory that came from elsewhere."""
    return RecordMismatch(
        f"the state directory `{state}` was not written by your planrunner, so nobody acts on what lies in it: {why}"
        " (`state.foreign`)",
        f"move it away; or look through it, then take it as it is with `{program(state)} audit accept --because WHY`",
    )


def stranger(state: str) -> str:
    """For whoever only reads: that a state directory came from elsewhere, in a sentence; empty where it did not."""
    if not os.path.isdir(state):
        return ""
    chain = known_chain(state)
    try:
        chain.open_heads(write=False)
        refuse_stranger(state, chain)
    except RecordMismatch as error:
        return error.message
    finally:
        chain.close()
    return ""


def lost(state: str, run: str) -> StorageFailed:
    """The error of a run whose journal was removed or replaced under it. What the run left where only runs leave
    something is moved aside: it belongs to no journal any more, and the next run would take the place for foreign."""
    aside = os.path.join(state, "lost", run)
    left = [name for name in _BELIEVED if os.path.lexists(os.path.join(state, name))]
    try:
        for name in left:
            os.makedirs(aside, mode=0o700, exist_ok=True)
            os.rename(os.path.join(state, name), os.path.join(aside, name))
    except OSError as error:
        return _lost(state, f"what it left there could not be moved aside: {error.strerror}")
    return _lost(state, f"what it left there lies in {aside} now" if left else "nothing of it is left")


def _lost(state: str, what: str) -> StorageFailed:
    path, name = os.path.join(state, FILE), os.path.basename(state)
    return StorageFailed(
        f"the journal of this run is gone: {path} was removed or replaced during the run, which ends here; {what}",
        f"mend the task that did it (`git clean` needs `-e {name}`), then run `planrunner exec` again",
    )


def begin_own(connection: Connection, chain: Chain, state: str) -> None:
    """Inside the migration that brings the chain: begin it for a journal that holds nothing yet. What an older layout
    holds was vouched for by nobody. Raises RecordMismatch for that; without a key it is taken as it is."""
    if chain.key is not None and connection.execute(_SOMETHING).fetchone():
        raise strange(state, "its journal is of a layout that nothing vouches for")
    begin(connection, chain)


def prove_run(connection: Connection, chain: Chain | None, state: str, run: str) -> None:
    """Compare a run with its chain; without ``chain``, as who only reads has none, with that of the place. Raises as
    ``takeover.prove``, and RecordMismatch for a place that came from elsewhere."""
    try:
        if chain is not None:
            prove(connection, chain, run)
        else:
            _prove_read(connection, state, run)
    except sqlite3.Error as error:
        raise failure(error, os.path.join(state, FILE)) from error


def _prove_read(connection: Connection, state: str, run: str) -> None:
    chain = known_chain(state)
    try:
        chain.open_heads(write=False)
        refuse_stranger(state, chain)
        chain.journal = chain.journal or _name_of(connection)
        prove(connection, chain, run)
    finally:
        chain.close()


def open_checked(state: str) -> Connection:
    """A connection for reading to a journal that is laid out as planrunner does it; raises as ``open_database``."""
    connection, path = open_database(state), os.path.join(state, FILE)
    try:
        check_layout(connection, path)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise failure(error, path) from error
        raise
    return connection


def _known(state: str, chain: Chain) -> bool:
    """Whether there are heads of the place; those of a journal that is gone say nothing of what lies there now."""
    return chain.anchored and os.path.lexists(os.path.join(state, FILE))


def _foreign(state: str, chain: Chain) -> str:
    """Why a place without heads is not taken for one's own; empty where there is nothing to believe."""
    path = os.path.join(state, FILE)
    if os.path.lexists(path):
        try:
            connection = open_database(state)
        except (NotFound, StorageFailed):
            return prepared(state)  # whoever writes tells of the damage, and brings an older layout up to date
        try:
            check_layout(connection, path)
            if connection.execute("PRAGMA user_version").fetchone()[0] >= CHAINED:
                return "" if _bears_key(connection, chain) else "its journal does not bear your key"
        except sqlite3.Error as error:
            raise failure(error, path) from error
        finally:
            connection.close()
    return prepared(state)


def _bears_key(connection: Connection, chain: Chain) -> bool:
    """Whether the journal or any run in it was made with the key: a project that was moved or copied is still its
    user's."""
    before, chain.journal = chain.journal, _name_of(connection)
    try:
        if chain.is_own(chain.journal):
            return True
        rows = map(Sealed._make, connection.execute(_SEALED))
        return any(row.seal is not None and row.seal == chain.seal(*row[:-1]) for row in rows)
    finally:
        chain.journal = before


def _name_of(connection: Connection) -> bytes:
    named = connection.execute("SELECT journal FROM audit").fetchone()
    return named[0] if named and isinstance(named[0], bytes) else b""


def prepared(state: str) -> str:
    """Which file lies where only runs leave some, in a sentence; empty where none does."""
    for folder in _BELIEVED:
        for here, folders, files in os.walk(os.path.join(state, folder)):
            for name in (*files, *folders):
                path = os.path.join(here, name)
                if name in files or os.path.islink(path):
                    return f"`{path}` belongs to no journal"
    return ""
