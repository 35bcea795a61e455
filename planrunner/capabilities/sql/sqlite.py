"""SQLite: a connection on which a statement can neither end the transaction nor reach another file."""

from __future__ import annotations

import sqlite3
from typing import Any
from urllib.parse import quote

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
    """Whether somebody else holds the database for the moment."""
    original = getattr(error, "orig", None) or error
    return str(getattr(original, "sqlite_errorname", "")).startswith(_BUSY)
