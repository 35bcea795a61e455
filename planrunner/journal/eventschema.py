"""The JSON Schema of events as the journal stores them, made from the event types.

``python -m planrunner.journal.eventschema`` prints it; ``schemas/journal-event.schema.json`` is its output.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from planrunner.journal.codec import event_types
from planrunner.machine.events import EDITION, Outcome
from planrunner.machine.statuses import RUN, TASK
from planrunner.records import defaults, fields

Json = Any


_NAMES: dict[str, Any] = {
    **{name: getattr(typing, name) for name in ("Any", "Literal", "Union")},
    "Json": Any,
    "TaskStatus": Literal[tuple(TASK)],
    "RunStatus": Literal[tuple(RUN)],
}
"""Names in the annotations of events that exist for type checkers only."""

_SIMPLE: dict[object, Json] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
}


def event_schema() -> dict[str, Json]:
    """A schema for one row with its body parsed."""
    kinds = dict(sorted(event_types().items()))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One event as the journal of planrunner stores it",
        "type": "object",
        "required": ["seq", "at", "kind", "version", "body"],
        "properties": {
            "run": {"type": "string", "description": "id of the run"},
            "seq": {"type": "integer", "minimum": 1, "description": "place in the run, without gaps from 1"},
            "at": {
                "type": "number",
                "description": "seconds since 1970 by the clock of the runner; order is that of seq",
            },
            "kind": {"enum": list(kinds)},
            "version": {"type": "integer", "minimum": 1},
            "body": {"type": "object", "description": "fields that have their default are left out"},
        },
        "oneOf": [
            {
                "properties": {
                    "kind": {"const": kind},
                    "version": {"const": EDITION},
                    "body": {"$ref": f"#/$defs/{kind}"},
                }
            }
            for kind in kinds
        ],
        "$defs": {"outcome": _record(Outcome)} | {kind: _record(event, _TURN) for kind, event in kinds.items()},
    }


_TURN = {"turn": {"type": "integer", "minimum": 1, "description": "seq of the first event that was decided with it"}}


def _record(record: Any, more: dict[str, Json] | None = None) -> Json:
    if more is None:
        more = {}
    hints = get_type_hints(record, localns=_NAMES)
    return {
        "description": " ".join(record.__doc__.split()),
        "type": "object",
        "required": [name for name in fields(record) if name not in defaults(record)],
        "properties": {name: _value(hints[name]) for name in fields(record)} | more,
        "additionalProperties": False,
    }


def _value(hint: Any) -> Json:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in {Union, types.UnionType}:
        return {"anyOf": [_value(argument) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _value(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _value(arguments[1]) or True}
    if hint is Outcome:
        return {"$ref": "#/$defs/outcome"}
    return dict(_SIMPLE[hint])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(event_schema(), indent=2) + "\n")
