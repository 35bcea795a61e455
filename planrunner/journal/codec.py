"""Entries to rows and back: kind in snake case, version, body as JSON without the fields that have their default.

The turn of an entry stands in its body beside the fields of the event, where the chain covers it.

A stored event is never rewritten. When the fields of a kind change, its version goes up in ``VERSIONS`` and
``UPCASTERS`` gets a function for the old one; ``tests/journal/histories`` holds rows of every version there ever was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from json import loads
from typing import Any

from planrunner.errors import StorageFailed
from planrunner.jsontext import encode_basestring_ascii as _text
from planrunner.jsontext import write_json
from planrunner.machine import events
from planrunner.machine.events import KINDS, Entry, Event

Json = Any
Body = dict[str, Json]


Render = Callable[[Any], str]
Read = Callable[[Any], Any]


def _json(value: Json) -> str:
    return _text(value) if type(value) is str else write_json(value)


_SIMPLE: dict[str, Render] = {"str": _text, "int": int.__repr__}


def _annotation(event: type, field: str) -> str:
    kind = event.__annotations__[field]
    return str(getattr(kind, "__forward_arg__", kind)).removesuffix(" | None")


def _record(annotation: str) -> type | None:
    """The named tuple of the events module that an annotation names."""
    kind = getattr(events, annotation, None)
    return kind if isinstance(kind, type) and hasattr(kind, "_fields") else None


def _elements(annotation: str) -> str:
    """``tuple[X, ...]`` → ``X``, anything else → empty."""
    return annotation[6:-1].removesuffix(", ...") if annotation.startswith("tuple[") else ""


def _renderer(annotation: str) -> Render:
    record = _record(annotation)
    if record is not None:
        return renderer_of(record)
    if _record(_elements(annotation)) is not None:
        render = _renderer(_elements(annotation))
        return lambda value: f"[{','.join(map(render, value))}]"
    return _SIMPLE.get(annotation, _json)


def renderer_of(record: Any) -> Render:
    """A function from a record to its JSON object, without the fields that have their default.

    Records of the kinds that make up most of a run are written by hand, three times as fast, as long as their fields
    are the ones the hand knew.
    """
    known = _BY_HAND.get(record.__name__)
    if known is not None and known[0] == record._fields:
        return known[1]
    return rendered_by_field(record)


def rendered_by_field(record: Any) -> Render:
    """As ``renderer_of``, for any record: one function for each field, chosen by its annotation."""
    missing = object()
    fields = []
    for name in record._fields:
        kind = record.__annotations__[name]
        optional = str(getattr(kind, "__forward_arg__", kind)).endswith(" | None")
        render = _json if optional else _renderer(_annotation(record, name))
        fields.append((f'"{name}":', record._field_defaults.get(name, missing), render))

    def render_record(value: Any) -> str:
        shown = [
            key + render(field) for (key, default, render), field in zip(fields, value, strict=True) if field != default
        ]
        return "{" + ",".join(shown) + "}"

    return render_record


def _reader(annotation: str) -> Read | None:
    record = _record(annotation)
    if record is not None:
        return reader_of(record)
    elements = _elements(annotation)
    if not elements:
        return None
    inner = _reader(elements)
    return tuple if inner is None else lambda value: tuple(map(inner, value))


def reader_of(record: Any) -> Read:
    """A function from a JSON object to the record, lists made tuples again and objects records."""
    converts = [(name, _reader(_annotation(record, name))) for name in record._fields]
    changed = [(name, convert) for name, convert in converts if convert is not None]
    if not changed:
        return lambda body: record(**body)

    def read_record(body: Body) -> Any:
        for name, convert in changed:
            if body.get(name) is not None:
                body[name] = convert(body[name])
        return record(**body)

    return read_record


def _number(value: float) -> str:
    if value - value != 0:
        raise ValueError(f"{value} is not JSON data")
    return repr(value)


def _attempt_started(event: events.AttemptStarted) -> str:
    task, attempt, key, inputs, effect, reissue, reserved, undo = event
    text = f'{{"task":{_text(task)},"attempt":{attempt:d},"key":{_text(key)}'
    if inputs:
        text += f',"inputs":{_text(inputs)}'
    if effect != "unsafe":
        text += f',"effect":{_text(effect)}'
    if reissue:
        text += f',"reissue":{reissue:d}'
    if reserved:
        text += f',"reserved":{_json(reserved)}'
    return text + (',"undo":true}' if undo else "}")


def _attempt_ended(event: events.AttemptEnded) -> str:
    return f'{{"task":{_text(event.task)},"attempt":{event.attempt:d},"outcome":{_render_outcome(event.outcome)}}}'


def _outcome(outcome: events.Outcome) -> str:
    failure, message, outputs, exit_code, duration, stdout, stderr, artifacts, usage, rule, *more = outcome
    refused, acted, no_value = more[:3]
    shown = [f'"failure":{_text(failure)}'] if failure else []
    if message:
        shown.append(f'"message":{_text(message)}')
    if outputs:
        shown.append(f'"outputs":{_json(outputs)}')
    if exit_code is not None:
        shown.append(f'"exit_code":{exit_code:d}')
    if duration:
        shown.append(f'"duration":{_number(duration)}')
    if stdout:
        shown.append(f'"stdout":{_text(stdout)}')
    if stderr:
        shown.append(f'"stderr":{_text(stderr)}')
    if artifacts:
        shown.append(f'"artifacts":{_json(artifacts)}')
    if usage:
        shown.append(f'"usage":{_json(usage)}')
    if rule:
        shown.append(f'"rule":{_text(rule)}')
    if refused:
        shown.append(f'"refused":{_json(refused)}')
    if not acted:
        shown.append('"acted":false')
    if no_value:
        shown.append('"no_value":true')
    if outcome.retry_after is not None:
        shown.append(f'"retry_after":{_number(outcome.retry_after)}')
    if outcome.retry:
        shown.append(f'"retry":{_json(outcome.retry)}')
    return f"{{{','.join(shown)}}}"


def _task_settled(event: events.TaskSettled) -> str:
    task, status, reason, detail, failure = event
    text = f'{{"task":{_text(task)},"status":{_text(status)}'
    if reason:
        text += f',"reason":{_text(reason)}'
    if detail:
        text += f',"detail":{_text(detail)}'
    return text + (f',"failure":{_text(failure)}}}' if failure else "}")


_BY_HAND: dict[str, tuple[tuple[str, ...], Callable[[Any], str]]] = {
    "AttemptStarted": (
        ("task", "attempt", "key", "inputs", "effect", "reissue", "reserved", "undo"),
        _attempt_started,
    ),
    "AttemptEnded": (("task", "attempt", "outcome"), _attempt_ended),
    "Outcome": (
        (
            *("failure", "message", "outputs", "exit_code", "duration", "stdout", "stderr", "artifacts", "usage"),
            *("rule", "refused", "acted", "no_value", "retry_after", "retry"),
        ),
        _outcome,
    ),
    "TaskSettled": (("task", "status", "reason", "detail", "failure"), _task_settled),
}
_render_outcome = renderer_of(events.Outcome)


Upcaster = Callable[[Body], tuple[str, int, Body]]

Row = tuple[int, float, str, int, str]
"""seq, at, kind, version, body"""

VERSIONS: dict[str, int] = {}
"""Kinds whose current version is not 1."""

LIFTED: dict[str, tuple[str, ...]] = {"attempt_started": ("degraded",)}
"""Fields that a kind had once and that nothing is decided by any more: reading drops them."""

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
    for seq, at, event, turn in entries:
        kind, version, render = writers[event.__class__]
        body = render(event)
        if turn:
            body = f'{body[:-1]},"turn":{turn}}}' if len(body) > 2 else f'{{"turn":{turn}}}'
        add((base + seq, at, kind, version, body))
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
                _entry(seq, at, (kind, version), body)
                for (seq, at, kind, version, _), body in zip(rows, bodies, strict=True)
            ]
    except (ValueError, TypeError, KeyError, AttributeError):
        pass  # one of them is old, new or damaged: find out which
    return [_careful(row) for row in rows]


def _entry(seq: int, at: float, form: tuple[str, int], body: Body) -> Entry:
    turn = body.pop("turn", 0)
    return Entry(seq, at, _READERS[form](body), turn)


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


def _careful(row: Row) -> Entry:
    seq, at, kind, version, text = row
    where = f"event {seq} (`{kind}`)" if seq else f"an event `{kind}`"
    try:
        kind, version, body = _upcast(kind, version, loads(text))
        for field in LIFTED.get(kind, ()):
            body.pop(field, None)
        return _entry(seq, at, (kind, version), body)
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
