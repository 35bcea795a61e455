"""Answers to requests that came with a key, kept beside the queue: the same request again gets the same answer, also
from a service that was started since."""

from __future__ import annotations

import time
from typing import NamedTuple

from planrunner.app.queue.database import Database

MOST = 2000
"""Answers that are kept, the latest ones."""


class Kept(NamedTuple):
    """What was asked with a key, by its digest, and what was answered; None while it is being carried out, and where
    that was cut off."""

    asked: str
    answer: str | None


class Answers(Database):
    """The answers of a state directory. Raises as ``Database``."""

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
