"""How far the readers of a journal have got, durably: the entries they have dealt with, and what they keep of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from planrunner.errors import NotFound
from planrunner.journal.local import LocalDatabase
from planrunner.journal.process_leases import ProcessLease
from planrunner.jsontext import read_json, write_json

Json = Any

_TABLES = (
    """CREATE TABLE positions (
        reader TEXT, run TEXT, seq INTEGER NOT NULL, PRIMARY KEY (reader, run)
    ) WITHOUT ROWID""",
    "CREATE TABLE kept (reader TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
_MOVE = "INSERT INTO positions VALUES (?, ?, ?) ON CONFLICT (reader, run) DO UPDATE SET seq = excluded.seq"
_KEEP = "INSERT INTO kept VALUES (?, ?) ON CONFLICT (reader) DO UPDATE SET value = excluded.value"


class Positions(LocalDatabase):
    """The positions of the readers of one state directory.

    What a reader keeps changes in the same transaction as its positions, so that it counts every entry exactly once.
    Raises as ``LocalDatabase``.
    """

    NAME, MARK, LAYOUT, TABLES = "follow", 0x706C666F, 1, _TABLES

    __slots__ = ()

    def read(self, reader: str) -> tuple[dict[str, int], Json]:
        """The last entry that a reader dealt with by run, and what it keeps: None before its first positions."""
        return dict(self.ask("SELECT run, seq FROM positions WHERE reader = ?", reader)), self.kept(reader)

    def kept(self, reader: str) -> Json:
        """What a reader keeps; None where there is nothing yet."""
        rows = self.ask("SELECT value FROM kept WHERE reader = ?", reader)
        return read_json(rows[0][0]) if rows else None

    def move(self, reader: str, positions: Mapping[str, int], kept: Json) -> None:
        """Set positions of a reader, and what it keeps (JSON data, not None). Durable on return."""
        with self.writing(durable=True):
            for run, seq in positions.items():
                self.do(_MOVE, reader, run, seq)
            self.do(_KEEP, reader, write_json(kept))

    def forget(self, runs: Iterable[str]) -> None:
        """Drop the positions in runs that were removed."""
        with self.writing(durable=True):
            for run in runs:
                self.do("DELETE FROM positions WHERE run = ?", run)


def read_kept(state: str, reader: str) -> Json:
    """What a reader keeps, for a process that does not move positions; None where there is nothing yet. Raises
    StorageFailed."""
    with suppress(NotFound), Positions(state, readonly=True) as positions:
        return positions.kept(reader)
    return None


def moving(state: str) -> ProcessLease:
    """The right to move positions, which one process at a time has."""
    return ProcessLease(state, "follow.positions")
