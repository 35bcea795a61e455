"""State directories that came from elsewhere, with a clone or out of an archive, and what a person accepts as it is.

What lies in one steers what happens next: votes that wait, answers that are remembered, what is put back when a run is
undone. So one is only worked in where the heads outside of it know it, or where it bears the key of its user.
"""

from __future__ import annotations

import json
import os

from planrunner.errors import Hint, NextStep, NotFound, RecordMismatch, StorageFailed
from planrunner.fileio import turn
from planrunner.journal import leases
from planrunner.journal.audit import BITS, entries_of, plans_of, prove, read_heads, seal, sealed_rows, verify_journal
from planrunner.journal.chain import (
    KEY_VARIABLE,
    Chain,
    first_link,
    key_path,
    known_chain,
    mac_of,
    make_folder,
    make_heads,
    next_link,
)
from planrunner.journal.database import FILE, Connection, check_layout, failure, open_database, sqlite3
from planrunner.journal.inbox import cover_waiting
from planrunner.journal.proof import Sealed, Verdict, stored_form
from planrunner.journal.records import Lease
from planrunner.journal.workspace import check_contents

Json = object


_PLANS = "SELECT digest, text, name, notation, compiled FROM plans"


def begin(connection: Connection, chain: Chain) -> None:
    """Inside the transaction that makes the tables: name the journal. The name is the one that the heads of this place
    know, so that runs which they know and the journal has not are told."""
    chain.journal = chain.journal or chain.new_name()
    connection.execute("INSERT INTO audit VALUES (?)", (chain.journal,))


def adopt(connection: Connection, chain: Chain, row: Sealed) -> tuple[int, bytes]:
    """Inside a transaction: cover a run as it stands, all its events together under the mac of the last one, and the
    requests that wait for it. Gives that event and its link. Raises the errors of SQLite, ValueError and TypeError for
    what cannot be covered."""
    link, seq = first_link(row.run, row.plan_id, row.plan_digest, row.created), 0
    for number, at, kind, version, body, _, _ in entries_of(connection, row.number):
        if number != seq + 1:
            raise ValueError(f"event {seq + 1} of run `{row.run}` is missing")
        link, seq = next_link(link, stored_form(number, at, kind, version, body)), number
    mac = None if chain.key is None else mac_of(link, chain.key)
    connection.execute("UPDATE entries SET mac = ? WHERE id = ?", (mac, row.number << BITS | seq))
    now = row._replace(since=max(seq, 1))
    connection.execute(
        "UPDATE runs SET since = ?, seal = ? WHERE number = ?", (now.since, chain.seal(*now[:-1]), row.number)
    )
    for digest in plans_of(connection, row):
        for plan in connection.execute(f"{_PLANS} WHERE digest = ?", (digest,)).fetchall():
            connection.execute("UPDATE plans SET seal = ? WHERE digest = ?", (chain.seal(*plan), plan[0]))
    cover_waiting(connection, chain, row.run)
    return seq, link


_BELIEVED = ("artifacts", "cache", "memory", "tmp")
"""Folders whose files count when they are found again; locks mean nothing without a process, logs are for people."""

_SEALED = (
    "SELECT number, run, plan_id, plan_digest, created, since, epoch, status, ended, seal FROM runs ORDER BY 1 DESC"
)


def refuse_foreign(state: str, chain: Chain) -> None:
    """Raises RecordMismatch for a state directory that this user's planrunner never worked in, and that is not empty.
    The heads of the chain have been asked for; without a key nothing can be told."""
    if chain.key is None or _known(state, chain) or not (why := _foreign(state, chain)):
        return
    chain.close()
    chain.open_heads()
    if not _known(state, chain):  # else another process was first just now
        raise foreign_error(state, why)


def foreign_error(state: str, why: str) -> RecordMismatch:
    """The refusal of a state directory that came from elsewhere."""
    return RecordMismatch(
        f"the state directory `{state}` was not written by your planrunner and is not used: {why} (`state.foreign`)",
        Hint(
            f"if it is yours, made with another HOME: name its key in {KEY_VARIABLE}; else move it away; "
            "or look through it, then take it as it is with ",
            NextStep("audit accept", "--because", "WHY"),
            "; one of your own has the HOME or XDG_DATA_HOME of its first run",
        ),
    )


def foreign_warning(state: str) -> str:
    """A warning for commands that only read: that a state directory came from elsewhere; empty if it did not."""
    if not os.path.isdir(state):
        return ""
    chain = known_chain(state)
    try:
        chain.open_heads(write=False)
        refuse_foreign(state, chain)
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
        what = f"what it left there lies in {aside} now" if left else "nothing of it is left"
    except OSError as error:
        what = f"what it left there could not be moved aside: {error.strerror}"
    path, name = os.path.join(state, FILE), os.path.basename(state)
    return StorageFailed(
        f"the journal of this run is gone: {path} was removed or replaced during the run, which ends here; {what}",
        Hint(f"fix the task that did it (`git clean` needs `-e {name}`), then run ", NextStep("exec"), " again"),
    )


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
        refuse_foreign(state, chain)
        chain.journal = chain.journal or _name_of(connection)
        prove(connection, chain, run)
    finally:
        chain.close()


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
            return prepared(state)  # a writer reports the damage
        try:
            check_layout(connection, path)
            return "" if _bears_key(connection, chain) else f"its journal does not bear your key {key_path()}"
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


def accept(state: str, run: str | None, said: dict[str, Json]) -> Verdict:
    """Cover every run that breaks, or one, as it stands from now on, and forget the heads of runs that are gone.
    ``said`` (who, when, why) is kept with what was found; gives that. Raises NotFound, RunHeld, StorageFailed,
    RecordMismatch for one run of a place that came from elsewhere: what else lies there would count as well."""
    verdict = _verdict(state, run)
    chain = known_chain(state)
    try:
        if chain.key is None:
            raise StorageFailed(
                f"there is no audit key to accept with: {chain.unchained}", Hint(NextStep("exec"), " makes one")
            )
        heads, _ = read_heads(chain)
        if run is not None:
            refuse_foreign(state, chain)
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
        return verify_journal(state, run)
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
    lock, _ = leases.open_lock(state, readonly=False)
    assert lock is not None, "a writer shares the lock"
    try:
        with turn(state):
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
    lock = leases.lock_run(state, row.name)
    try:
        connection.execute("BEGIN IMMEDIATE")
        row = next((each for each in sealed_rows(connection, row.run) if each.number == row.number), row)
        handle = Lease(row.name, row.epoch, 0)
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
        leases.unlock_run(state, row.name, lock)


def accepted_path(chain: Chain) -> str:
    """The file that tells what people accepted of a journal; empty where no heads are kept."""
    return f"{os.path.splitext(chain.heads_path)[0]}.accepted.jsonl" if chain.heads_path else ""
