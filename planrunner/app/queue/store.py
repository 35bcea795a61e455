"""The queue as it is kept: ``queue.db`` in the state directory, written by any number of processes.

What was asked for is durable when it is acknowledged, and so is what people say of it: a cancellation, a pause. What
the worker notes (taken, parked, done) is written without waiting for the disk: after a loss of power the journal tells
it again. Each item bears a seal that only the user's audit key makes, so that a task which gets at the file cannot ask
for runs.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from planrunner.app.queue.items import OPEN, Act, Item, Pause, Status
from planrunner.caller import Principal, Workspace
from planrunner.errors import Hint, NextStep, NotFound, StorageFailed, UsageError
from planrunner.fileio import ensure_database
from planrunner.journal.chain import known_chain
from planrunner.journal.records import only_match
from planrunner.journal.workspace import check_contents, check_state, prepare_state
from planrunner.jsontext import read_json, write_json

Json = Any

FILE = "queue.db"
_APPLICATION = 0x706C7175
_VERSION = 1
_TABLES = (
    """CREATE TABLE items (
        number INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL UNIQUE, key TEXT UNIQUE, plan TEXT NOT NULL,
        digest TEXT NOT NULL, request TEXT NOT NULL, asker TEXT NOT NULL, place TEXT NOT NULL, source TEXT NOT NULL,
        act TEXT NOT NULL, arguments TEXT NOT NULL, seal BLOB, priority INTEGER NOT NULL, ahead INTEGER NOT NULL,
        status TEXT NOT NULL, enqueued REAL NOT NULL, begun REAL, ended REAL, wakes REAL, seen INTEGER NOT NULL,
        carried INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL, code INTEGER
    )""",
    "CREATE INDEX turns ON items (status, ahead, priority, number)",
    "CREATE INDEX begun ON items (begun)",
    "CREATE INDEX sources ON items (source, status)",
    "CREATE TABLE texts (digest TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE pauses (who TEXT NOT NULL, at REAL NOT NULL, reason TEXT NOT NULL)",
    """CREATE TABLE triggers (
        name TEXT PRIMARY KEY, definition TEXT NOT NULL, since REAL NOT NULL, mark TEXT NOT NULL, paused TEXT NOT NULL,
        last TEXT NOT NULL
    ) WITHOUT ROWID""",
)
"""``ahead`` is 1 for what had its turn already: what a dead worker left, and parked runs that go on. ``seen`` is the
last entry of the run when it was asked for, first taken, or let go of; ``carried`` is 1 once what ``act`` says is known
to have happened, so that the run only goes on. ``pauses`` has one row or none.
``triggers`` are what ``app/triggers/records.py`` keeps."""

_ITEMS = (
    "SELECT number, run, plan, digest, request, asker, place, source, act, arguments, seal, priority, status, enqueued,"
    " begun, ended, wakes, reason, code, seen, ahead, carried FROM items"
)
_TURN = "ahead DESC, priority DESC, number"
_PLACES = "SELECT run FROM items WHERE status = 'waiting' ORDER BY ahead DESC, priority DESC, number"
_NOTE = "UPDATE items SET"
_OVER: tuple[Status, ...] = ("done", "failed", "cancelled")
_PATIENCE = 30.0
"""Seconds that a writer waits for another one; each writes for milliseconds."""


class Wish(NamedTuple):
    """What is asked for. ``request`` are the fields of an ``ExecRequest`` that JSON can hold; ``text`` is the plan as
    it was read then. ``key`` makes it once; empty for none."""

    run: str
    plan: str
    text: bytes
    digest: str
    request: dict[str, Json]
    by: Principal
    where: Workspace
    source: str
    priority: int = 0
    act: Act = "start"
    arguments: dict[str, Json] = {}
    key: str = ""
    seen: int = 0


class Task(NamedTuple):
    """An item with all that is needed to act on it. ``had_turn`` is whether it was taken before, ``is_carried`` whether
    its act is known to have happened, ``ours`` whether its seal is the user's own."""

    item: Item
    request: dict[str, Json]
    where: Workspace
    arguments: dict[str, Json]
    seen: int
    had_turn: bool
    is_carried: bool
    ours: bool


class Store:
    """The queue of a state directory; any thread may use it. With ``readonly`` nothing is made. Raises NotFound for a
    read-only opening of nothing, StorageFailed for what cannot be used."""

    __slots__ = ("_chain", "_connection", "_lock", "_turn", "path", "state")

    def __init__(self, state: str, readonly: bool = False) -> None:
        self.state = state
        self.path = os.path.join(state, FILE)
        self._lock = threading.RLock()
        self._turn = -1
        try:
            check_state(state)
        except FileNotFoundError:
            if readonly:
                raise _nothing(state) from None
        if not readonly and not os.path.isdir(os.path.join(state, "locks")):  # made last of what belongs there
            prepare_state(state)
        check_contents(state)
        self._chain = known_chain(state)
        with self._named():
            self._connection = _opened(self.path, readonly)
            try:
                if not readonly:
                    self._turn = _turn_file(state)
                    self._prepare()
                elif not self._ask("SELECT 1 FROM sqlite_master WHERE name = 'pauses'"):
                    raise _nothing(state)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            turn, self._turn = self._turn, -1
            if turn < 0:
                self._connection.close()
                return
            try:  # closing may move the log into the database, which no other process may write to meanwhile
                fcntl.flock(turn, fcntl.LOCK_EX)
                self._connection.close()
            finally:
                os.close(turn)

    def add(self, wish: Wish, most: int | None = None) -> tuple[Item, bool]:
        """Put a wish into the queue, durably: its item, and whether it is new. Raises UsageError where ``most`` items
        wait already."""
        with self.writing(durable=True):
            if wish.key and (known := self._ask(f"{_ITEMS} WHERE key = ?", wish.key)):
                return self._task(known[0]).item, False
            if most is not None and (waiting := self._count("waiting")) >= most:
                raise full(waiting)
            self._do("INSERT OR IGNORE INTO texts VALUES (?, ?)", wish.digest, wish.text)
            if self._ask("SELECT 1 FROM items WHERE run = ?", wish.run):
                self._again(wish)
            else:
                self._insert(wish)
            return self.task(wish.run).item, True

    def _insert(self, wish: Wish) -> None:
        sealed = _sealed(wish)
        self._do(
            "INSERT INTO items (run, key, plan, digest, request, asker, place, source, act, arguments, seal, priority,"
            " ahead, status, enqueued, seen, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 'waiting', ?, ?, '')",
            *(wish.run, wish.key or None, *sealed[1:], self._seal(sealed), wish.priority),
            *(time.time(), wish.seen),
        )

    def _again(self, wish: Wish) -> None:
        """What is wished for next of a run that has been in the queue: it comes at the end of those of its priority."""
        self._do("UPDATE items SET number = (SELECT max(number) FROM items) + 1 WHERE run = ?", wish.run)
        sealed = _sealed(wish)
        self._do(
            "UPDATE items SET plan = ?, digest = ?, request = ?, asker = ?, place = ?, source = ?, act = ?,"
            " arguments = ?, seal = ?, priority = ?, ahead = 0, carried = 0, status = 'waiting', enqueued = ?,"
            " ended = NULL, wakes = NULL, seen = ?, reason = '', code = NULL WHERE run = ?",
            *(*sealed[1:], self._seal(sealed), wish.priority, time.time(), wish.seen, wish.run),
        )

    def _seal(self, sealed: Sequence[str]) -> bytes | None:
        """What the key makes of a row; None while there is no key."""
        if self._chain.key is None:  # the first run of a user makes it
            self._chain = known_chain(self.state)
        return self._chain.seal("queue", *sealed)

    def task(self, run: str) -> Task:
        """The item of a run, with what it asks for. Raises NotFound."""
        rows = self._ask(f"{_ITEMS} WHERE run = ?", run)
        if not rows:
            raise _unknown(run)
        return self._task(rows[0])

    def tasks(self, *statuses: Status, limit: int = -1) -> list[Task]:
        """Items of these statuses in the order in which they are taken."""
        marks = ", ".join("?" * len(statuses))
        query = f"{_ITEMS} WHERE status IN ({marks}) ORDER BY {_TURN} LIMIT ?"
        return [self._task(row) for row in self._ask(query, *statuses, limit)]

    def page(self, statuses: Sequence[Status], limit: int, after: int) -> list[Item]:
        """Items as lists show them: what goes on, what waits in its order, what is parked, what is over with the last
        one first."""
        wanted = tuple(statuses) or (*OPEN, *_OVER)
        marks = ", ".join("?" * len(wanted))
        query = (
            f"{_ITEMS} WHERE status IN ({marks}) ORDER BY CASE status WHEN 'running' THEN 0"
            " WHEN 'waiting' THEN 1 WHEN 'parked' THEN 2 ELSE 3 END,"
            " CASE WHEN status IN ('done', 'failed', 'cancelled') THEN -coalesce(ended, 0) ELSE 0 END,"
            f" {_TURN} LIMIT ? OFFSET ?"
        )
        return [self._task(row).item for row in self._ask(query, *wanted, limit, after)]

    def with_key(self, key: str) -> Item | None:
        """The item that was asked for under a key."""
        rows = self._ask(f"{_ITEMS} WHERE key = ?", key)
        return self._task(rows[0]).item if rows else None

    def find(self, wanted: str) -> str:
        """The run that people mean: ``last``, an id, the start of one, or what follows its last hyphen. Raises
        NotFound."""
        rows = self._ask("SELECT run FROM items WHERE run = ?", wanted)
        if not rows and wanted == "last":
            rows = self._ask("SELECT run FROM items ORDER BY number DESC LIMIT 1")
        if not rows and wanted:
            rows = self._ask(
                "SELECT run FROM items WHERE substr(run, 1, ?2) = ?1 OR substr(run, -?2 - 1) = '-' || ?1 LIMIT 9",
                *(wanted, len(wanted)),
            )
        if not rows:
            raise _unknown(wanted)
        return only_match(wanted, [str(row[0]) for row in rows])

    def places(self) -> dict[str, int]:
        """How many items come before each that waits, by run."""
        rows = self._ask(_PLACES)
        return {row[0]: place for place, row in enumerate(rows)}

    def counts(self) -> dict[str, int]:
        """How many items there are of each status that has any."""
        return dict(self._ask("SELECT status, count(*) FROM items GROUP BY status"))

    def text(self, digest: str) -> bytes:
        """The text of a plan as it was asked for. Raises NotFound."""
        rows = self._ask("SELECT text FROM texts WHERE digest = ?", digest)
        if not rows:
            raise NotFound(f"the queue has no plan with the digest {digest}")
        return bytes(rows[0][0])

    def pause(self) -> Pause | None:
        """Whether the queue is paused, by whom and why."""
        rows = self._ask("SELECT who, at, reason FROM pauses")
        return Pause(*rows[0]) if rows else None

    def set_pause(self, pause: Pause | None) -> None:
        with self.writing(durable=True):
            self._do("DELETE FROM pauses")
            if pause is not None:
                self._do("INSERT INTO pauses VALUES (?, ?, ?)", *pause)

    def withdraw(self, run: str, reason: str) -> bool:
        """Cancel an item that waits for its first turn, durably; False where it has been taken by now."""
        with self.writing(durable=True):
            query = (
                "UPDATE items SET status = 'cancelled', ended = ?, reason = ?"
                " WHERE run = ? AND status = 'waiting' AND begun IS NULL"
            )
            return self._do(query, time.time(), reason, run) > 0

    def open_from(self, source: str) -> list[str]:
        """The runs from a source that are not over."""
        query = "SELECT run FROM items WHERE source = ? AND status IN ('waiting', 'running', 'parked') ORDER BY number"
        return [str(row[0]) for row in self._ask(query, source)]

    def begun_since(self, since: float) -> list[float]:
        """When runs began after ``since``, the first one first."""
        return [float(row[0]) for row in self._ask("SELECT begun FROM items WHERE begun > ? ORDER BY begun", since)]

    def note(self, run: str, status: Status, **fields: Json) -> None:
        """Write how an item stands; inside ``writing``."""
        names = ", ".join(f"{name} = ?" for name in ("status", *fields))
        self._do(f"{_NOTE} {names} WHERE run = ?", status, *fields.values(), run)

    def ask(self, query: str, *values: Json) -> list[Any]:
        """Rows of a query, for what is kept beside the items."""
        return self._ask(query, *values)

    def do(self, statement: str, *values: Json) -> None:
        """Carry out a statement; inside ``writing``."""
        self._do(statement, *values)

    def touched(self) -> int:
        """A number that changes when another connection has written; costs microseconds."""
        return int(self._ask("PRAGMA data_version")[0][0])

    @contextmanager
    def writing(self, durable: bool = False) -> Iterator[None]:
        """One transaction, alone among all processes. ``durable``: it survives a loss of power on return."""
        with self._named(), _alone(self._turn):
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _prepare(self) -> None:
        if self._ask("PRAGMA user_version") == [(_VERSION,)]:
            return
        with _alone(self._turn):
            if self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise StorageFailed(f"`{self.path}` lies on a file system without shared memory")
        with self.writing(durable=True):
            ((mark,),), ((version,),) = self._ask("PRAGMA application_id"), self._ask("PRAGMA user_version")
            if version > _VERSION:
                raise StorageFailed(f"the queue `{self.path}` was written by a newer planrunner", "upgrade planrunner")
            if mark not in (0, _APPLICATION):
                raise StorageFailed(f"`{self.path}` is a database of another program", "move it away")
            if not version:
                for statement in _TABLES:
                    self._do(statement)
                self._do(f"PRAGMA application_id = {_APPLICATION}")
                self._do(f"PRAGMA user_version = {_VERSION}")

    def _count(self, status: Status) -> int:
        return int(self._ask("SELECT count(*) FROM items WHERE status = ?", status)[0][0])

    def _ask(self, query: str, *values: Json) -> list[Any]:
        with self._named():
            return self._connection.execute(query, values).fetchall()

    def _do(self, statement: str, *values: Json) -> int:
        return self._connection.execute(statement, values).rowcount

    def _task(self, row: Sequence[Any]) -> Task:
        number, run, plan, digest, request, asker, place, source, act, arguments, seal, priority, *rest = row
        status, enqueued, begun, ended, wakes, reason, code, seen, ahead, carried = rest
        name, roles, proof = read_json(asker)
        by = Principal(name, tuple(roles), proof)
        asked = read_json(request)
        item = Item(
            *(number, run, plan, digest, dict(asked.get("params", ())), by, source, priority, act, status),
            *(enqueued, begun, ended, wakes, reason, code),
        )
        sealed = (run, plan, digest, request, asker, place, source, act, arguments)
        ours = seal == self._seal(sealed)
        return Task(item, asked, Workspace(*read_json(place)), read_json(arguments), seen, ahead > 0, carried > 0, ours)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """One thread at a time, and errors of the database as those of planrunner."""
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                hint = "free some space, then run the command again" if "full" in str(error) else ""
                raise StorageFailed(f"the queue `{self.path}` failed: {error}", hint) from error
            except OSError as error:
                raise StorageFailed(f"the queue `{self.path}` cannot be used: {error.strerror or error}") from error


def full(waiting: int) -> UsageError:
    """The error for a queue that takes nothing more."""
    return UsageError(
        f"the queue is full: {waiting} runs wait, which is the most that `scheduler.max_queue_size` lets wait",
        Hint("wait for some, or take one out: ", NextStep("queue", "cancel", "RUN")),
    )


def _unknown(run: str) -> NotFound:
    return NotFound(f"run `{run}` is not in the queue", Hint(NextStep("queue"), " lists what is"))


def _nothing(state: str) -> NotFound:
    return NotFound(f"nothing was queued in `{state}`", Hint("put a run there: ", NextStep("queue", "add", "PLAN")))


def _sealed(wish: Wish) -> tuple[str, ...]:
    """What of an item its seal covers."""
    return (
        *(wish.run, wish.plan, wish.digest, write_json(wish.request), write_json([*wish.by])),
        *(write_json([*wish.where]), wish.source, wish.act, write_json(wish.arguments)),
    )


def _opened(path: str, readonly: bool) -> sqlite3.Connection:
    if readonly:
        if not os.path.lexists(path):
            raise _nothing(os.path.dirname(path))
        quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        where, uri = f"file:{quoted}?mode=ro", True
    else:
        ensure_database(path)
        where, uri = path, False
    connection = sqlite3.connect(where, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, uri=uri)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _turn_file(state: str) -> int:
    """The file that writers lock. SQLite before 3.51.3 can damage a database in which one connection moves the log
    while another writes: here each process waits while another one writes."""
    path = os.path.join(state, "locks", "queue.turn.lock")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


@contextmanager
def _alone(descriptor: int) -> Iterator[None]:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                message = f"another process has kept the queue to itself for {_PATIENCE:.0f} seconds"
                raise StorageFailed(message, "`ps -eo pid,stat,args` shows a stopped planrunner") from None
            time.sleep(0.002)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
