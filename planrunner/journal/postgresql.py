"""The journal in a PostgreSQL database, which the machines of a team share: durable when ``append`` returns.

A lease is an advisory lock of the session, so it ends with the connection of its holder, and the epoch fences earlier
holders. Every change notifies the other connections. Those who may write the tables are trusted: nothing is chained.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from planrunner.errors import Fenced, Hint, NextStep, NotFound, RunHeld, StorageFailed, UsageError
from planrunner.escapes import database_advice, without_password
from planrunner.journal.codec import decode_rows, encode_rows
from planrunner.journal.records import (
    WHOLE,
    Answer,
    Ended,
    Head,
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
from planrunner.jsontext import read_json, write_json
from planrunner.machine.events import Entry
from planrunner.records import astuple

UNCHAINED = "the journal is shared in PostgreSQL"
_CONNECT_SECONDS = 10
_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
"""A machine that vanished loses its leases within half a minute."""
_PAGE = 512
_CACHED_PLANS = 200
_MAKING = 0x706C6A6E
"""The advisory lock of the one who makes the tables."""
_TABLES = """
CREATE TABLE IF NOT EXISTS planrunner_runs (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run text NOT NULL UNIQUE, plan_id text NOT NULL,
    plan_digest text NOT NULL, created double precision NOT NULL, epoch integer NOT NULL, last_seq integer NOT NULL,
    status text NOT NULL, ended double precision, holder text NOT NULL, since double precision NOT NULL
);
CREATE TABLE IF NOT EXISTS planrunner_entries (
    number integer NOT NULL REFERENCES planrunner_runs ON DELETE CASCADE, seq integer NOT NULL,
    at double precision NOT NULL, kind text NOT NULL, version integer NOT NULL, body text NOT NULL,
    PRIMARY KEY (number, seq)
);
CREATE TABLE IF NOT EXISTS planrunner_plans (
    digest text PRIMARY KEY, text text NOT NULL, name text NOT NULL, notation text NOT NULL, compiled bytea
);
CREATE TABLE IF NOT EXISTS planrunner_compiled (
    number bigint GENERATED ALWAYS AS IDENTITY, key text PRIMARY KEY, value bytea NOT NULL
);
CREATE TABLE IF NOT EXISTS planrunner_requests (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run text NOT NULL, at double precision NOT NULL,
    kind text NOT NULL, body text NOT NULL, by_whom text NOT NULL, result text
);
CREATE INDEX IF NOT EXISTS planrunner_requests_by_run ON planrunner_requests (run);
CREATE TABLE IF NOT EXISTS planrunner_notes (name text PRIMARY KEY, run text NOT NULL, text text NOT NULL);
CREATE TABLE IF NOT EXISTS planrunner_pruned (
    run text PRIMARY KEY, plan_id text NOT NULL, at double precision NOT NULL, by_whom text NOT NULL
);
"""
_ROW = "run, plan_id, plan_digest, created, epoch, last_seq, status, ended"
_APPEND = """
WITH held AS (
    UPDATE planrunner_runs SET last_seq = %s, status = CASE WHEN %s THEN %s ELSE status END,
        ended = CASE WHEN %s THEN %s ELSE ended END
    WHERE number = %s AND epoch = %s AND last_seq = %s RETURNING number
), stored AS (
    INSERT INTO planrunner_entries SELECT held.number, new.* FROM held,
        unnest(%s::integer[], %s::double precision[], %s::text[], %s::integer[], %s::text[]) AS new
)
SELECT count(*), pg_notify('planrunner_journal', '') FROM held
"""
"""One statement, one way to the server and back; nothing is stored where another has the run."""
_LOCKED = (
    "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s::bigint::oid"
    " AND objsubid = 2 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_KEPT = (
    f"SELECT {_ROW}, seq, at, kind, version, body FROM planrunner_entries JOIN planrunner_runs USING (number)"  # noqa: S608
    " WHERE kind = 'attempt_ended' AND position('\"artifacts\":[' IN body) > 0 ORDER BY number, seq"
)


class Connection:
    """A connection to the database; one thread at a time."""

    def __init__(self, address: str) -> None:
        self._address, self._name = address, without_password(address)
        self._lock = threading.RLock()
        with self._named():
            self._connection = psycopg.connect(
                address,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                **_ALIVE,  # type: ignore[arg-type]
            )

    def close(self) -> None:
        """Leases end with the connection."""
        with self._lock:
            self._connection.close()

    def _query(self, select: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._named():
            return list(self._connection.execute(select, values).fetchall())

    def _one(self, select: str, *values: Any) -> tuple[Any, ...]:
        row = self._connection.execute(select, values).fetchone()
        assert row is not None
        return tuple(row)

    def _do(self, statement: str, *values: Any) -> None:
        self._connection.execute(statement, values)

    @contextmanager
    def _named(self, run: str = "") -> Iterator[None]:
        """Errors of the server as those of planrunner; one thread at a time."""
        with self._lock:
            try:
                yield
            except (psycopg.Error, OSError) as error:
                if isinstance(error, errors.UniqueViolation):
                    raise
                said = (str(error).strip().splitlines() or [type(error).__name__])[0].replace(self._address, self._name)
                way = _going_on(run) if run else database_advice(said, "PLANRUNNER_JOURNAL")
                raise StorageFailed(f"the journal at {self._name} cannot be used: {said}", way) from None


class Records(Connection):
    """The part of the journal that readers use. The methods are described at the ports."""

    def __init__(self, address: str, readonly: bool = False) -> None:
        super().__init__(address)
        self.notices: tuple[str, ...] = ()
        self.unchained = UNCHAINED
        self._seen_first = False
        try:
            with self._named():
                self._prepare(readonly)
        except BaseException:
            self.close()
            raise

    def _prepare(self, readonly: bool) -> None:
        if self._one("SELECT to_regclass('planrunner_pruned') IS NULL")[0]:
            if readonly:
                raise NotFound(f"there are no runs in {self._name} yet", "start one with `planrunner exec PLAN`")
            with self._connection.transaction():
                self._do("SELECT pg_advisory_xact_lock(%s)", _MAKING)
                self._connection.execute(_TABLES)
        self._class: int = self._one("SELECT hashtext(current_schema())")[0]
        self._connection.execute("LISTEN planrunner_journal")

    def entries(self, run: str, after: int = 0) -> Iterator[Entry]:
        found = self._query("SELECT number FROM planrunner_runs WHERE run = %s", run)
        select = (
            "SELECT seq, at, kind, version, body FROM planrunner_entries WHERE number = %s AND seq > %s"
            " ORDER BY seq LIMIT %s"
        )
        while found:
            rows = self._query(select, found[0][0], after, _PAGE)
            yield from decode_rows(rows)
            if len(rows) < _PAGE:
                return
            after = rows[-1][0]

    def runs(self, limit: int = 100, offset: int = 0) -> list[RunRow]:
        rows = self._query(f"SELECT {_ROW} FROM planrunner_runs ORDER BY number DESC LIMIT %s OFFSET %s", limit, offset)  # noqa: S608
        leased = self.leased()
        return [RunRow(*row)._replace(leased=row[0] in leased) for row in rows]

    def run(self, run: str) -> RunRow:
        rows = self._query(f"SELECT {_ROW} FROM planrunner_runs WHERE run = %s", run)  # noqa: S608
        if not rows:
            raise no_match(run, self._newest())
        return RunRow(*rows[0])._replace(leased=self.is_leased(run))

    def find_run(self, wanted: str) -> str:
        if wanted == "last" and (newest := self._newest(1)):
            return newest[0]
        if self._query("SELECT 1 FROM planrunner_runs WHERE run = %s", wanted):
            return wanted
        if rows := self._query(
            "SELECT run FROM planrunner_runs WHERE plan_id = %s ORDER BY number DESC LIMIT 1", wanted
        ):
            return str(rows[0][0])
        for fits in ("starts_with(run, %s)", "right(run, length(%s) + 1) = '-' || %s"):
            values = [wanted] * fits.count("%s")
            rows = self._query(f"SELECT run FROM planrunner_runs WHERE {fits} ORDER BY number DESC", *values)  # noqa: S608
            if rows and wanted:
                return only_match(wanted, [run for (run,) in rows])
        rows = self._query("SELECT run, plan_id FROM planrunner_runs ORDER BY number DESC LIMIT 1000")
        raise no_match(wanted, list(dict.fromkeys(name for row in rows for name in row)))

    def holders(self) -> list[Holder]:
        rows = self._query(
            "SELECT run, holder, since FROM planrunner_runs WHERE number = ANY(%s) ORDER BY run", self._locked()
        )
        return [Holder(*row) for row in rows]

    def is_leased(self, run: str) -> bool:
        return run in self.leased()

    def leased(self) -> frozenset[str]:
        rows = self._query("SELECT run FROM planrunner_runs WHERE number = ANY(%s)", self._locked())
        return frozenset(run for (run,) in rows)

    def check_free(self, run: str) -> None:
        if self.is_leased(run):
            raise self._held_error(run)

    def waiting(self, run: str) -> list[Request]:
        select = (
            "SELECT kind, body, by_whom, id, at FROM planrunner_requests WHERE run = %s AND result IS NULL ORDER BY id"
        )
        return [
            Request(kind, read_json(body), by, number, at) for kind, body, by, number, at in self._query(select, run)
        ]

    def answered(self, request: int) -> Answer | None:
        rows = self._query("SELECT result FROM planrunner_requests WHERE id = %s", request)
        if not rows:
            raise NotFound(f"there is no request {request} in the journal")
        return None if rows[0][0] is None else Answer(*read_json(rows[0][0]))

    def touched(self) -> bool:
        told = not self._seen_first
        self._seen_first = True
        with self._named():
            wire = self._connection.pgconn
            wire.consume_input()
            while (notice := wire.notifies()) is not None:
                told = told or notice.be_pid != wire.backend_pid
        return told

    def plan(self, digest: str) -> StoredPlan:
        rows = self._query(
            "SELECT digest, text, name, notation, compiled FROM planrunner_plans WHERE digest = %s", digest
        )
        if not rows:
            raise NotFound(f"there is no plan with digest `{digest}` in the journal")
        return StoredPlan(*rows[0])

    def compiled_get(self, key: str) -> bytes | None:
        rows = self._query("SELECT value FROM planrunner_compiled WHERE key = %s", key)
        return bytes(rows[0][0]) if rows else None

    def heads(self, after: int = 0) -> list[Head]:
        select = f"SELECT number, {_ROW} FROM planrunner_runs WHERE number > %s OR status = '' ORDER BY number"  # noqa: S608
        return [Head(*row) for row in self._query(select, after)]

    def head(self, number: int) -> Head | None:
        rows = self._query(f"SELECT number, {_ROW} FROM planrunner_runs WHERE number = %s", number)  # noqa: S608
        return Head(*rows[0]) if rows else None

    def ended(self) -> Ended:
        select = (
            f"SELECT count(*), coalesce(sum(mod(trunc(ended * 1000000)::bigint, {WHOLE})), 0)::bigint"  # noqa: S608
            " FROM planrunner_runs WHERE status <> ''"
        )
        return Ended(*self._query(select)[0])

    def kept(self) -> Iterator[tuple[RunRow, Entry]]:
        for *row, seq, at, kind, version, body in self._query(_KEPT):
            (entry,) = decode_rows([(seq, at, kind, version, body)])
            yield RunRow(*row), entry

    def texts(self) -> Iterator[tuple[str, str]]:
        select = (
            "SELECT number, seq, kind, body FROM planrunner_entries WHERE (number, seq) > (%s, %s)"
            " ORDER BY number, seq LIMIT %s"
        )
        last = (-1, -1)
        while rows := self._query(select, *last, _PAGE):
            yield from ((kind, body) for _, _, kind, body in rows)
            last = rows[-1][:2]
        for query in ("SELECT text FROM planrunner_plans", "SELECT body FROM planrunner_requests"):
            yield from (("", row[0]) for row in self._query(query))

    def prove(self, run: str) -> None:
        """There is nothing to compare it with: entries are not chained."""

    def pruned(self) -> list[str]:
        return [run for (run,) in self._query("SELECT run FROM planrunner_pruned ORDER BY at, run")]

    def note(self, name: str) -> str:
        """The text of a note of an attempt; empty where there is none."""
        rows = self._query("SELECT text FROM planrunner_notes WHERE name = %s", name)
        return str(rows[0][0]) if rows else ""

    def _held_error(self, run: str) -> RunHeld:
        (holder,) = self._query("SELECT holder FROM planrunner_runs WHERE run = %s", run)[0]
        return RunHeld(f"run `{run}` is held by {holder}", Hint("see ", NextStep("show", run)))

    def _locked(self) -> list[int]:
        """The numbers of the runs that living sessions act on."""
        return [number for (number,) in self._query(_LOCKED, self._class & 0xFFFFFFFF)]

    def _newest(self, limit: int = 1000) -> list[str]:
        return [run for (run,) in self._query("SELECT run FROM planrunner_runs ORDER BY number DESC LIMIT %s", limit)]


class TeamJournal(Records):
    """One connection; use it from the thread that opened it. The methods are described at the ports."""

    def __init__(self, address: str, readonly: bool = False) -> None:
        self._held: set[int] = set()
        super().__init__(address, readonly)

    def create_run(self, new: NewRun, entries: Sequence[Entry] = ()) -> Lease:
        check_order(entries, 1)
        if not new.run.replace("-", "").replace("_", "").isalnum():
            raise UsageError(f"`{new.run}` cannot name a run", "use letters, digits, hyphens and underscores")
        rows, (status, ended) = list(encode_rows(0, entries)), ending(entries)
        insert = (
            "INSERT INTO planrunner_runs"
            " (run, plan_id, plan_digest, created, epoch, last_seq, status, ended, holder, since)"
            " VALUES (%s, %s, %s, %s, 1, 0, '', NULL, %s, %s) RETURNING number"
        )
        with self._named():
            try:
                with self._connection.transaction():
                    values = (new.run, new.plan_id, new.plan_digest, new.created, _this_process(), time.time())
                    lease = Lease(new.run, 1, 0, lock=0)
                    lease.number = self._one(insert, *values)[0]
                    if new.plan is not None:
                        self._keep(new.plan)
                    self._do(_APPEND, len(rows), True, status, True, ended, lease.number, 1, 0, *_columns(rows))
                    self._do("SELECT pg_advisory_lock(%s, %s)", self._class, lease.number)
            except errors.UniqueViolation:
                raise UsageError(f"there is a run `{new.run}` already") from None
        self._held.add(lease.number)
        lease.last_seq = len(rows)
        return lease

    def append(self, run: Lease, entries: Sequence[Entry], answers: Sequence[tuple[int, Answer]] = ()) -> None:
        if not (entries or answers):
            return
        if run.broken or run.lock < 0:
            raise StorageFailed(f"run `{run.run}` is not written to any more after a failure", _going_on(run.run))
        check_order(entries, run.last_seq + 1)
        rows = list(encode_rows(0, entries))
        try:
            with self._named(run.run):
                if answers:
                    with self._connection.transaction():
                        self._advance(run, rows, ending(entries))
                        self._answer(answers)
                else:
                    self._advance(run, rows, ending(entries))
        except BaseException:
            run.broken = True
            raise
        run.last_seq += len(rows)

    def _advance(self, run: Lease, rows: list[tuple[Any, ...]], end: tuple[str, float | None]) -> None:
        status, ended = end
        stands = (run.number, run.epoch, run.last_seq)
        changes = bool(rows)
        taken = self._one(_APPEND, run.last_seq + len(rows), changes, status, changes, ended, *stands, *_columns(rows))
        if not taken[0]:
            raise Fenced(
                f"another runner took over run `{run.run}`; this one stops writing",
                Hint("see ", NextStep("show", run.run)),
            )

    def _answer(self, answers: Sequence[tuple[int, Answer]]) -> None:
        for number, answer in answers:
            update = "UPDATE planrunner_requests SET result = %s WHERE id = %s AND result IS NULL"
            self._do(update, write_json(astuple(answer)), number)

    def require_there(self, run: str) -> None:
        """The server says so itself when it is asked to store something."""

    def acquire(self, run: str) -> Lease:
        row = self.run(run)
        (number,) = self._query("SELECT number FROM planrunner_runs WHERE run = %s", run)[0]
        if number in self._held or not self._query("SELECT pg_try_advisory_lock(%s, %s)", self._class, number)[0][0]:
            raise self._held_error(row.run)
        update = (
            "UPDATE planrunner_runs SET epoch = epoch + 1, holder = %s, since = %s WHERE number = %s"
            " RETURNING epoch, last_seq, pg_notify('planrunner_journal', '')"
        )
        taken = self._query(update, _this_process(), time.time(), number)
        lease = Lease(run, taken[0][0], taken[0][1], lock=0)
        lease.number = number
        self._held.add(number)
        return lease

    def renew(self, run: Lease) -> None:
        if run.lock < 0:
            raise StorageFailed(f"run `{run.run}` was released", _going_on(run.run))
        if self._query("SELECT epoch FROM planrunner_runs WHERE number = %s", run.number) != [(run.epoch,)]:
            raise Fenced(f"another runner took over run `{run.run}`", Hint("see ", NextStep("show", run.run)))

    def release(self, run: Lease) -> None:
        if run.lock < 0:
            return
        run.lock = -1
        self._held.discard(run.number)
        try:
            self._query("SELECT pg_advisory_unlock(%s, %s)", self._class, run.number)
        except StorageFailed:
            pass  # a connection that is gone holds nothing

    def post(self, run: str, request: Request) -> int:
        insert = (
            "INSERT INTO planrunner_requests (run, at, kind, body, by_whom) VALUES (%s, %s, %s, %s, %s)"
            " RETURNING id, pg_notify('planrunner_journal', '')"
        )
        row = self._query(insert, run, request.at + 0.0, request.kind, write_json(request.body), request.by)[0]
        return int(row[0])

    def keep_plan(self, plan: StoredPlan) -> None:
        with self._named():
            self._keep(plan)

    def _keep(self, plan: StoredPlan) -> None:
        self._do("INSERT INTO planrunner_plans VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING", *astuple(plan))

    def compiled_put(self, key: str, value: bytes) -> None:
        insert = (
            "INSERT INTO planrunner_compiled (key, value) VALUES (%s, %s)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value RETURNING number"
        )
        ((number,),) = self._query(insert, key, value)
        self._query("DELETE FROM planrunner_compiled WHERE number <= %s RETURNING 1", number - _CACHED_PLANS)

    def retention(self) -> TeamJournal:
        return self

    def remove(self, row: RunRow, at: float, by: str) -> None:
        self.check_free(row.run)
        delete = (
            "DELETE FROM planrunner_runs WHERE run = %s AND epoch = %s AND status = %s AND status <> '' RETURNING run"
        )
        with self._named(), self._connection.transaction():
            if not self._connection.execute(delete, (row.run, row.epoch, row.status)).fetchall():
                raise UsageError(f"run {row.run} has not ended", NextStep("show", row.run))
            for table in ("planrunner_requests", "planrunner_notes"):
                self._do(f"DELETE FROM {table} WHERE run = %s", row.run)  # noqa: S608
            self._do("INSERT INTO planrunner_pruned VALUES (%s, %s, %s, %s)", row.run, row.plan_id, at, by)

    def drop_plans(self) -> None:
        """Plans of revisions are named in entries alone, so only those of no entry go."""
        delete = (
            "DELETE FROM planrunner_plans WHERE NOT EXISTS (SELECT 1 FROM planrunner_runs WHERE plan_digest = digest)"
            " AND NOT EXISTS (SELECT 1 FROM planrunner_entries WHERE kind IN ('run_started', 'run_revised')"
            " AND position(digest IN body) > 0)"
        )
        if not self._locked():
            self._query(f"{delete} RETURNING 1")

    def keep_note(self, run: str, name: str, text: str) -> None:
        """Keep a note in place of the one of that name; empty removes it."""
        if not text:
            self._query("DELETE FROM planrunner_notes WHERE name = %s RETURNING 1", name)
            return
        insert = (
            "INSERT INTO planrunner_notes VALUES (%s, %s, %s)"
            " ON CONFLICT (name) DO UPDATE SET run = excluded.run, text = excluded.text RETURNING 1"
        )
        self._query(insert, name, run, text)


def _columns(rows: Sequence[tuple[Any, ...]]) -> tuple[list[Any], ...]:
    """Rows of entries as the five lists of their columns."""
    return tuple([row[column] for row in rows] for column in range(5))


def _going_on(run: str) -> Hint:
    return Hint("when the server answers again: ", NextStep("resume", run))


def _this_process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"
