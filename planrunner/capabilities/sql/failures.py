"""What errors of a database stand for, without the secrets that their texts may hold."""

from __future__ import annotations

import os
from typing import Any

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.sql.connections import Database

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
    """The failure for an error of SQLAlchemy or a driver; what is none of a database comes back as it is."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, (OverflowError, UnicodeError)):
        return Failure(f"a value is nothing that the database can hold: {error}")
    original: Any = getattr(error, "orig", None) or (error if hasattr(error, "sqlite_errorname") else None)
    if original is None:
        return error
    if database.dialect == "sqlite":
        code = str(getattr(original, "sqlite_errorname", ""))
        return _failure(f"SQLite: {original}{_place(code, database)}", _of(_SQLITE, code))
    state = str(original.sqlstate or "") if hasattr(original, "sqlstate") else ""
    failure = _of(_POSTGRESQL, state)
    if not state and type(original).__name__ == "OperationalError":
        failure = "transient"  # refused, lost or never there
    return _failure(database.clean(f"PostgreSQL: {_said(original, connecting)}"), failure)


def _failure(message: str, failure: str) -> Failure:
    """What a database does not let its user do is refused by a rule of its own."""
    return Failure(message, failure, rule="sql.denied" if failure == "policy" else "")


def _place(code: str, database: Database) -> str:
    """Which file is meant where the file itself is the trouble."""
    if not code.startswith(_OF_THE_FILE):
        return ""
    folder = os.path.dirname(database.path)
    if not os.path.isdir(folder):
        return f": {database.path}; there is no folder {folder}"
    missing = "; it is not there, and the first task that writes makes it" * database.is_missing
    return f": {database.path}{missing}"


def _of(table: tuple[tuple[str, str], ...], code: str) -> str:
    return next((failure for start, failure in table if code.startswith(start)), "logic")


def _said(original: Any, connecting: bool) -> str:
    told = getattr(original, "diag", None)
    if told is None or not told.message_primary:
        text = " ".join(str(original).split())
        return f"cannot be reached: {text}" if connecting else text
    more = [part for part in (told.message_detail, told.message_hint) if part]
    return " · ".join([told.message_primary, *more])
