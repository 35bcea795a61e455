"""Entries to rows and back: kind in snake case, version, body as JSON without the fields that have their default.

The turn of an entry stands in its body behind the fields of the event, where the chain covers it.

A stored event is never rewritten. Its version is the edition of the rules by which its run is decided
(``events.EDITION``): rows of another one are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from planrunner.errors import StorageFailed
from planrunner.jsontext import read_json, write_json
from planrunner.machine import events
from planrunner.machine.events import EDITION, KINDS, Entry, Event

Row = tuple[int, float, str, int, str]
"""seq, at, kind, version, body"""

_TURN = ',"turn":'
"""What stands between the fields of an event and the turn; inside a text its quotes would be escaped."""


def encode(event: Event) -> tuple[str, int, str]:
    """Kind, version and body (a JSON object) of an event.

    Raises TypeError or ValueError for values that JSON has not; of numbers, only finite ones may be given.
    """
    return _KIND[type(event)], EDITION, _body(event)


def _body(event: Event) -> str:
    try:
        body = _ENCODER.encode(event)
        if b"null" not in body:
            return body.decode()
    except UnicodeEncodeError:  # a text with halves of characters, which JSON can write and UTF-8 cannot
        pass
    # what is null may be a number that JSON has not
    return write_json(msgspec.to_builtins(event))


def encode_rows(base: int, entries: Iterable[Entry]) -> list[Row]:
    """Rows for the table ``entries``, each with ``base`` added to its seq; raises like ``encode``."""
    rows: list[Row] = []
    for seq, at, event, turn in entries:
        body = _body(event)
        if turn:
            body = f"{body[:-1]}{_TURN}{turn}}}" if len(body) > 2 else f'{{"turn":{turn}}}'
        rows.append((base + seq, at, _KIND[event.__class__], EDITION, body))
    return rows


def decode(kind: str, version: int, body: str) -> Event:
    """The event of a stored form.

    Raises StorageFailed for a kind or version this program does not know, and for a body that does not fit.
    """
    return _entry((0, 0.0, kind, version, body)).event


def decode_rows(rows: Sequence[Row]) -> list[Entry]:
    """Entries of many rows; raises like ``decode``, naming the row."""
    return [_entry(row) for row in rows]


def _entry(row: Row) -> Entry:
    seq, at, kind, version, body = row
    if version != EDITION or (kind not in _DECODERS and _class_name(kind) not in KINDS):
        hint = _OLDER if version < EDITION else _NEWER
        raise StorageFailed(f"this program knows no event `{kind}` of version {version}", hint)
    try:
        try:
            fields, _, turn = body.rpartition(_TURN)
            if fields and turn[:-1].isdigit():
                return Entry(seq, at, _DECODERS[kind].decode(f"{fields}}}"), int(turn[:-1]))
            return Entry(seq, at, _DECODERS[kind].decode(body))
        except msgspec.DecodeError:  # halves of characters, or a turn that stands elsewhere
            told = read_json(body)
            turn = told.pop("turn", 0)
            return Entry(seq, at, msgspec.convert(told, _DECODERS[kind].type), turn)
    except (ValueError, TypeError, AttributeError) as error:
        where = f"event {seq} (`{kind}`)" if seq else f"an event `{kind}`"
        raise StorageFailed(f"{where} in the journal is damaged: {error}", _DAMAGED) from error


def kind_of(event: type) -> str:
    """``AttemptStarted`` → ``attempt_started``."""
    name = event.__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _class_name(kind: str) -> str:
    return "".join([word.capitalize() for word in kind.split("_")])


def event_types() -> dict[str, type]:
    """Every kind of event by its name in the journal."""
    return {kind_of(event): event for event in events.EVENTS}


_DAMAGED = "restore `journal.db` from a copy; the runs in it that are not damaged can still be read"
_NEWER = "a newer planrunner wrote it: upgrade planrunner to read this run"
_OLDER = "an older planrunner wrote it, whose runs this one does not read: use that one for this run"


class _Kinds(dict["type", "str"]):
    """Looked up when a kind is first written: a short run writes few."""

    def __missing__(self, event: type) -> str:
        if event.__name__ not in KINDS:
            raise TypeError(f"{event.__name__} is not an event")
        self[event] = kind_of(event)
        return self[event]


class _Decoders(dict["str", "msgspec.json.Decoder[Any]"]):
    """Made when a kind is first read."""

    def __missing__(self, kind: str) -> msgspec.json.Decoder[Any]:
        self[kind] = msgspec.json.Decoder(getattr(events, _class_name(kind)))
        return self[kind]


_KIND = _Kinds()
_ENCODER = msgspec.json.Encoder()
_DECODERS = _Decoders()
