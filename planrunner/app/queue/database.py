"""``queue.db`` in the state directory, and the answers that are kept there beside the queue."""

from __future__ import annotations

import time
from typing import NamedTuple

from planrunner.errors import Hint, NextStep, NotFound
from planrunner.journal.local import LocalDatabase

_TABLES = (
    """CREATE TABLE items (
        number INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL UNIQUE, key TEXT UNIQUE, plan TEXT NOT NULL,
        digest TEXT NOT NULL, request TEXT NOT NULL, asker TEXT NOT NULL, place TEXT NOT NULL, source TEXT NOT NULL,
        act TEXT NOT NULL, arguments TEXT NOT NULL, seal BLOB, priority INTEGER NOT NULL, ahead INTEGER NOT NULL,
        status TEXT NOT NULL, enqueued REAL NOT NULL, begun REAL, ended REAL, wakes REAL, seen INTEGER NOT NULL,
        carried INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL, code INTEGER
    )""",
    "CREATE INDEX turns ON items (status, ahead, priority, number)",
    "CREATE INDEX begun ON items (begun)",
    "CREATE INDEX sources ON items (source, status)",
    "CREATE TABLE texts (digest TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE pauses (who TEXT NOT NULL, at REAL NOT NULL, reason TEXT NOT NULL)",
    """CREATE TABLE triggers (
        name TEXT PRIMARY KEY, definition TEXT NOT NULL, since REAL NOT NULL, mark TEXT NOT NULL, paused TEXT NOT NULL,
        last TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE answers (
        number INTEGER PRIMARY KEY AUTOINCREMENT, place TEXT NOT NULL UNIQUE, asked TEXT NOT NULL, at REAL NOT NULL,
        answer TEXT
    )""",
)
"""``ahead`` is 1 for what had its turn already: what a dead worker left, and parked runs that go on. ``seen`` is the
last entry of the run when it was asked for, first taken, or let go of; ``carried`` is 1 once what ``act`` says is known
to have happened, so that the run only goes on. ``pauses`` has one row or none.
``triggers`` are what ``app/triggers/records.py`` keeps. ``answers`` are what ``Answers`` keeps."""

MOST = 2000
"""Answers that are kept, the latest ones."""


class Database(LocalDatabase):
    """The queue of a state directory. Raises as ``LocalDatabase``."""

    NAME, MARK, LAYOUT, TABLES = "queue", 0x706C7175, 3, _TABLES

    __slots__ = ()

    def nothing(self) -> NotFound:
        hint = Hint("put a run there: ", NextStep("queue", "add", "PLAN"))
        return NotFound(f"nothing was queued in `{self.state}`", hint)


class Kept(NamedTuple):
    """What was asked with a key, by its digest, and what was answered; None while it is being carried out, and where
    that was cut off."""

    asked: str
    answer: str | None


class Answers(Database):
    """Answers to requests that came with a key: the same request again gets the same answer, also from a service that
    was started since."""

    __slots__ = ()

    def begin(self, place: str, asked: str) -> Kept | None:
        """Note, durably, that a request is being carried out; what is kept of it where it came before."""
        with self.writing(durable=True):
            rows = self.ask("SELECT asked, answer FROM answers WHERE place = ?", place)
            if rows:
                return Kept(*rows[0])
            self.do("INSERT INTO answers (place, asked, at) VALUES (?, ?, ?)", place, asked, time.time())
            return None

    def end(self, place: str, answer: str | None) -> None:
        """Keep the answer, durably; None forgets the request, so that it can be made again."""
        with self.writing(durable=True):
            if answer is None:
                self.do("DELETE FROM answers WHERE place = ?", place)
                return
            self.do("UPDATE answers SET answer = ? WHERE place = ?", answer, place)
            self.do("DELETE FROM answers WHERE number <= (SELECT max(number) FROM answers) - ?", MOST)
