"""The database file: opening it, laying out its tables, and saying in plain words what is wrong with it."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable
from typing import Any

from planrunner.errors import AGAIN, START_ONE, Hint, NotFound, PlanrunnerError, StorageFailed
from planrunner.fileio import turn
from planrunner.journal.leases import JournalLock
from planrunner.journal.workspace import check_contents

__all__ = ["BUSY_SECONDS", "FILE", "Connection", "failure", "open_database", "sqlite3"]

FILE = "journal.db"
APPLICATION = 0x706C616E
"""Marks the file as ours in its header: "plan" in ASCII."""

BUSY_SECONDS = 30.0

LAYOUT = 8
"""The number of the layout of the tables, as ``PRAGMA user_version``. Until a first release there is one: a file of
another layout is refused."""

TABLES = (
    """CREATE TABLE plans (
        digest TEXT PRIMARY KEY, text TEXT NOT NULL, name TEXT NOT NULL, notation TEXT NOT NULL, compiled BLOB,
        seal BLOB
    ) WITHOUT ROWID""",
    """CREATE TABLE compiled (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BLOB NOT NULL)""",
    """CREATE TABLE runs (
        number INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, plan_id TEXT NOT NULL, plan_digest TEXT NOT NULL,
        created REAL NOT NULL, epoch INTEGER NOT NULL, status TEXT NOT NULL, ended REAL,
        since INTEGER NOT NULL DEFAULT 1, seal BLOB
    )""",
    """CREATE TABLE entries (
        id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
        mac BLOB
    )""",
    """CREATE VIEW events AS SELECT run, id & 4294967295 AS seq, at, kind, version, body
        FROM runs JOIN entries ON id BETWEEN number << 32 AND (number << 32) + 4294967295""",
    """CREATE TABLE requests (
        id INTEGER PRIMARY KEY, run TEXT NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
        by TEXT NOT NULL, result TEXT, seal BLOB
    )""",
    "CREATE INDEX waiting ON requests (run) WHERE result IS NULL",
    "CREATE TABLE audit (journal BLOB NOT NULL)",
    "CREATE TABLE notes (name TEXT PRIMARY KEY, run TEXT NOT NULL, text TEXT NOT NULL) WITHOUT ROWID",
    "CREATE INDEX noted ON notes (run)",
    """CREATE TABLE pruned (
        number INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, plan_id TEXT NOT NULL, created REAL NOT NULL,
        status TEXT NOT NULL, ended REAL, last_seq INTEGER NOT NULL, link BLOB NOT NULL, at REAL NOT NULL,
        by TEXT NOT NULL, seal BLOB
    )""",
)
"""The tables of a journal.

The id of an entry is ``number << 32 | seq``: appending to a table by its row number fills each page to the end, and is
a third quicker than by a key of two columns. ``events`` is for people. ``requests`` are written by the processes that
steer a run and answered (``result``) by the one process that holds it, in the transaction that stores what follows from
them. ``mac`` and ``seal`` are the chain's, see ``chain.py``; a request has its seal until it is answered. ``since`` is
the first entry of a run that bears a mac. ``notes`` are what attempts noted of acts under way, see ``inbox.py``;
``pruned`` are the records of runs that were taken out, see ``sqlite.py``.
"""

_ODD = (
    "SELECT type, name FROM sqlite_master WHERE type = 'trigger' OR type = 'view' AND name != 'events'"
    " OR type = 'table' AND sql NOT LIKE 'CREATE TABLE%' LIMIT 1"
)

Connection = sqlite3.Connection


def open_database(state: str, begin: Callable[[Connection], None] | None = None) -> Connection:
    """A connection to ``journal.db`` of a state directory, for reading; with ``begin`` for writing, its tables
    made where there are none. ``begin`` names the journal, inside the transaction that makes them.

    Raises NotFound for a read-only opening of what is not there or has no tables yet, StorageFailed for a file that is
    foreign, damaged, of another planrunner's layout, or out of reach.
    """
    path = os.path.join(state, FILE)
    if begin is None:  # writers have looked before taking the lock
        check_contents(state)
    try:
        return _open_reader(path) if begin is None else _open_writer(path, begin)
    except sqlite3.Error as error:
        raise failure(error, path) from error


ONCE_MORE = Hint(AGAIN)


def failure(error: Exception, path: str, then: Hint = ONCE_MORE) -> PlanrunnerError:
    """The error to show for an error of SQLite; ``then`` is what to do once its cause is fixed. A caller that holds a
    run names the command that resumes it instead."""
    name = getattr(error, "sqlite_errorname", "")
    for prefix, (message, hint) in _FAILURES.items():
        if name.startswith(prefix):
            return StorageFailed(
                message.format(path=path, error=error), Hint(hint, *(then.parts if hint.endswith(" ") else ()))
            )
    return StorageFailed(f"the journal `{path}` failed: {error}", Hint("when the cause is fixed, ", *then.parts))


def check_layout(connection: Connection, path: str) -> None:
    """Raises StorageFailed for a database that could do or answer more than what is stored: one with triggers, virtual
    tables, or views in the place of tables. Raises the errors of SQLite."""
    odd = connection.execute(_ODD).fetchone()
    if odd is not None:
        raise StorageFailed(
            f"the journal `{path}` is not as planrunner makes it: it has a {odd[0]} `{odd[1]}`",
            "planrunner did not write it: move it away, or restore it from a copy",
        )


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


def check_database(state: str, seconds: float) -> bool:
    """Look through ``journal.db`` of a state directory for damage; False where that took longer than ``seconds`` and
    was given up. Nothing is written. Raises as a read-only ``open_database`` does, StorageFailed for what is damaged.
    """
    path = os.path.join(state, FILE)
    connection = open_database(state)
    deadline = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    try:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            return False
        raise failure(error, path) from error
    finally:
        connection.close()
    if verdict != "ok":
        raise StorageFailed(f"the journal `{path}` is damaged: {' '.join(verdict.split())}", _COPY)
    return True


_COPY = "restore it from a copy, or move it away to start a new journal"
_OTHER_PLACE = "an older planrunner wrote it: move the state directory away to start a new one"
_ELSEWHERE = "choose another state directory with --state DIR"
_FAILURES = {
    "SQLITE_FULL": ("no space is left for the journal `{path}`", "free some, then "),
    "SQLITE_IOERR": (
        "the journal `{path}` cannot be written: {error}",
        "free some space or repair the disk, then ",
    ),
    "SQLITE_READONLY": ("the journal `{path}` is read-only here", _ELSEWHERE),
    "SQLITE_CANTOPEN": ("the journal `{path}` cannot be opened", _ELSEWHERE),
    "SQLITE_PERM": ("the journal `{path}` may not be opened", _ELSEWHERE),
    "SQLITE_NOTADB": ("`{path}` is not a journal of planrunner, or is damaged", _COPY),
    "SQLITE_CORRUPT": ("the journal `{path}` is damaged: {error}", _COPY),
    "SQLITE_BUSY": (
        f"the journal `{{path}}` was busy for {BUSY_SECONDS:.0f} seconds",
        "see which other program has it open; when the cause is fixed, ",
    ),
}


def _open_writer(path: str, begin: Callable[[Connection], None]) -> Connection:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise StorageFailed(f"the journal `{path}` cannot be made: {error.strerror}", _ELSEWHERE) from error
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        version = _version(connection, path)
        if _write_ahead(connection) != "wal":
            raise StorageFailed(f"`{path}` lies on a file system without shared memory", _ELSEWHERE)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA trusted_schema=OFF")
        if sys.platform == "darwin":
            connection.execute("PRAGMA fullfsync=ON")
        check_layout(connection, path)
        if not version:
            with turn(os.path.dirname(path)):
                _lay_out(connection, path, begin)
    except BaseException:
        connection.close()
        raise
    return connection


def _lay_out(connection: Connection, path: str, begin: Callable[[Connection], None]) -> None:
    """Make the tables, all or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _version(connection, path):  # asked again: another process may have been first
            for statement in TABLES:
                connection.execute(statement)
            begin(connection)
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={LAYOUT}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _write_ahead(connection: Connection) -> str:
    """Switch to a write-ahead log; the switch of a new file does not wait for others by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _open_reader(path: str) -> Connection:
    if not os.path.lexists(path):
        raise _no_runs(path)
    # where nothing can be written there is no shared memory, and without a log none is needed
    frozen = not os.access(os.path.dirname(path), os.W_OK) and not os.path.lexists(f"{path}-wal")
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    uri = f"file:{quoted}?mode=ro{'&immutable=1' if frozen else ''}"
    connection = sqlite3.connect(uri, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        if not _version(connection, path):
            raise _no_runs(path)  # the process that made it has yet to lay out its tables
    except BaseException:
        connection.close()
        raise
    return connection


def _no_runs(path: str) -> NotFound:
    return NotFound(f"there are no runs in `{os.path.dirname(path)}`", START_ONE)


def _version(connection: Connection, path: str) -> int:
    """The version of the tables, 0 where there are none yet."""
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")  # one look: another process may be laying out the tables this very moment
    try:
        version = _pragma(connection, "user_version")
        ours = _pragma(connection, "application_id") == APPLICATION
        empty = not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    finally:
        if alone and connection.in_transaction:  # an error may have ended it, and is what has to be told
            connection.execute("ROLLBACK")
    if not ours:
        if version or not empty:
            raise StorageFailed(f"`{path}` is a database of another program", _COPY)
        return 0
    if version < 1:
        raise StorageFailed(f"the journal `{path}` is damaged: it has version {version}", _COPY)
    if version != LAYOUT:
        older = version < LAYOUT
        raise StorageFailed(
            f"the journal `{path}` has layout {version}, this program knows layout {LAYOUT}",
            _OTHER_PLACE if older else "a newer planrunner wrote it: upgrade planrunner",
        )
    return version


def _pragma(connection: Connection, name: str) -> int:
    row: Any = connection.execute(f"PRAGMA {name}").fetchone()
    return int(row[0])


FULL = 64 << 20
"""Bytes from which the write-ahead log is worth moving into the database while a run goes on."""

_MANY = 128
"""Commits after which the log is written from its start again."""
_LOOK = 8
"""Commits between two looks at the size of the log; a commit of ``_BULK`` rows is always followed by one."""
_BULK = 100
_READERS_MS = 100
"""Milliseconds that moving the log waits for readers in the midst of a query."""


class WriteAheadLog:
    """The write-ahead log of a connection that writes: when it is moved into the database."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._commits = 0
        self._full = False

    def checkpoint_if_long(self, connection: Connection, lock: JournalLock, rows: int) -> None:
        """Called after a commit of so many rows: moves a long log into the database and empties it.

        After many small commits the log is moved too, but keeps its length and is written from its start again: they
        touch the same few pages over and over, and a file that grows costs more. Either needs that no other process has
        the database open for writing; until then the log grows.
        """
        self._commits += 1
        if rows >= _BULK or self._commits % _LOOK == 0:
            self._full = self._size() > FULL
        if not self._full and self._commits < _MANY:
            return
        self._commits = 0  # where it is refused, the next try comes after as many commits again
        if lock.quiet():
            try:
                if _move_log(connection, "TRUNCATE" if self._full else "PASSIVE"):
                    self._full = False
            finally:
                lock.share()

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0


def _move_log(connection: Connection, how: str) -> bool:
    try:
        connection.execute(f"PRAGMA busy_timeout={_READERS_MS}")
        connection.execute(f"PRAGMA wal_checkpoint({how})").fetchall()
        return True
    except sqlite3.Error:
        return False  # the log stays whole; a disk that really fails shows at the next append
    finally:
        connection.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000:.0f}")


class Store:
    """``path`` is the file of the database, for messages."""

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._turn = turn(os.path.dirname(path))

    def _transact(self, write: Callable[[], None], synchronous: str = "FULL", then: Hint = ONCE_MORE) -> None:
        try:
            with self._turn:
                if synchronous != "FULL":
                    self._connection.execute(f"PRAGMA synchronous={synchronous}")
                self._connection.execute("BEGIN IMMEDIATE")
                write()
                self._connection.execute("COMMIT")
        except BaseException as error:
            try:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                pass  # a failing disk: the transaction has no commit mark and is void in any case
            if isinstance(error, sqlite3.Error):
                raise failure(error, self._path, then) from error
            raise
        finally:
            if synchronous != "FULL":
                self._connection.execute("PRAGMA synchronous=FULL")

    def _query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise failure(error, self._path) from error
