"""The journal in SQLite: one database for a workspace, one writer at a time, durable when ``append`` returns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from planrunner.errors import Fenced, Hint, NextStep, NotFound, StorageFailed, UsageError
from planrunner.journal import leases
from planrunner.journal.chain import Chain, anchor, first_link, key_path, make_key, read_key
from planrunner.journal.codec import decode_rows, encode_rows
from planrunner.journal.database import FILE, Connection, Store, WriteAheadLog, open_checked, open_database, sqlite3
from planrunner.journal.inbox import Requests
from planrunner.journal.leases import JournalLock
from planrunner.journal.records import (
    WHOLE,
    Answer,
    Ended,
    Head,
    Holder,
    Lease,
    NewRun,
    RunRow,
    StoredPlan,
    check_order,
    ending,
    no_match,
    only_match,
)
from planrunner.later import Later
from planrunner.machine.events import Entry
from planrunner.records import astuple

if TYPE_CHECKING:
    from planrunner.journal.audit import plans_of, pruned_rows, refused, sealed_rows, stored_run, take_up
    from planrunner.journal.foreign import begin, lost, prove_run, refuse_foreign
    from planrunner.journal.proof import walk
else:
    plans_of = Later("planrunner.journal.audit:plans_of")
    pruned_rows = Later("planrunner.journal.audit:pruned_rows")
    refused = Later("planrunner.journal.audit:refused")
    sealed_rows = Later("planrunner.journal.audit:sealed_rows")
    stored_run = Later("planrunner.journal.audit:stored_run")
    take_up = Later("planrunner.journal.audit:take_up")
    begin = Later("planrunner.journal.foreign:begin")
    lost = Later("planrunner.journal.foreign:lost")
    prove_run = Later("planrunner.journal.foreign:prove_run")
    refuse_foreign = Later("planrunner.journal.foreign:refuse_foreign")
    walk = Later("planrunner.journal.proof:walk")


_BITS = 32
"""Bits of an entry's id that hold its seq; those above hold the number of its run."""

_PAGE = 512
_RECORD = "INSERT INTO pruned VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_REMOVE = ("DELETE FROM requests WHERE run = ?", "DELETE FROM notes WHERE run = ?", "DELETE FROM runs WHERE run = ?")
_CACHED_PLANS = 200
_EXEC = Hint("run ", NextStep("exec"), " again")
"""What to do after a failure that left no run behind."""

_STORED_POSITION = (
    "SELECT epoch, status, (SELECT max(id) FROM entries WHERE id BETWEEN ? AND ?) FROM runs WHERE run = ?"
)
_ENDING = "UPDATE runs SET status = ?, ended = ?, seal = ? WHERE run = ?"
_INSERT = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)"
_ROW = (
    "INSERT INTO runs (number, run, plan_id, plan_digest, created, since, epoch, status, ended, seal)"
    " VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?)"
)
_READ = "SELECT id & 4294967295, at, kind, version, body FROM entries WHERE id > ? AND id < ? ORDER BY id LIMIT ?"
_BODIES = "SELECT id, kind, body FROM entries WHERE id > ? ORDER BY id LIMIT ?"
_KEPT = (
    "SELECT id >> 32, id & 4294967295, at, kind, version, body FROM entries"
    " WHERE kind = 'attempt_ended' AND instr(body, '\"artifacts\":[') ORDER BY id"
)
_NEWEST = "SELECT run FROM runs WHERE plan_digest <> '' ORDER BY number DESC LIMIT ?"
"""Refused plans are recorded in a row of ``runs`` without a plan, which is not a run."""
_LIKE = "SELECT run FROM runs WHERE plan_digest <> '' AND run LIKE ? ESCAPE '\\' ORDER BY number DESC"
_NAMES = "SELECT run, plan_id FROM runs WHERE plan_digest <> '' ORDER BY number DESC LIMIT ?"
_OF_PLAN = "SELECT run FROM runs WHERE plan_digest <> '' AND plan_id = ? ORDER BY number DESC LIMIT 1"
_LAST = "SELECT max(ifnull((SELECT max(number) FROM runs), 0), ifnull((SELECT max(number) FROM pruned), 0))"
_RUNS = (
    "SELECT run, plan_id, plan_digest, created, epoch,"
    " (SELECT ifnull(max(id) & 4294967295, 0) FROM entries WHERE id BETWEEN number << 32 AND (number + 1) << 32),"
    " status, ended FROM runs"
)

_HEADS = (
    "SELECT number, run, plan_id, plan_digest, created, epoch,"
    " (SELECT ifnull(max(id) & 4294967295, 0) FROM entries WHERE id BETWEEN number << 32 AND (number + 1) << 32),"
    " status, ended FROM runs WHERE plan_digest <> ''"
)
_ENDED = (
    f"SELECT count(*), ifnull(sum(CAST(ended * 1000000 AS INTEGER) % {WHOLE}), 0) FROM runs"  # noqa: S608
    " WHERE status <> '' AND plan_digest <> ''"
)


def open_journal(state: str, *, readonly: bool = False) -> Journal:
    """The journal of a state directory, which is made where it is missing (unless ``readonly``).

    Raises StorageFailed for a place or a database that cannot be used, NotFound for a read-only opening of nothing,
    RecordMismatch for writing in what came from elsewhere.
    """
    state = os.path.abspath(state)
    lock, notices = leases.open_lock(state, readonly)
    chain = None
    try:
        if readonly:
            return Journal(state, open_checked(state), lock, Chain(state, None))
        chain = _open_chain(state)
        if not (chain.anchored and os.path.lexists(os.path.join(state, FILE))):
            refuse_foreign(state, chain)
        journal = Journal(state, open_database(state, lambda connection: begin(connection, chain)), lock, chain)
    except BaseException:
        if chain is not None:
            chain.close()
        if lock is not None:
            lock.close()
        raise
    try:
        journal.bind()
    except BaseException:
        journal.close()
        raise
    journal.notices = notices
    if chain.unchained:
        way = "with XDG_DATA_HOME set to a folder that you may write it can"
        journal.notices += (f"what happens can not be proven later: {chain.unchained}; {way}",)
    return journal


def _open_chain(state: str) -> Chain:
    """The key is made with its first use. Raises StorageFailed for one that is not safe, and for damaged heads."""
    path = key_path()
    try:
        chain = Chain(state, read_key(path, state))
    except OSError:
        chain = make_key(path, state)
    chain.open_heads()
    return chain


class Records(Requests):
    """The part of a journal that readers use: the methods are described at the ports."""

    def __init__(self, state: str, connection: Connection, lock: JournalLock | None, chain: Chain) -> None:
        super().__init__(connection, os.path.join(state, FILE), chain)
        self._state = state
        self._lock = lock

    def entries(self, run: str, after: int = 0) -> Iterator[Entry]:
        found = self._query("SELECT number FROM runs WHERE run = ?", run)
        if not found:
            return
        first = found[0][0] << _BITS
        end = first + (1 << _BITS)
        while True:
            rows = self._query(_READ, first + after, end, _PAGE)
            yield from decode_rows(rows)
            if len(rows) < _PAGE:
                return
            after = rows[-1][0]

    def runs(self, limit: int = 100, offset: int = 0) -> list[RunRow]:
        rows = self._query(f"{_RUNS} WHERE plan_digest <> '' ORDER BY number DESC LIMIT ? OFFSET ?", limit, offset)
        return [_row_of(self, row) for row in rows]

    def run(self, run: str) -> RunRow:
        rows = self._query(f"{_RUNS} WHERE run = ?", run)
        if not rows:
            raise self._unknown(run)
        return _row_of(self, rows[0])

    def find_run(self, wanted: str) -> str:
        if wanted == "last":
            newest = self._query(_NEWEST, 1)
            if not newest:
                raise no_match(wanted, ())
            return str(newest[0][0])
        if self._query("SELECT 1 FROM runs WHERE run = ?", wanted):
            return wanted
        if of_plan := self._query(_OF_PLAN, wanted):
            return str(of_plan[0][0])
        like = wanted.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        for pattern in (f"{like}%", f"%-{like}"):
            rows = self._query(_LIKE, pattern)
            if rows and wanted:
                return only_match(wanted, [str(row[0]) for row in rows])
        raise self._unknown(wanted)

    def heads(self, after: int = 0) -> list[Head]:
        return [Head(*row) for row in self._query(f"{_HEADS} AND (number > ? OR status = '') ORDER BY number", after)]

    def head(self, number: int) -> Head | None:
        return next((Head(*row) for row in self._query(f"{_HEADS} AND number = ?", number)), None)

    def ended(self) -> Ended:
        return Ended(*self._query(_ENDED)[0])

    def leased(self) -> frozenset[str]:
        return leases.leased(self._state)

    def kept(self) -> Iterator[tuple[RunRow, Entry]]:
        kept = self._query(_KEPT)  # first: of a run that begins meanwhile nothing is told
        rows = {row[0]: row[1:] for row in self._query(_RUNS.replace("SELECT run", "SELECT number, run", 1))}
        runs: dict[int, RunRow] = {}
        for number, *row in kept:
            if number not in runs:
                runs[number] = _row_of(self, rows[number])
            yield runs[number], decode_rows([tuple(row)])[0]

    def texts(self) -> Iterator[tuple[str, str]]:
        last = -1
        while rows := self._query(_BODIES, last, _PAGE):
            yield from ((kind, body) for _, kind, body in rows)
            last = rows[-1][0]
        for query in ("SELECT text FROM plans", "SELECT body FROM requests"):
            yield from (("", str(row[0])) for row in self._query(query))

    def prove(self, run: str) -> None:
        prove_run(self._connection, self._chain if self._lock is not None else None, self._state, run)

    def is_leased(self, run: str) -> bool:
        return leases.is_locked(self._state, run)

    def holders(self) -> list[Holder]:
        return leases.holders(self._state)

    def check_free(self, run: str) -> None:
        if self.is_leased(run):
            raise leases.held_error(self._state, run)

    def plan(self, digest: str) -> StoredPlan:
        rows = self._query("SELECT digest, text, name, notation, compiled FROM plans WHERE digest = ?", digest)
        if not rows:
            raise NotFound(f"there is no plan with digest `{digest}` in the journal")
        return StoredPlan(*rows[0])

    def compiled_get(self, key: str) -> bytes | None:
        rows = self._query("SELECT CAST(value AS BLOB) FROM compiled WHERE key = ?", key)
        return self._chain.opened(key, rows[0][0]) if rows else None

    def _unknown(self, wanted: str) -> NotFound:
        rows = self._query(_NAMES, 1000)
        return no_match(wanted, list(dict.fromkeys(str(name) for row in rows for name in row)))


class Journal(Records):
    """One connection; use it from the thread that opened it. ``unchained`` is one of the ``notices``."""

    def __init__(self, state: str, connection: Connection, lock: JournalLock | None, chain: Chain) -> None:
        super().__init__(state, connection, lock, chain)
        self.unchained = chain.unchained
        self._log = WriteAheadLog(f"{self._path}-wal")
        self._file = OpenFile(state)

    def bind(self) -> None:
        """Called once when the journal is opened for writing. Raises RecordMismatch for a foreign journal."""
        named = self._query("SELECT journal FROM audit")
        if not (named and self._chain.anchored and named[0][0] == self._chain.journal):
            anchor(self._chain, named[0][0] if named else None, self._state)

    def create_run(self, new: NewRun, entries: Sequence[Entry] = ()) -> Lease:
        check_order(entries, 1)
        if not new.run.replace("-", "").replace("_", "").isalnum() or new.run == "journal":
            raise UsageError(f"`{new.run}` cannot name a run", "use letters, digits, hyphens and underscores")
        handle = Lease(new.run, 1, 0, leases.lock_run(self._state, new.run))
        try:
            self._transact(lambda: _insert_run(self._connection, self._chain, handle, new, entries), then=_EXEC)
        except BaseException as error:
            self.release(handle)
            if isinstance(error.__cause__, sqlite3.IntegrityError):
                raise UsageError(f"there is a run `{new.run}` already") from error
            raise
        handle.last_seq = len(entries)
        self._chain.note(handle)
        return handle

    def append(self, run: Lease, entries: Sequence[Entry], answers: Sequence[tuple[int, Answer]] = ()) -> None:
        if not (entries or answers):
            return
        if run.broken or run.lock < 0:
            raise StorageFailed(f"run `{run.run}` is not written to any more after a failure", _going_on(run))
        check_order(entries, run.last_seq + 1)
        rows, link = self._chain.extend(run.link, encode_rows(run.number << _BITS, entries))
        try:
            self.require_there(run.run)
            self._transact(lambda: self._advance(run, entries, rows, answers), then=_going_on(run))
        except BaseException:
            run.broken = True
            raise
        run.last_seq += len(rows)
        run.link = link
        self._chain.note(run)
        if self._lock is not None:
            self._log.checkpoint_if_long(self._connection, self._lock, len(rows))

    def require_there(self, run: str) -> None:
        self._file.require_there(run)

    def acquire(self, run: str) -> Lease:
        self.run(run)
        handle = Lease(run, 0, 0, leases.lock_run(self._state, run))

        def take_over() -> None:
            take_up(self._connection, self._chain, handle)
            handle.epoch, handle.last_seq, _ = self._stored_position(handle)

        try:
            self._transact(take_over)
        except BaseException:
            self.release(handle)
            raise
        self._chain.note(handle)
        return handle

    def renew(self, run: Lease) -> None:
        if run.lock < 0:
            raise StorageFailed(f"run `{run.run}` was released", _going_on(run))
        if self._query("SELECT epoch FROM runs WHERE run = ?", run.run) != [(run.epoch,)]:
            raise _overtaken(run)

    def release(self, run: Lease) -> None:
        if run.lock >= 0:
            descriptor, run.lock = run.lock, -1
            leases.unlock_run(self._state, run.run, descriptor)

    def keep_plan(self, plan: StoredPlan) -> None:
        self._transact(lambda: _insert_plan(self._connection, self._chain, plan))

    def compiled_put(self, key: str, value: bytes) -> None:
        vouched = self._chain.vouched(key, value)
        if vouched is not None:
            self._transact(lambda: _insert_compiled(self._connection, key, vouched), "OFF", _EXEC)

    def retention(self) -> Pruning:
        return Pruning(self._connection, self._path, self._chain, self._state, self._lock)

    def close(self) -> None:
        """Close the database; the last one out moves the write-ahead log into it."""
        try:
            if self._lock is not None:
                self._lock.close(self._connection.close)  # SQLite empties the log with the last connection
            else:
                self._connection.close()
        except (sqlite3.Error, OSError):
            pass  # what was acknowledged is in the log and will be found there
        finally:
            self._chain.close()

    def _advance(
        self,
        run: Lease,
        entries: Sequence[Entry],
        rows: Sequence[Sequence[object]],
        answers: Sequence[tuple[int, Answer]],
    ) -> None:
        """The row of the run changes with its status only: each page that a commit touches is written once more."""
        epoch, last_seq, known = self._stored_position(run)
        if (epoch, last_seq) != (run.epoch, run.last_seq):
            raise _overtaken(run)
        status, ended = ending(entries)
        if status or (known and entries):
            seal = self._chain.seal(*run.row, run.epoch, status, ended)
            self._connection.execute(_ENDING, (status, ended, seal, run.run))
        self._connection.executemany(_INSERT, rows)
        if answers:
            self._store_answers(answers)

    def _stored_position(self, run: Lease) -> tuple[int, int, str]:
        """Epoch, last seq and status as they are stored."""
        first = run.number << _BITS
        stored = self._connection.execute(_STORED_POSITION, (first, first + (1 << _BITS), run.run)).fetchone()
        if stored is None:
            return 0, 0, ""
        epoch, status, last = stored
        return epoch, (last or first) - first, status


class Pruning(Store):
    """Removes runs from a journal that is open for writing, by its connection and under its ``lock``."""

    def __init__(self, connection: Connection, path: str, chain: Chain, state: str, lock: JournalLock | None) -> None:
        super().__init__(connection, path)
        self._chain = chain
        self._state = state
        self._lock = lock

    def remove(self, row: RunRow, at: float, by: str) -> None:
        lock = leases.lock_run(self._state, row.run)
        try:
            self._transact(lambda: _prune(self._connection, self._chain, row, at, by))
        finally:
            leases.unlock_run(self._state, row.run, lock)

    def drop_plans(self) -> None:
        if self._lock is not None and self._lock.alone():
            try:
                self._transact(lambda: _drop_plans(self._connection))
            finally:
                self._lock.share()

    def pruned(self) -> list[str]:
        return [str(each.run) for each in pruned_rows(self._connection)]


def _row_of(journal: Records, row: tuple[Any, ...]) -> RunRow:
    while True:
        run_row = RunRow(*row)
        held = journal.is_leased(run_row.run)
        again = [] if held or run_row.status else journal._query(f"{_RUNS} WHERE run = ?", run_row.run)
        if again in ([], [row]):
            return run_row._replace(leased=held)
        row = again[0]  # it may have ended after it was read and before that was asked


def _insert_run(connection: Connection, chain: Chain, handle: Lease, new: NewRun, entries: Sequence[Entry]) -> None:
    if new.plan is not None:
        _insert_plan(connection, chain, new.plan)
    ((last,),) = connection.execute(_LAST).fetchall()
    handle.number = max(last, chain.count()) + 1  # never one that the heads know of a run that is gone
    created = new.created + 0.0
    handle.row = (handle.number, new.run, new.plan_id, new.plan_digest, created, 1)
    status, ended = ending(entries)
    seal = chain.seal(*handle.row, 1, status, ended)
    connection.execute(_ROW, (*handle.row, status, ended, seal))
    first = first_link(new.run, new.plan_id, new.plan_digest, created)
    rows, handle.link = chain.extend(first, encode_rows(handle.number << _BITS, entries))
    connection.executemany(_INSERT, rows)


def _insert_plan(connection: Connection, chain: Chain, plan: StoredPlan) -> None:
    made = connection.execute("INSERT OR IGNORE INTO plans VALUES (?, ?, ?, ?, ?, NULL)", astuple(plan))
    if made.rowcount == 1:
        connection.execute("UPDATE plans SET seal = ? WHERE digest = ?", (chain.seal(*astuple(plan)), plan.digest))


def _insert_compiled(connection: Connection, key: str, value: bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO compiled (key, value) VALUES (?, ?)", (key, value))
    connection.execute("DELETE FROM compiled WHERE number <= (SELECT max(number) FROM compiled) - ?", (_CACHED_PLANS,))


def _overtaken(run: Lease) -> Fenced:
    return Fenced(
        f"another runner took over run `{run.run}`; this one stops writing",
        Hint("see ", NextStep("show", run.run)),
    )


def _going_on(run: Lease) -> Hint:
    return Hint("continue with ", NextStep("resume", run.run))


def _prune(connection: Connection, chain: Chain, row: RunRow, at: float, by: str) -> None:
    """Inside a transaction, with the lock of the run: replace a run that still is as ``row`` says by its
    record. Raises UsageError where it does not any more, RecordMismatch for a run that is not what was written,
    StorageFailed for damaged heads, the errors of SQLite."""
    rows = sealed_rows(connection, row.run)
    if not rows or not row.status or (rows[0].status, rows[0].epoch) != (row.status, row.epoch):
        raise UsageError(f"run {row.run} has not ended", NextStep("show", row.run))
    sealed = rows[0]
    walked, breaks = walk(stored_run(connection, sealed), chain, chain.head(sealed.number))
    if breaks and chain.key is not None:
        raise refused(row.run, breaks[0].message)
    kept = (sealed.number, row.run, row.plan_id, row.created, row.status, row.ended, walked.seq, walked.link, at, by)
    connection.execute(_RECORD, (*kept, chain.seal(*kept)))
    first = sealed.number << _BITS
    connection.execute("DELETE FROM entries WHERE id >= ? AND id < ?", (first, first + (1 << _BITS)))
    for statement in _REMOVE:
        connection.execute(statement, (row.run,))


def _drop_plans(connection: Connection) -> None:
    """Inside a transaction, with exclusive access to the journal: remove the plans that no run has. Raises the
    errors of SQLite."""
    used = {digest for row in sealed_rows(connection) for digest in plans_of(connection, row)}
    stored = [digest for (digest,) in connection.execute("SELECT digest FROM plans")]
    for digest in stored:
        if digest not in used:
            connection.execute("DELETE FROM plans WHERE digest = ?", (digest,))


class OpenFile:
    """The database of a state directory as it was when it was opened: a task may remove it under a run."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._identity = self._found()
        self._gone: StorageFailed | None = None

    def require_there(self, run: str) -> None:
        """Raises StorageFailed where the file was removed or replaced while the run acted."""
        if self._found() == self._identity:
            return
        if self._gone is None:
            self._gone = lost(self._state, run)
        raise self._gone

    def _found(self) -> tuple[int, int] | None:
        """What the file is known by, whatever its name; None where there is none."""
        try:
            about = os.stat(os.path.join(self._state, FILE))
        except OSError:
            return None
        return about.st_dev, about.st_ino
