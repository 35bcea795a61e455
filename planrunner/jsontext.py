"""JSON as planrunner writes and reads it: short, in ASCII, without NaN."""

from __future__ import annotations

import json
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any

Json = Any

__all__ = [
    "as_text",
    "encode_basestring_ascii",
    "joined",
    "read_json",
    "read_outside",
    "shown",
    "stable_json",
    "write_json",
]


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is larger than any number")
    return number


DEEPEST = 100
"""Objects and lists inside each other in a text that others sent."""

_outside = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_read = json.JSONDecoder(parse_constant=_refuse_constant)
_short = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
_spaced = json.JSONEncoder(ensure_ascii=False, default=str, check_circular=False)
_sorted = json.JSONEncoder(separators=(",", ":"), sort_keys=True, default=str, check_circular=False)


def read_json(text: str) -> Json:
    """The data of a JSON text; raises ValueError for anything else, NaN included."""
    return _read.decode(text)


def read_outside(text: str) -> Json:
    """The data of a JSON text that others sent, which can be kept and handed on: raises ValueError for anything else,
    such as numbers that JSON cannot say again, names that are not Unicode, and nesting deeper than ``DEEPEST``."""
    try:
        data = _outside.decode(text)
    except RecursionError:
        raise _too_deep() from None
    waiting = [(data, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict):
            for name in value:
                if not name.isascii() and any("\ud800" <= sign <= "\udfff" for sign in name):
                    raise ValueError(f"the name {name[:40]!r} is not Unicode text")
        elif not isinstance(value, list):
            continue
        if depth > DEEPEST:
            raise _too_deep()
        waiting += [(each, depth + 1) for each in (value.values() if isinstance(value, dict) else value)]
    return data


def _too_deep() -> ValueError:
    return ValueError(f"the JSON text is nested deeper than {DEEPEST} levels")


def write_json(value: Json) -> str:
    """The shortest JSON text of data, in ASCII. Raises TypeError or ValueError for what JSON cannot say, NaN
    included."""
    return _short.encode(value)


def stable_json(value: Json) -> str:
    """The same with sorted keys, for digests; what JSON cannot say is taken as text."""
    return _sorted.encode(value)


def shown(value: Json, longest: int = 80) -> str:
    """A value for people, in one line: JSON as it is usually written, cut to ``longest`` characters; a text in quotes.
    What JSON cannot say is taken as text."""
    if isinstance(value, str):
        text = encode_basestring(value[: longest + 1])
        return text if len(value) <= longest else f'{encode_basestring(value[:longest])[:-1]}…"'
    text = _spaced.encode(value)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def as_text(value: Json, longest: int = 80) -> str:
    """The same with a text as it is."""
    return value if isinstance(value, str) else shown(value, longest)


def joined(start: str, parts: list[str], end: str) -> str:
    """An array or object of parts that are JSON text already, which ``start`` and ``end`` open and close.

    Made in one go and with ``parts`` itself: those of a large plan are a large text, and a copy of it takes time.
    """
    if not parts:
        return start + end
    parts[0] = start + parts[0]
    parts[-1] += end
    return ",".join(parts)
