"""One connection to the database: transactions that are undone when they fail, and errors in our own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.journal.database import AGAIN, Connection, failure, sqlite3


class Store:
    """``path`` is the file of the database, for messages."""

    __slots__ = ("_connection", "_path")

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path

    def _transact(self, write: Callable[[], None], synchronous: str = "FULL", then: str = AGAIN) -> None:
        try:
            if synchronous != "FULL":
                self._connection.execute(f"PRAGMA synchronous={synchronous}")
            self._connection.execute("BEGIN IMMEDIATE")
            write()
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._undo()
            if isinstance(error, sqlite3.Error):
                raise failure(error, self._path, then) from error
            raise
        finally:
            if synchronous != "FULL":
                self._connection.execute("PRAGMA synchronous=FULL")

    def _undo(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # a failing disk: the transaction has no commit mark and is void in any case

    def _query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise failure(error, self._path) from error
