"""A journal over any connection of DB-API 2.0 with ``?`` as its mark: rows alone, leases as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from json import dumps, loads
from typing import Any

from planrunner.errors import Fenced, NotFound, RunHeld, StorageFailed, UsageError
from planrunner.journal.codec import decode_rows, encode_rows
from planrunner.journal.records import (
    Answer,
    Holder,
    Lease,
    NewRun,
    Request,
    RunRow,
    StoredPlan,
    check_order,
    ending,
    no_match,
    only_match,
)
from planrunner.machine.events import Entry
from planrunner.records import astuple

TABLES = (
    """CREATE TABLE runs (number INTEGER, run TEXT, plan_id TEXT, digest TEXT, created REAL, epoch INTEGER,
        last_seq INTEGER, status TEXT, ended REAL, leased INTEGER)""",
    "CREATE TABLE entries (run TEXT, seq INTEGER, at REAL, kind TEXT, version INTEGER, body TEXT)",
    "CREATE TABLE requests (id INTEGER, run TEXT, kind TEXT, body TEXT, by_whom TEXT, at REAL, result TEXT)",
    "CREATE TABLE plans (digest TEXT, text TEXT, name TEXT, notation TEXT, compiled BLOB)",
    "CREATE TABLE compiled (name TEXT, value BLOB)",
)


class DatabaseJournal:
    """``connection`` is any connection of DB-API 2.0; what is said by several statements is one transaction."""

    def __init__(self, connection: Any) -> None:
        self.notices: tuple[str, ...] = ()
        self.unchained = ""
        self._connection = connection
        self._seen = -1
        self._posted = 0
        for table in TABLES:
            self._do(table)
        connection.commit()

    def create_run(self, new: NewRun, entries: Sequence[Entry] = ()) -> Lease:
        check_order(entries, 1)
        if self._rows("SELECT 1 FROM runs WHERE run = ?", new.run):
            raise UsageError(f"there is a run `{new.run}` already")
        ((last,),) = self._rows("SELECT count(*) FROM runs")
        status, ended = ending(entries)

        def write() -> None:
            row = (last + 1, new.run, new.plan_id, new.plan_digest, new.created, 1, len(entries), status, ended, 1)
            self._do("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)
            self._insert(new.run, entries)
            if new.plan is not None:
                self._keep(new.plan)

        self._transact(write)
        return Lease(new.run, 1, len(entries), lock=0)

    def append(self, run: Lease, entries: Sequence[Entry], answers: Sequence[tuple[int, Answer]] = ()) -> None:
        if not (entries or answers):
            return
        if run.broken or run.lock < 0:
            raise StorageFailed(f"run `{run.run}` is not written to any more after a failure")
        check_order(entries, run.last_seq + 1)
        encode_rows(0, entries)  # what cannot be stored leaves the lease as it was
        try:
            self._transact(lambda: self._advance(run, entries, answers))
        except BaseException:
            run.broken = True
            raise
        run.last_seq += len(entries)

    def require_there(self, run: str) -> None:
        self._rows("SELECT 1 FROM runs WHERE run = ?", run)

    def entries(self, run: str, after: int = 0) -> Iterator[Entry]:
        query = "SELECT seq, at, kind, version, body FROM entries WHERE run = ? AND seq > ? ORDER BY seq"
        yield from decode_rows([tuple(row) for row in self._rows(query, run, after)])

    def runs(self, limit: int = 100, offset: int = 0) -> list[RunRow]:
        newest = self._rows("SELECT run FROM runs ORDER BY number DESC")
        return [self.run(run) for (run,) in newest[offset : offset + limit]]

    def run(self, run: str) -> RunRow:
        columns = "run, plan_id, digest, created, epoch, last_seq, status, ended, leased"
        rows = self._rows(f"SELECT {columns} FROM runs WHERE run = ?", run)
        if not rows:
            raise no_match(run, self._names())
        return RunRow(*rows[0][:-1], leased=bool(rows[0][-1]))

    def find_run(self, wanted: str) -> str:
        names = self._names()
        if wanted == "last" and names:
            return names[0]
        if wanted in names:
            return wanted
        if of_plan := [run for run in names if self.run(run).plan_id == wanted]:
            return of_plan[0]
        starts = [name for name in names if name.startswith(wanted)]
        for matches in (starts, [name for name in names if name.endswith(f"-{wanted}")]):
            if matches and wanted:
                return only_match(wanted, matches)
        raise no_match(wanted, [*names, *(self.run(run).plan_id for run in names)])

    def acquire(self, run: str) -> Lease:
        row = self.run(run)
        if row.leased:
            raise RunHeld(f"run `{run}` is held by another process")
        self._transact(lambda: self._do("UPDATE runs SET epoch = epoch + 1, leased = 1 WHERE run = ?", run))
        return Lease(run, row.epoch + 1, row.last_seq, lock=0)

    def renew(self, run: Lease) -> None:
        if run.lock < 0:
            raise StorageFailed(f"run `{run.run}` was released")
        if self.run(run.run).epoch != run.epoch:
            raise Fenced(f"another runner took over run `{run.run}`")

    def release(self, run: Lease) -> None:
        if run.lock >= 0:
            release = "UPDATE runs SET leased = 0 WHERE run = ? AND epoch = ?"
            self._transact(lambda: self._do(release, run.run, run.epoch))
        run.lock = -1

    def holders(self) -> list[Holder]:
        leased = self._rows("SELECT run, created FROM runs WHERE leased = 1 ORDER BY run")
        return [Holder(run, "a process", created) for run, created in leased]

    def is_leased(self, run: str) -> bool:
        return bool(self._rows("SELECT 1 FROM runs WHERE run = ? AND leased = 1", run))

    def post(self, run: str, request: Request) -> int:
        ((last,),) = self._rows("SELECT count(*) FROM requests")
        row = (last + 1, run, request.kind, dumps(request.body), request.by, request.at)
        self._transact(lambda: self._do("INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, NULL)", *row))
        self._posted += 1
        return int(last + 1)

    def waiting(self, run: str) -> list[Request]:
        query = "SELECT kind, body, by_whom, id, at FROM requests WHERE run = ? AND result IS NULL ORDER BY id"
        return [Request(kind, loads(body), by, number, at) for kind, body, by, number, at in self._rows(query, run)]

    def answered(self, request: int) -> Answer | None:
        rows = self._rows("SELECT result FROM requests WHERE id = ?", request)
        if not rows:
            raise NotFound(f"there is no request {request} in the journal")
        return None if rows[0][0] is None else Answer(*loads(rows[0][0]))

    def touched(self) -> bool:
        before, self._seen = self._seen, self._posted
        return before != self._seen

    def plan(self, digest: str) -> StoredPlan:
        rows = self._rows("SELECT digest, text, name, notation, compiled FROM plans WHERE digest = ?", digest)
        if not rows:
            raise NotFound(f"there is no plan with digest `{digest}` in the journal")
        return StoredPlan(*rows[0])

    def keep_plan(self, plan: StoredPlan) -> None:
        self._transact(lambda: self._keep(plan))

    def compiled_get(self, key: str) -> bytes | None:
        rows = self._rows("SELECT value FROM compiled WHERE name = ?", key)
        return bytes(rows[0][0]) if rows else None

    def compiled_put(self, key: str, value: bytes) -> None:
        def write() -> None:
            self._do("DELETE FROM compiled WHERE name = ?", key)
            self._do("INSERT INTO compiled VALUES (?, ?)", key, value)

        self._transact(write)

    def close(self) -> None:
        self._connection.close()

    def _advance(self, run: Lease, entries: Sequence[Entry], answers: Sequence[tuple[int, Answer]]) -> None:
        row = self.run(run.run)
        if (row.epoch, row.last_seq) != (run.epoch, run.last_seq):
            raise Fenced(f"another runner took over run `{run.run}`; this one stops writing")
        self._insert(run.run, entries)
        if entries:
            change = "UPDATE runs SET last_seq = ?, status = ?, ended = ? WHERE run = ?"
            self._do(change, entries[-1].seq, *ending(entries), run.run)
        for number, answer in answers:
            result = "UPDATE requests SET result = ? WHERE id = ? AND result IS NULL"
            self._do(result, dumps(astuple(answer)), number)

    def _insert(self, run: str, entries: Sequence[Entry]) -> None:
        for row in encode_rows(0, entries):
            self._do("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", run, *row)

    def _keep(self, plan: StoredPlan) -> None:
        if not self._rows("SELECT 1 FROM plans WHERE digest = ?", plan.digest):
            self._do("INSERT INTO plans VALUES (?, ?, ?, ?, ?)", *astuple(plan))

    def _names(self) -> list[str]:
        return [name for (name,) in self._rows("SELECT run FROM runs ORDER BY number DESC")]

    def _transact(self, write: Callable[[], object]) -> None:
        try:
            write()
        except BaseException:
            self._connection.rollback()
            raise
        self._connection.commit()

    def _do(self, sql: str, *values: object) -> None:
        self._connection.cursor().execute(sql, values)

    def _rows(self, sql: str, *values: object) -> list[Any]:
        cursor = self._connection.cursor()
        cursor.execute(sql, values)
        return list(cursor.fetchall())
