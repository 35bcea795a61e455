"""How values are written: numbers and words, quoted texts, and the lines of block texts; the same in YAML and text."""

from __future__ import annotations

import re

from planrunner.syntax.scalars import Unusable, reads_as_string, resolve, trap
from planrunner.syntax.tree import Scalar

_SHORT = {"\0": "\\0", "\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r"}
_SHORT |= {"\x1b": "\\e", '"': '\\"', "\\": "\\\\", "\x85": "\\N", "\u2028": "\\L", "\u2029": "\\P"}

INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""Characters that are written as escapes, in double quotes; the break of a line among them."""
_ESCAPED = re.compile(r'["\\]|' + INVISIBLE.pattern)
_BLOCK_BREAKER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def double_quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    return _SHORT.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


def quoted(text: str) -> str:
    """A text in quotes: double ones, or single ones where these save escapes."""
    if INVISIBLE.search(text) or not ('"' in text or "\\" in text):
        return double_quoted(text)
    return "'" + text.replace("'", "''") + "'"


def word(node: Scalar) -> str | None:
    """A null, boolean or number as written; None for a string."""
    value = node.value
    if isinstance(value, str):
        return None
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if not node.style and not trap(node.raw) and _says(node.raw, value):
        return node.raw
    if isinstance(value, int):
        return str(value)
    text = repr(value)
    return text if "." in text or "e" not in text else text.replace("e", ".0e")


def _says(raw: str, value: float) -> bool:
    try:
        found = resolve(raw) if raw else None
    except Unusable:
        return False
    return type(found) is type(value) and found == value and repr(found) == repr(value)


def is_plain_text(text: str) -> bool:
    """Whether a text may stand without quotes as far as its type, its ends and its characters go."""
    return reads_as_string(text) and text == text.strip() and not INVISIBLE.search(text)


def block_header(text: str) -> str | None:
    """The ``|`` that begins a text of several lines, with its indicators, or None where quotes must hold it."""
    if "\n" not in text or _BLOCK_BREAKER.search(text) or not text.strip("\n"):
        return None
    if text.endswith("\n\n"):
        return None  # empty lines at the end of a block text could not be told from those between tasks
    lines = text.split("\n")
    if any(line and not line.strip() for line in lines):
        return None
    indent = "2" if text.lstrip("\n")[0] in " \t" else ""
    return f"|{indent}" if text.endswith("\n") else f"|{indent}-"


def block_lines(text: str, indent: str) -> list[str]:
    """The lines of a block text; a line that says nothing stays empty."""
    body = text[:-1] if text.endswith("\n") else text
    return [indent + line if line else "" for line in body.split("\n")]
