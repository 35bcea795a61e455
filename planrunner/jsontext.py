"""JSON by the interpreter's own C parts: the package around them loads regular expressions, which short runs notice."""

from __future__ import annotations

from typing import Any

Json = Any

try:
    from _json import encode_basestring, make_encoder, make_scanner
    from _json import encode_basestring_ascii as encode_basestring_ascii
except ImportError:  # another interpreter than CPython
    from json.encoder import c_make_encoder as make_encoder  # type: ignore[attr-defined,no-redef]
    from json.encoder import encode_basestring, encode_basestring_ascii
    from json.scanner import c_make_scanner as make_scanner  # type: ignore[attr-defined,no-redef]


__all__ = ["as_text", "encode_basestring_ascii", "joined", "read_json", "shown", "stable_json", "write_json"]


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _refuse(value: object) -> Json:
    raise TypeError(f"{type(value).__name__} is not JSON data")


class _Context:
    """What the scanner asks: plain dicts, lists, floats and ints, and no NaN."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_refuse_constant)


_scan = make_scanner(_Context())  # type: ignore[arg-type]
_chunks = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)
_spaced_chunks = make_encoder(None, str, encode_basestring, None, ": ", ", ", False, False, True)
_sorted_chunks = make_encoder(None, str, encode_basestring_ascii, None, ":", ",", True, False, True)


def read_json(text: str) -> Json:
    """The data of a JSON text that begins without white space; raises ValueError for anything else."""
    try:
        value, end = _scan(text, 0)
    except StopIteration as error:
        raise ValueError(f"no JSON value at character {error.value}") from None
    if text[end:].strip(" \t\r\n"):
        raise ValueError(f"something follows the JSON value at character {end}")
    return value


def write_json(value: Json) -> str:
    """The shortest JSON text of data, in ASCII; raises TypeError or ValueError for what JSON has not, NaN included."""
    return "".join(_chunks(value, 0))


def stable_json(value: Json) -> str:
    """The same with sorted keys, for digests; what JSON has not is taken as text."""
    return "".join(_sorted_chunks(value, 0))


def shown(value: Json, longest: int = 80) -> str:
    """A value for people, in one line: JSON as it is usually written, cut to ``longest`` characters; a text in quotes.
    What JSON has not is taken as text."""
    if isinstance(value, str):
        text = encode_basestring(value[: longest + 1])
        return text if len(value) <= longest else f'{encode_basestring(value[:longest])[:-1]}…"'
    text = "".join(_spaced_chunks(value, 0))
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
