"""What errors of a database stand for, without the secrets that their texts may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import Failure

if TYPE_CHECKING:
    from planrunner.capabilities.sql.databases import Database

_POSTGRESQL = (
    ("57014", "timeout"), ("42501", "policy"), ("25006", "policy"), ("55P03", "transient"),
    ("08", "transient"), ("40", "transient"), ("53", "transient"), ("57P", "transient"), ("23", "constraint"),
)  # fmt: skip
"""How an SQLSTATE begins, and the failure class; `logic` for all others."""

_SQLITE = (
    ("SQLITE_BUSY", "transient"), ("SQLITE_LOCKED", "transient"), ("SQLITE_CONSTRAINT", "constraint"),
    ("SQLITE_AUTH", "policy"), ("SQLITE_READONLY", "policy"), ("SQLITE_INTERRUPT", "timeout"),
)  # fmt: skip


def explained(error: Exception, database: Database, connecting: bool = False) -> Exception:
    """The failure for an error of SQLAlchemy or a driver; what is none of a database comes back as it is."""
    if isinstance(error, Failure):
        return error
    original: Any = getattr(error, "orig", None)
    if original is None:
        return error
    if database.dialect == "sqlite":
        return Failure(f"SQLite: {original}", _of(_SQLITE, str(getattr(original, "sqlite_errorname", ""))))
    state = str(original.sqlstate or "") if hasattr(original, "sqlstate") else ""
    failure = _of(_POSTGRESQL, state)
    if not state and type(original).__name__ == "OperationalError":
        failure = "transient"  # refused, lost or never there
    return Failure(database.clean(f"PostgreSQL: {_said(original, connecting)}"), failure)


def _of(table: tuple[tuple[str, str], ...], code: str) -> str:
    return next((failure for start, failure in table if code.startswith(start)), "logic")


def _said(original: Any, connecting: bool) -> str:
    told = getattr(original, "diag", None)
    if told is None or not told.message_primary:
        text = " ".join(str(original).split())
        return f"cannot be reached: {text}" if connecting else text
    more = [part for part in (told.message_detail, told.message_hint) if part]
    return " · ".join([told.message_primary, *more])
