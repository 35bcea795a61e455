"""What an attempt noted of an act before it began, in the journal's database: an attempt that is issued again after a
kill, or an undo whose attempt nobody saw end, goes by it."""

from __future__ import annotations

import os
import time
from zlib import crc32

from planrunner.errors import NotFound, StorageFailed
from planrunner.journal import locks
from planrunner.journal.database import AGAIN, FILE, Connection, failure, open_database, sqlite3

KEPT = 30 * 86400.0
"""Seconds after the end of its run for which a note is kept: until then somebody may roll the run back."""

_RARELY = 64
_OVER = "DELETE FROM notes WHERE run IN (SELECT run FROM runs WHERE ended < ?)"


def read_note(state: str, name: str) -> str:
    """The text of a note; empty where there is none, or no journal yet. Raises StorageFailed."""
    try:
        connection = open_database(state)
    except NotFound:
        return ""
    try:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'").fetchone():
            return ""  # an older planrunner wrote it, and nobody has written since
        row = connection.execute("SELECT text FROM notes WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])
    except sqlite3.Error as error:
        raise failure(error, os.path.join(state, FILE)) from error
    finally:
        connection.close()


def write_note(state: str, run: str, name: str, text: str) -> None:
    """Keep a note of a run in place of the one of that name; empty removes it. Durable on return; any thread may call
    it. Raises StorageFailed."""
    path = os.path.join(state, FILE)
    if not os.path.lexists(path):
        raise StorageFailed(f"the journal `{path}` is gone", f"restore it from a copy, then {AGAIN}")
    lock, _ = locks.open_lock(state, False)  # all who write share it
    try:
        connection = open_database(state, _begin)
        try:
            _write(connection, run, name, text)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise failure(error, path) from error
    finally:
        if lock is not None:
            lock.close()


def _write(connection: Connection, run: str, name: str, text: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if text:
        connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (name, run, text))
    else:
        connection.execute("DELETE FROM notes WHERE name = ?", (name,))
    if crc32(name.encode()) % _RARELY == 0:
        connection.execute(_OVER, (time.time() - KEPT,))
    connection.execute("COMMIT")


def _begin(_: Connection) -> None:
    raise StorageFailed("the journal has no tables", f"restore it from a copy, then {AGAIN}")
