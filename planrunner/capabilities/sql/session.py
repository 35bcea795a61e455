"""One transaction on one connection to a database: read-only or not, bounded in time, stopped when the attempt is."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, Connection, CursorResult, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.verb import open_tree
from planrunner.capabilities.outputs import count_call
from planrunner.capabilities.sql.databases import address, entry
from planrunner.capabilities.sql.statements import Bound
from planrunner.extras import needed

_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
}


class Database(NamedTuple):
    """``path`` is the file of a SQLite database; ``tries`` says that a preview may execute and roll back."""

    name: str
    dialect: Literal["sqlite", "postgresql"]
    url: URL
    path: str = ""
    tries: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether it is a SQLite file that the first task that writes would make."""
        return bool(self.path) and not os.path.exists(self.path)

    def clean(self, text: str) -> str:
        """A message without the password."""
        password = _password(self.url)
        for secret in {password, quote(password, safe=""), quote_plus(password)} - {""}:
            text = text.replace(secret, "***")
        return text


def find(context: Context, database: str) -> Database:
    """The database that a task names. Raises Failure where none has that name or planrunner cannot use it."""
    if not isinstance(database, str):
        raise Failure("`database` must be text: a name from planrunner.yaml, or sqlite:///file of the project")
    if "://" in database:
        url = _parsed(database, "`database`")
        if url.drivername != "sqlite":
            raise Failure(
                "a plan names such a database by its name in planrunner.yaml, not by its address", rule="sql.address"
            )
        given = url.database or ""
        root = os.path.realpath(context.call.directory)
        path = os.path.realpath(os.path.join(root, given))
        if not given or given == ":memory:" or url.query or not path.startswith(f"{root.rstrip('/')}/"):
            raise Failure(f"{database} is not a file below the working directory", rule="files.beneath")
        with open_tree(context, looks=context.call.dry) as tree:  # as it is written, and where links lead to
            for way in (os.path.normpath(os.path.join(root, given)), path):
                if way.startswith(f"{root.rstrip('/')}/"):
                    tree.writable(os.path.relpath(way, root))
        return _made(database, url, path)
    settings = entry(context.settings("sql"), database)
    url = _parsed(address(database, settings), f"the address of the database `{database}`")
    context.conceal(str(settings.get("url_env") or database), _password(url))
    path = url.database or "" if url.drivername == "sqlite" else ""
    if url.drivername == "sqlite" and (path in ("", ":memory:") or "memory" in url.query.get("mode", ())):
        raise Failure(
            f"the database `{database}` is one in memory, which would be empty for each task: name a file in its"
            " address, such as sqlite:///data.db"
        )
    if path and not os.path.isabs(path):
        if context.call.task.cwd:
            raise Failure(f"the address of `{database}` is relative, and the task has a `cwd`: make it absolute")
        path = os.path.join(context.call.directory, path)
    return _made(database, url, path, settings.get("preview") == "rollback")


def _password(url: URL) -> str:
    return str(url.password or url.query.get("password") or "")


def _parsed(written: str, what: str) -> URL:
    try:
        url = make_url(written)
    except (ArgumentError, ValueError):  # what they say may hold the password
        raise Failure(f"{what} cannot be read; it looks like postgresql://user@host/name or sqlite:///file") from None
    if url.drivername not in _DRIVERS:
        raise Failure(f"{what} is of the kind {url.drivername}; sqlite and postgresql are supported")
    return url.set(drivername=_DRIVERS[url.drivername])


def _made(name: str, url: URL, path: str = "", tries: bool = False) -> Database:
    return Database(name, "sqlite" if url.drivername == "sqlite" else "postgresql", url, path, tries)


_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
_READS = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE))
_NEVER = frozenset((sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH))
_PRAGMAS = frozenset(
    "application_id collation_list compile_options database_list encoding foreign_key_check foreign_key_list "
    "function_list index_info index_list index_xinfo integrity_check page_count page_size quick_check "
    "schema_version table_info table_list table_xinfo user_version".split()
)
_TELLS = frozenset("foreign_key_check foreign_key_list index_info index_list index_xinfo integrity_check quick_check "
                   "table_info table_list table_xinfo".split())  # fmt: skip
"""Those whose argument names what to tell about, and sets nothing."""


class Guarded(sqlite3.Connection):
    """``trusted`` until the transaction begins, and while planrunner itself says something about it."""

    trusted = True
    writes = False


def connect(path: str, write: bool) -> sqlite3.Connection:
    """A connection in which the transaction is told by ``own`` alone. A file that is not there is made by the first
    task that writes."""
    address = f"file:{quote(path)}?mode={'rwc' if write else 'ro'}"
    connection = sqlite3.connect(
        address, uri=True, timeout=0.1, isolation_level=None, check_same_thread=False, cached_statements=0,
        factory=Guarded,
    )  # fmt: skip
    assert isinstance(connection, Guarded)
    connection.writes = write

    def allowed(action: int, first: str | None, second: str | None, *_: Any) -> int:
        fine = connection.trusted or _is_allowed(connection.writes, action, first, second)
        return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY

    connection.set_authorizer(allowed)
    return connection


def _is_allowed(writes: bool, action: int, first: str | None, second: str | None) -> bool:
    if action == sqlite3.SQLITE_PRAGMA:
        name = (first or "").lower()
        return name in _PRAGMAS and (second is None or name in _TELLS)
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return False
    return action in _READS or (writes and action not in _NEVER)


def own(connection: Any, statement: str) -> Any:
    """Say something about the transaction, which statements of a plan may not; gives the first row, if there is one."""
    connection.trusted = True
    try:
        return connection.execute(statement).fetchone()
    finally:
        connection.trusted = False


def is_busy(error: BaseException) -> bool:
    """Whether another connection has the database locked."""
    original = getattr(error, "orig", None) or error
    return str(getattr(original, "sqlite_errorname", "")).startswith(_BUSY)


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
            raise Failure("the statement ended the transaction, which a plan may not do", rule="sql.transaction")
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
        return lambda: 0 if self._raw.total_changes == before else int(own(self._raw, "SELECT changes()")[0])

    def say(self, words: str) -> None:
        """What planrunner itself has to say about the transaction."""
        if self.dialect == "sqlite":
            self.guarded(lambda: own(self._raw, words))
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
        """SQLite has no queue for its one writer: work that finds it locked is repeated."""
        while True:
            try:
                return work()
            except Exception as error:
                waits = self.dialect == "sqlite" and is_busy(error) and time.monotonic() < deadline
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
    else:  # after a statement the transaction cannot be made writable
        limit = f"SET LOCAL statement_timeout = {max(1, round(session.seconds * 1000))}"
        words = ["BEGIN" if write else "BEGIN READ ONLY", limit, "SELECT 1"]
    for word in words:
        session.say(word)
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
            "sqlite://", creator=lambda: connect(database.path, write), poolclass=NullPool, hide_parameters=True,
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
    except ImportError as error:
        raise Failure(needed("PostgreSQL needs", "sql", error)) from None


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
    answers: SimpleQueue[Connection | Exception] = SimpleQueue()
    left = threading.Event()

    def reach() -> None:
        try:
            connection = engine.connect()
        except Exception as error:
            answers.put(error)
            return
        if left.is_set():
            connection.close()
        answers.put(connection)

    threading.Thread(target=reach, daemon=True, name="planrunner-sql-connect").start()
    while True:
        try:
            answer = answers.get(timeout=_TICK)
        except Empty:
            if context.cancelled():
                left.set()
                raise Failure("stopped while connecting", "cancelled") from None
            continue
        if isinstance(answer, Exception):
            raise answer
        return answer


_POSTGRESQL = (
    ("57014", "timeout"), ("42501", "policy"), ("25006", "policy"), ("55P03", "transient"),
    ("08", "transient"), ("40", "transient"), ("53", "transient"), ("57P", "transient"), ("23", "constraint"),
)  # fmt: skip
"""How an SQLSTATE begins, and the failure class; `logic` for all others."""

_SQLITE = (
    ("SQLITE_BUSY", "transient"), ("SQLITE_LOCKED", "transient"), ("SQLITE_CONSTRAINT", "constraint"),
    ("SQLITE_AUTH", "policy"), ("SQLITE_READONLY", "policy"), ("SQLITE_INTERRUPT", "timeout"),
)  # fmt: skip


_OF_THE_FILE = ("SQLITE_CANTOPEN", "SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_READONLY", "SQLITE_IOERR")


def explained(error: Exception, database: Database, connecting: bool = False) -> Exception:
    """The failure for an error of SQLAlchemy or a driver; any other error comes back as it is."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, (OverflowError, UnicodeError)):
        return Failure(f"a value does not fit the database: {error}")
    original: Any = getattr(error, "orig", None) or (error if hasattr(error, "sqlite_errorname") else None)
    if original is None:
        return error
    if database.dialect == "sqlite":
        code = str(getattr(original, "sqlite_errorname", ""))
        place = ""
        if code.startswith(_OF_THE_FILE):  # which file is meant where the file itself is the trouble
            folder = os.path.dirname(database.path)
            missing = "; it does not exist; the first task that writes creates it" * database.is_missing
            place = f": {database.path}{missing if os.path.isdir(folder) else f'; the folder {folder} does not exist'}"
        return _failure(f"SQLite: {original}{place}", _of(_SQLITE, code))
    state = str(original.sqlstate or "") if hasattr(original, "sqlstate") else ""
    failure = _of(_POSTGRESQL, state)
    if not state and type(original).__name__ == "OperationalError":
        failure = "transient"  # refused, lost or never there
    return _failure(database.clean(f"PostgreSQL: {_said(original, connecting)}"), failure)


def _failure(message: str, failure: str) -> Failure:
    """What a database does not let its user do is refused by a rule of its own."""
    return Failure(message, failure, rule="sql.denied" if failure == "policy" else "")


def _of(table: tuple[tuple[str, str], ...], code: str) -> str:
    return next((failure for start, failure in table if code.startswith(start)), "logic")


def _said(original: Any, connecting: bool) -> str:
    diagnostics = getattr(original, "diag", None)
    if diagnostics is None or not diagnostics.message_primary:
        text = " ".join(str(original).split())
        return f"cannot be reached: {text}" if connecting else text
    more = [part for part in (diagnostics.message_detail, diagnostics.message_hint) if part]
    return " · ".join([diagnostics.message_primary, *more])
