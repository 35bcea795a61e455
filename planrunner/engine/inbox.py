"""What other processes ask of the run that this one holds."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.journal.port import JournalPort
    from planrunner.journal.records import Answer, Request, RunHandle
    from planrunner.machine.events import Entry


LOOK = 0.1
"""Seconds between two looks."""


class Inbox:
    """The requests of a held run. A look asks whether anybody wrote to the database at all; only then it is queried."""

    __slots__ = ("_handle", "_journal", "_next")

    def __init__(self, journal: JournalPort, handle: RunHandle) -> None:
        self._journal = journal
        self._handle = handle
        self._next = 0.0

    def news(self) -> list[Request]:
        """Requests without an answer; nothing before ``LOOK`` seconds have passed. What is not
        answered through ``store`` by then may be among those of the next call."""
        now = monotonic()
        if now < self._next:
            return []
        self._next = now + LOOK
        return self._journal.waiting(self._handle.run) if self._journal.touched() else []

    def store(self, entries: Sequence[Entry], answers: Sequence[tuple[int, Answer]]) -> None:
        """Append entries with the answers to the requests they follow from, in one transaction."""
        self._journal.append(self._handle, entries, answers)
