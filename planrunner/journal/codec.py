"""Events to rows and back: kind in snake case, version, body as JSON without the fields that have their default.

A stored event is never rewritten. When the fields of a kind change, its version goes up in ``VERSIONS`` and
``UPCASTERS`` gets a function for the old one; ``tests/journal/histories`` holds rows of every version there ever was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from json import loads
from typing import Any

from planrunner.errors import StorageFailed
from planrunner.journal.fields import Read, Render, reader_of, renderer_of
from planrunner.machine import events
from planrunner.machine.events import KINDS, Entry, Event

Json = Any
Body = dict[str, Json]
Upcaster = Callable[[Body], tuple[str, int, Body]]

Row = tuple[int, float, str, int, str]
"""seq, at, kind, version, body"""

VERSIONS: dict[str, int] = {}
"""Kinds whose current version is not 1."""

UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""(kind, version) of an older event → its kind, version and body one step newer. Steps follow each other."""


def encode(event: Event) -> tuple[str, int, str]:
    """Kind, version and body (a JSON object) of an event.

    Raises TypeError or ValueError for values that JSON has not, NaN included.
    """
    kind, version, render = _WRITERS[type(event)]
    return kind, version, render(event)


def encode_rows(base: int, entries: Iterable[Entry]) -> list[Row]:
    """Rows for the table ``entries``, each with ``base`` added to its seq; raises like ``encode``."""
    rows: list[Row] = []
    writers, add = _WRITERS, rows.append
    for seq, at, event in entries:
        kind, version, render = writers[event.__class__]
        add((base + seq, at, kind, version, render(event)))
    return rows


def decode(kind: str, version: int, body: str) -> Event:
    """The event of a stored form, through upcasters where it is of an older version.

    Raises StorageFailed for a kind or version this program does not know, and for a body that does not fit.
    """
    return decode_rows([(0, 0.0, kind, version, body)])[0].event


def decode_rows(rows: Sequence[Row]) -> list[Entry]:
    """Entries of many rows; raises like ``decode``, naming the row."""
    try:
        bodies = loads(f"[{','.join([row[4] for row in rows])}]")
        if len(bodies) == len(rows):
            return [
                Entry(seq, at, _READERS[kind, version](body))
                for (seq, at, kind, version, _), body in zip(rows, bodies, strict=True)
            ]
    except (ValueError, TypeError, KeyError, AttributeError):
        pass  # one of them is old, new or damaged: find out which
    return [_careful(row, loads) for row in rows]


def kind_of(event: type) -> str:
    """``AttemptStarted`` → ``attempt_started``."""
    name = event.__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _class_name(kind: str) -> str:
    return "".join([word.capitalize() for word in kind.split("_")])


def event_types() -> dict[str, type]:
    """Every kind of event by its name in the journal."""
    return {kind_of(event): event for event in events.EVENTS}


def version_of(kind: str) -> int:
    """The version in which events of a kind are written today."""
    return VERSIONS.get(kind, 1)


def _careful(row: Row, loads: Callable[[str], Json]) -> Entry:
    seq, at, kind, version, text = row
    where = f"event {seq} (`{kind}`)" if seq else f"an event `{kind}`"
    try:
        kind, version, body = _upcast(kind, version, loads(text))
        return Entry(seq, at, _READERS[kind, version](body))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StorageFailed(f"{where} in the journal is damaged: {error}", _DAMAGED) from error


_DAMAGED = "restore `journal.db` from a copy; the runs in it that are not damaged can still be read"
_NEWER = "a newer planrunner wrote it: upgrade planrunner to read this run"


def _upcast(kind: str, version: int, body: Body) -> tuple[str, int, Body]:
    while (kind, version) not in _READERS:
        step = UPCASTERS.get((kind, version))
        if step is None:
            raise StorageFailed(f"this program knows no event `{kind}` of version {version}", _NEWER)
        kind, version, body = step(body)
    return kind, version, body


class _Writers(dict["type", "tuple[str, int, Render]"]):
    """Made when a kind is first written: a short run writes few."""

    def __missing__(self, event: type) -> tuple[str, int, Render]:
        if event.__name__ not in KINDS:
            raise TypeError(f"{event.__name__} is not an event")
        kind = kind_of(event)
        self[event] = (kind, version_of(kind), renderer_of(event))
        return self[event]


class _Readers(dict["tuple[str, int]", "Read"]):
    """The current version of every kind, made on first sight; a missing key is an older or unknown event."""

    def __missing__(self, key: tuple[str, int]) -> Read:
        if key not in self:
            raise KeyError(key)
        self[key] = reader_of(getattr(events, _class_name(key[0])))
        return self[key]

    def __contains__(self, key: object) -> bool:
        if super().__contains__(key):
            return True
        return isinstance(key, tuple) and _class_name(key[0]) in KINDS and key[1] == version_of(key[0])


_WRITERS = _Writers()
_READERS = _Readers()
