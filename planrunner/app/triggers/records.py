"""What is remembered of triggers: up to when their times were dealt with, which files they last saw, whether they are
paused, and what came of the last time.

That a run is queued once follows from the queue: the key of its item names the trigger and what fired it.
"""

from __future__ import annotations

import time
from typing import Any

from planrunner.app.queue.items import Pause
from planrunner.app.queue.store import Store
from planrunner.jsontext import read_json, write_json
from planrunner.records import Struct

Json = Any

_RECORDS = "SELECT name, definition, since, mark, paused, last FROM triggers"


class Last(Struct):
    """What came of the last time that a trigger fired: ``run`` was queued, or ``problem`` says why none was."""

    at: float
    run: str = ""
    problem: str = ""


class Record(Struct):
    """``definition`` tells whether the entry in the settings is still the one that ``since`` and ``mark`` belong to."""

    name: str
    definition: str
    since: float
    mark: str = ""
    paused: Pause | None = None
    last: Last | None = None


def records(store: Store) -> dict[str, Record]:
    """The records of all triggers by name."""
    rows = store.ask(_RECORDS)
    return {row[0]: _record(row) for row in rows}


def record(store: Store, name: str) -> Record | None:
    """The record of a trigger; None for one that nothing is remembered of."""
    rows = store.ask(f"{_RECORDS} WHERE name = ?", name)
    return _record(rows[0]) if rows else None


def change(store: Store, name: str, **fields: Any) -> Record:
    """Write some fields of the record of a trigger, durably, and give it as it is then. What another process writes
    into its other fields stays."""
    with store.writing(durable=True):
        kept = (record(store, name) or Record(name, "", time.time()))._replace(**fields)
        store.do(
            "INSERT OR REPLACE INTO triggers VALUES (?, ?, ?, ?, ?, ?)",
            *(kept.name, kept.definition, kept.since, kept.mark),
            write_json(kept.paused._asdict()) if kept.paused else "",
            write_json(kept.last._asdict()) if kept.last else "",
        )
    return kept


def _record(row: Json) -> Record:
    name, definition, since, mark, paused, last = row
    return Record(
        *(name, definition, since, mark),
        Pause(**read_json(paused)) if paused else None,
        Last(**read_json(last)) if last else None,
    )
