"""``queue.db`` in the state directory: its tables, and transactions of any number of processes."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from planrunner.errors import Hint, NextStep, NotFound, StorageFailed
from planrunner.fileio import ensure_database, turn
from planrunner.journal.workspace import check_contents, check_state, prepare_state

Json = Any

FILE = "queue.db"
_APPLICATION = 0x706C7175
_VERSION = 2
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
_ANSWERS = """CREATE TABLE answers (
        number INTEGER PRIMARY KEY AUTOINCREMENT, place TEXT NOT NULL UNIQUE, asked TEXT NOT NULL, at REAL NOT NULL,
        answer TEXT
    )"""
"""What version 2 adds: what ``app/queue/answers.py`` keeps."""
"""``ahead`` is 1 for what had its turn already: what a dead worker left, and parked runs that go on. ``seen`` is the
last entry of the run when it was asked for, first taken, or let go of; ``carried`` is 1 once what ``act`` says is known
to have happened, so that the run only goes on. ``pauses`` has one row or none.
``triggers`` are what ``app/triggers/records.py`` keeps."""

_PATIENCE = 30.0
"""Seconds that a writer waits for another one; each writes for milliseconds."""


class Database:
    """The database of a state directory; any thread may use it. With ``readonly`` nothing is made. Raises NotFound for
    a read-only opening of nothing, StorageFailed for what cannot be used."""

    __slots__ = ("_connection", "_lock", "_turn", "path", "state")

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
        with self._named():
            self._connection = _opened(self.path, readonly)
            try:
                if not readonly:
                    self._turn = _turn_file(state)
                    self._prepare()
                elif not self.ask("SELECT 1 FROM sqlite_master WHERE name = 'pauses'"):
                    raise _nothing(state)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
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

    def ask(self, query: str, *values: Json) -> list[Any]:
        """The rows of a query."""
        with self._named():
            return self._connection.execute(query, values).fetchall()

    def do(self, statement: str, *values: Json) -> int:
        """Carry out a statement inside ``writing``; how many rows it changed."""
        return self._connection.execute(statement, values).rowcount

    @contextmanager
    def writing(self, durable: bool = False) -> Iterator[None]:
        """One transaction, alone among all processes. ``durable``: it survives a loss of power on return."""
        with self._named(), turn(self.path), _alone(self._turn):
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _prepare(self) -> None:
        if self.ask("PRAGMA user_version") == [(_VERSION,)]:
            return
        with turn(self.path), _alone(self._turn):
            if self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise StorageFailed(f"`{self.path}` lies on a file system without shared memory")
        with self.writing(durable=True):
            ((mark,),), ((version,),) = self.ask("PRAGMA application_id"), self.ask("PRAGMA user_version")
            if version > _VERSION:
                raise StorageFailed(f"the queue `{self.path}` was written by a newer planrunner", "upgrade planrunner")
            if mark not in (0, _APPLICATION):
                raise StorageFailed(f"`{self.path}` is a database of another program", "move it away")
            if not version:
                for statement in _TABLES:
                    self.do(statement)
                self.do(f"PRAGMA application_id = {_APPLICATION}")
            if version < _VERSION:
                self.do(_ANSWERS)
                self.do(f"PRAGMA user_version = {_VERSION}")

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


def _nothing(state: str) -> NotFound:
    return NotFound(f"nothing was queued in `{state}`", Hint("put a run there: ", NextStep("queue", "add", "PLAN")))


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
