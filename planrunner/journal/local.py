"""A database of a state directory beside the journal: its tables, and transactions of any number of processes."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from planrunner.errors import NotFound, StorageFailed
from planrunner.fileio import ensure_database, turn
from planrunner.journal.workspace import check_contents, check_state, prepare_state

Json = Any

_PATIENCE = 30.0
"""Seconds that a writer waits for another one; each writes for milliseconds."""


class LocalDatabase:
    """The database ``NAME``.db of a state directory; any thread may use it. With ``readonly`` nothing is made.

    ``MARK`` stands in the header of the file as what it is, ``LAYOUT`` is the number of the layout of its ``TABLES``: a
    file of another one is refused. Raises NotFound for a read-only opening of nothing, StorageFailed for what cannot be
    used.
    """

    NAME: ClassVar[str]
    MARK: ClassVar[int]
    LAYOUT: ClassVar[int]
    TABLES: ClassVar[tuple[str, ...]]

    __slots__ = ("_connection", "_lock", "_turn", "path", "state")

    def __init__(self, state: str, readonly: bool = False) -> None:
        self.state = state
        self.path = os.path.join(state, f"{self.NAME}.db")
        self._lock = threading.RLock()
        self._turn = -1
        try:
            check_state(state)
        except FileNotFoundError:
            if readonly:
                raise self.nothing() from None
        if not readonly and not os.path.isdir(os.path.join(state, "locks")):  # made last of what belongs there
            prepare_state(state)
        check_contents(state)
        with self._named():
            self._connection = self._opened(readonly)
            try:
                if not readonly:
                    self._turn = self._turn_file()
                    self._prepare()
                elif not self._is_laid_out():
                    raise self.nothing()
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def nothing(self) -> NotFound:
        """The error for a read-only opening of a database that is not there."""
        return NotFound(f"there is no `{self.path}`")

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
        with self._named(), turn(self.path), self._alone():
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _prepare(self) -> None:
        if self._is_laid_out():
            return
        with turn(self.path), self._alone():
            if self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise StorageFailed(f"`{self.path}` lies on a file system without shared memory")
        with self.writing(durable=True):
            if self._is_laid_out():
                return  # another process was first
            for statement in self.TABLES:
                self.do(statement)
            self.do(f"PRAGMA application_id = {self.MARK}")
            self.do(f"PRAGMA user_version = {self.LAYOUT}")

    def _is_laid_out(self) -> bool:
        """Whether its tables are there. Raises StorageFailed for those of another program, or in another layout."""
        ((mark,),), ((layout,),) = self.ask("PRAGMA application_id"), self.ask("PRAGMA user_version")
        if mark not in (0, self.MARK):
            raise StorageFailed(f"`{self.path}` is a database of another program", "move it away")
        if layout in (0, self.LAYOUT):
            return bool(layout)
        newer = layout > self.LAYOUT
        told = f"`{self.path}` was written by {'a newer' if newer else 'an older'} planrunner"
        raise StorageFailed(told, "upgrade planrunner" if newer else "move it away to start a new one")

    @contextmanager
    def _named(self) -> Iterator[None]:
        """One thread at a time, and errors of the database as those of planrunner."""
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                hint = "free some space, then run the command again" if "full" in str(error) else ""
                raise StorageFailed(f"`{self.path}` failed: {error}", hint) from error
            except OSError as error:
                raise StorageFailed(f"`{self.path}` cannot be used: {error.strerror or error}") from error

    def _opened(self, readonly: bool) -> sqlite3.Connection:
        where = self.path
        if not readonly:
            ensure_database(where)
        elif not os.path.lexists(where):
            raise self.nothing()
        else:
            where = f"file:{where.replace('%', '%25').replace('?', '%3f').replace('#', '%23')}?mode=ro"
        connection = sqlite3.connect(
            where, timeout=_PATIENCE, isolation_level=None, check_same_thread=False, uri=readonly
        )
        connection.execute("PRAGMA trusted_schema = OFF")
        return connection

    def _turn_file(self) -> int:
        """The file that writers lock. SQLite before 3.51.3 can damage a database in which one connection moves the log
        while another writes: here each process waits while another one writes."""
        path = os.path.join(self.state, "locks", f"{self.NAME}.turn.lock")
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    message = f"another process has kept the {self.NAME} to itself for {_PATIENCE:.0f} seconds"
                    raise StorageFailed(message, "`ps -eo pid,stat,args` shows a stopped planrunner") from None
                time.sleep(0.002)
        try:
            yield
        finally:
            fcntl.flock(self._turn, fcntl.LOCK_UN)
