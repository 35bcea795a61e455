"""One transaction on one connection: read-only or not, bounded in time, stopped when the attempt is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Engine, create_engine
from sqlalchemy.pool import NullPool

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.sql import sqlite
from planrunner.capabilities.sql.connections import Database
from planrunner.capabilities.sql.failures import explained
from planrunner.capabilities.sql.values import Bound
from planrunner.capabilities.usage import count_call

Result = TypeVar("Result")

_CHANGING = ("DELETE", "INSERT", "MERGE", "UPDATE")
_TICK = 0.1
_CONNECT = 5
"""Seconds that one attempt to reach a server may take."""


class Session:
    """An open transaction. Whatever the database says against it is raised as Failure."""

    def __init__(self, context: Context, database: Database, connection: Connection, seconds: float) -> None:
        self.database = database
        self.seconds = seconds
        self._context = context
        self._connection = connection
        self._raw: Any = connection.connection.dbapi_connection
        self._changes = 0
        self._deadline = 0.0
        self._timed_out = False
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="planrunner-sql")
        self._watcher.start()

    @property
    def dialect(self) -> str:
        return self.database.dialect

    def run(self, statement: Bound, stream: bool = False) -> CursorResult[Any]:
        """Execute one statement; the transaction has to be open still when it is done."""
        self._changes = getattr(self._raw, "total_changes", 0)
        options = {"stream_results": True, "max_row_buffer": 200} if stream else {}
        result = self.guarded(
            lambda: self._connection.exec_driver_sql(statement.text, statement.values, execution_options=options)
        )
        if not self._is_open():
            raise Failure(
                "the statement ended the transaction, which is not for a plan to do", "policy", rule="sql.transaction"
            )
        return result

    def changed(self, result: CursorResult[Any]) -> Callable[[], int]:
        """What tells, when the rows of a result have been read, how many rows its statement changed."""
        if not result.returns_rows:
            return lambda: max(result.rowcount, 0)
        if self.dialect == "postgresql":
            verb = str(getattr(result.cursor, "statusmessage", "")).partition(" ")[0]
            count = result.rowcount if verb in _CHANGING else 0
            return lambda: count
        before = self._changes  # SQLite counts when the statement is over
        return lambda: 0 if self._raw.total_changes == before else int(sqlite.own(self._raw, "SELECT changes()")[0])

    def say(self, words: str) -> None:
        """What planrunner itself has to say about the transaction."""
        if self.dialect == "sqlite":
            self.guarded(lambda: sqlite.own(self._raw, words))
        else:
            self.guarded(lambda: self._connection.exec_driver_sql(words))

    def guarded(self, work: Callable[[], Result]) -> Result:
        """Let the database work: not longer than the timeout, and not when the attempt is to stop."""
        self._deadline = time.monotonic() + self.seconds
        try:
            return self._patiently(work, self._deadline)
        except Exception as error:
            raise self._explained(error) from None
        finally:
            self._deadline = 0.0

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._watcher.join()

    def _explained(self, error: Exception) -> Exception:
        """The failure that an error of the database stands for."""
        if self._context.cancelled():
            return Failure("the statement was stopped", "cancelled")
        if self._timed_out:
            return Failure(f"the statement ran longer than {self.seconds:g} s", "timeout")
        return explained(error, self.database)

    def _patiently(self, work: Callable[[], Result], deadline: float) -> Result:
        """SQLite has no queue for its one writer: whoever finds it locked asks again."""
        while True:
            try:
                return work()
            except Exception as error:
                waits = self.dialect == "sqlite" and sqlite.is_busy(error) and time.monotonic() < deadline
                if not waits or self._context.cancelled():
                    raise

    def _watch(self) -> None:
        while not self._closed.wait(_TICK):
            deadline = self._deadline
            if not deadline:
                continue
            late = time.monotonic() > deadline
            if late or self._context.cancelled():
                self._timed_out = self._timed_out or late
                self._stop()

    def _stop(self) -> None:
        try:
            self._raw.interrupt() if self.dialect == "sqlite" else self._raw.cancel_safe(timeout=1.0)
        except Exception:  # it is over already, or the server is gone: then so is the statement
            return

    def _is_open(self) -> bool:
        if self.dialect == "sqlite":
            return bool(self._raw.in_transaction)
        return self._raw.info.transaction_status.name in ("INTRANS", "ACTIVE")


@contextmanager
def transaction(
    context: Context, database: Database, seconds: float, *, write: bool, keep: bool = True
) -> Iterator[Session]:
    """A transaction that is committed at the end, or rolled back: where something is raised, where nothing is to be
    written, and where ``keep`` says so."""
    engine = _engine(database, write)
    try:
        with _connected(context, database, engine) as connection:
            session = Session(context, database, connection, seconds)
            try:
                with _begun(session, write, keep):
                    yield session
            finally:
                session.close()
    finally:
        engine.dispose()


@contextmanager
def _begun(session: Session, write: bool, keep: bool) -> Iterator[None]:
    if session.dialect == "sqlite":
        words = ["BEGIN IMMEDIATE" if write else "BEGIN"]
    else:  # once there was a statement the transaction can no longer be made to write
        limit = f"SET LOCAL statement_timeout = {max(1, round(session.seconds * 1000))}"
        words = ["BEGIN" if write else "BEGIN READ ONLY", limit, "SELECT 1"]
    for each in words:
        session.say(each)
    try:
        yield
    except BaseException:
        with suppress(Exception):  # what went wrong first is what counts; closing the connection rolls back as well
            session.say("ROLLBACK")
        raise
    session.say("COMMIT" if write and keep else "ROLLBACK")


def _engine(database: Database, write: bool) -> Engine:
    if database.dialect == "sqlite":
        return create_engine(
            "sqlite://", creator=lambda: sqlite.connect(database.path, write), poolclass=NullPool, hide_parameters=True,
            isolation_level="AUTOCOMMIT",
        )  # fmt: skip
    try:
        return create_engine(
            database.url, poolclass=NullPool, hide_parameters=True, use_native_hstore=False,
            isolation_level="AUTOCOMMIT",
            connect_args={
                "connect_timeout": _CONNECT,
                "application_name": "planrunner",
                "prepare_threshold": 0,  # a prepared statement is one statement, whatever its text tries
            },
        )  # fmt: skip
    except ImportError:
        raise Failure("PostgreSQL needs the extra `sql`: pip install 'planrunner[sql]'") from None


@contextmanager
def _connected(context: Context, database: Database, engine: Engine) -> Iterator[Connection]:
    if database.dialect == "sqlite":
        context.spend(calls=0)
    else:
        count_call(context)
    try:
        connection = engine.connect() if database.dialect == "sqlite" else _reached(context, engine)
    except Exception as error:
        raise explained(error, database, connecting=True) from None
    try:
        yield connection
    finally:
        try:
            connection.close()
        except Exception:  # the server went away: what there is to say was said
            connection.invalidate()


def _reached(context: Context, engine: Engine) -> Connection:
    """A connection to a server. A server that does not answer is left to a thread of its own when the attempt stops."""
    found: SimpleQueue[Connection | Exception] = SimpleQueue()
    left = threading.Event()

    def reach() -> None:
        try:
            connection = engine.connect()
        except Exception as error:
            found.put(error)
            return
        if left.is_set():
            connection.close()
        found.put(connection)

    threading.Thread(target=reach, daemon=True, name="planrunner-sql-connect").start()
    while True:
        try:
            answer = found.get(timeout=_TICK)
        except Empty:
            if context.cancelled():
                left.set()
                raise Failure("the connection was not waited for any longer", "cancelled") from None
            continue
        if isinstance(answer, Exception):
            raise answer
        return answer
