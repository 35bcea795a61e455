"""A person takes a journal as it stands: what verification told of it is kept outside the state directory."""

from __future__ import annotations

import json
import os

from planrunner.errors import NotFound, StorageFailed
from planrunner.journal import locks
from planrunner.journal.adopting import adopt, begin
from planrunner.journal.anchoring import make_folder, make_heads
from planrunner.journal.chain import Chain
from planrunner.journal.database import FILE, Connection, failure, open_database, sqlite3
from planrunner.journal.pruning import seal
from planrunner.journal.records import RunHandle
from planrunner.journal.strangers import prepared, refuse_stranger
from planrunner.journal.verifying import Verdict, accepted_path, known_chain, read_heads, verify
from planrunner.journal.walking import Sealed, sealed_rows
from planrunner.journal.workspace import check_contents

Json = object


def accept(state: str, run: str | None, said: dict[str, Json]) -> Verdict:
    """Cover every run that breaks, or one, as it stands from now on, and forget the heads of runs that are gone.
    ``said`` (who, when, why) is kept with what was found; gives that. Raises NotFound, RunHeld, StorageFailed,
    RecordMismatch for one run of a place that came from elsewhere: what else lies there would count as well."""
    verdict = _verdict(state, run)
    chain = known_chain(state)
    try:
        if chain.key is None:
            raise StorageFailed(
                f"there is no audit key to accept with: {chain.unchained}", "`planrunner exec` makes one"
            )
        heads, _ = read_heads(chain)
        if run is not None:
            refuse_stranger(state, chain)
        chain.close()
        _keep(chain, {**said, "run": run, "breaks": [each._asdict() for each in verdict.breaks]})
        broken = {each.run for each in verdict.breaks if each.run}
        there = _adopt_all(state, chain, broken, whole=run is None)
        chain.close()
        chain.open_heads()
        for number, (_, _, _, name) in heads.items():
            if number not in there and (run is None or name == run):
                chain.forget(number)
        return verdict
    finally:
        chain.close()


def accepted(state: str) -> list[dict[str, Json]]:
    """What people accepted of this journal, the first first."""
    path = accepted_path(known_chain(state))
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except (OSError, ValueError):
        return []


def _verdict(state: str, run: str | None) -> Verdict:
    """What verification finds; nothing where files lie in a place that has no journal yet."""
    try:
        return verify(state, run)
    except NotFound:
        if run is not None or not prepared(state):
            raise
        return Verdict((), (), "")


def _keep(chain: Chain, told: dict[str, Json]) -> None:
    path = accepted_path(chain)
    try:
        make_folder(os.path.dirname(path))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "a", encoding="utf-8") as file:
            file.write(json.dumps(told, ensure_ascii=True) + "\n")
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        raise StorageFailed(f"what is accepted cannot be kept in `{path}`: {error.strerror}") from error


def _adopt_all(state: str, chain: Chain, broken: set[str], whole: bool) -> set[int]:
    """The numbers of all runs there are."""
    if not (os.path.lexists(os.path.join(state, FILE)) or prepared(state)):
        return set()
    check_contents(state)
    lock, _ = locks.open_lock(state, readonly=False)
    assert lock is not None, "whoever writes shares the lock"
    try:
        return _adopt_shared(state, chain, broken, whole)
    finally:
        lock.close()


def _adopt_shared(state: str, chain: Chain, broken: set[str], whole: bool) -> set[int]:
    connection = open_database(state, lambda connection: begin(connection, chain))
    try:
        journal = connection.execute("SELECT journal FROM audit").fetchone()
        _open_for(chain, journal[0] if journal else b"")
        rows = sealed_rows(connection)
        for row in rows:
            if row.name in broken or (whole and (row.seal is None or chain.head(row.number) is None)):
                _adopt(state, connection, chain, row)
        return {row.number for row in rows} | seal(connection, chain, broken)
    except sqlite3.Error as error:
        raise failure(error, os.path.join(state, FILE)) from error
    finally:
        connection.close()


def _open_for(chain: Chain, journal: bytes) -> None:
    """The heads of this journal; those of another one that was here make room."""
    try:
        chain.open_heads()
    except StorageFailed:
        chain.journal = b""
    if chain.anchored and chain.journal == journal:
        return
    chain.close()
    if os.path.lexists(chain.heads_path):
        os.unlink(chain.heads_path)
    chain.journal = journal
    make_heads(chain, journal)


def _adopt(state: str, connection: Connection, chain: Chain, row: Sealed) -> None:
    lock = locks.lock_run(state, row.name)
    try:
        connection.execute("BEGIN IMMEDIATE")
        row = next((each for each in sealed_rows(connection, row.run) if each.number == row.number), row)
        handle = RunHandle(row.name, row.epoch, 0)
        try:
            handle.last_seq, handle.link = adopt(connection, chain, row)
            connection.execute("COMMIT")
        except (ValueError, TypeError, AttributeError) as error:
            connection.execute("ROLLBACK")
            raise StorageFailed(
                f"run `{row.name}` cannot be taken as it stands: {error}", "restore the state directory from a copy"
            ) from error
        handle.number = row.number
        chain.note(handle)
    finally:
        locks.unlock_run(state, row.name, lock)
