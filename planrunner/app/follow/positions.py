"""How far the readers of a journal have got, durably: the entries they have dealt with, and what they keep of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

from planrunner.errors import StorageFailed
from planrunner.fileio import ensure_database
from planrunner.journal.process_leases import ProcessLease
from planrunner.journal.workspace import check_contents, check_state
from planrunner.jsontext import read_json, write_json

Json = Any

FILE = "follow.db"
VERSION = 1

_TABLES = (
    """CREATE TABLE IF NOT EXISTS positions (
        reader TEXT, run TEXT, seq INTEGER NOT NULL, PRIMARY KEY (reader, run)
    ) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS kept (reader TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
_MOVE = "INSERT INTO positions VALUES (?, ?, ?) ON CONFLICT (reader, run) DO UPDATE SET seq = excluded.seq"
_KEEP = "INSERT INTO kept VALUES (?, ?) ON CONFLICT (reader) DO UPDATE SET value = excluded.value"


class Positions:
    """The positions of the readers of one state directory; belongs to the thread that opened it.

    What a reader keeps changes in the same transaction as its positions, so that it counts every entry exactly once.
    Raises StorageFailed for a place or a file that cannot be used.
    """

    def __init__(self, state: str) -> None:
        check_state(state)
        check_contents(state)
        self._path = os.path.join(state, FILE)
        try:
            self._connection = self._opened()
        except (sqlite3.Error, OSError) as error:
            raise self._failed(error) from error

    def read(self, reader: str) -> tuple[dict[str, int], Json]:
        """The last entry that a reader dealt with by run, and what it keeps: None before its first positions."""
        try:
            rows = self._connection.execute("SELECT run, seq FROM positions WHERE reader = ?", (reader,)).fetchall()
            kept = self._connection.execute("SELECT value FROM kept WHERE reader = ?", (reader,)).fetchone()
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return dict(rows), None if kept is None else read_json(kept[0])

    def move(self, reader: str, positions: Mapping[str, int], kept: Json) -> None:
        """Set positions of a reader, and what it keeps (JSON data, not None). Durable on return."""
        rows = [(reader, run, seq) for run, seq in positions.items()]
        self._write([(_MOVE, rows), (_KEEP, [(reader, write_json(kept))])])

    def forget(self, runs: Iterable[str]) -> None:
        """Drop the positions in runs that were removed."""
        self._write([("DELETE FROM positions WHERE run = ?", [(run,) for run in runs])])

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _opened(self) -> sqlite3.Connection:
        ensure_database(self._path)
        connection = sqlite3.connect(self._path, isolation_level=None)
        try:
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            with closing(connection.execute("PRAGMA user_version")) as asked:
                (version,) = asked.fetchone()
            if version > VERSION:
                raise StorageFailed(f"`{self._path}` has version {version}", "a newer planrunner wrote it: upgrade")
            for table in _TABLES:
                connection.execute(table)
            connection.execute(f"PRAGMA user_version={VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _write(self, changes: list[tuple[str, list[tuple[Any, ...]]]]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for statement, rows in changes:
                    self._connection.executemany(statement, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StorageFailed:
        return StorageFailed(f"`{self._path}` failed: {error}", "free some space, or move the file away")


def read_kept(state: str, reader: str) -> Json:
    """What a reader keeps, for a process that does not move positions; None where there is nothing yet. Raises
    StorageFailed."""
    path = os.path.join(state, FILE)
    if not os.path.exists(path):
        return None
    check_contents(state)
    try:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA query_only=ON")
            if connection.execute("PRAGMA user_version").fetchone() == (0,):
                return None  # the process that makes the tables is at it
            kept = connection.execute("SELECT value FROM kept WHERE reader = ?", (reader,)).fetchone()
    except sqlite3.Error as error:
        raise StorageFailed(f"`{path}` failed: {error}") from error
    return None if kept is None else read_json(kept[0])


def moving(state: str) -> ProcessLease:
    """The right to move positions, which one process at a time has."""
    return ProcessLease(state, "follow.positions")
