"""Where the ``{{ … }}`` of a text begin and end."""

from __future__ import annotations

import re
from typing import NamedTuple


class Placeholder(NamedTuple):
    """``{{ body }}`` with its offsets; ``closed`` is false where the closing braces are missing."""

    start: int
    end: int
    body: str
    closed: bool = True


_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
# Patterns are compiled when first used: most runs need none of them.
_INSIDE = rf"(?s){_STRING}|\}}\}}|[{{}}]"


def placeholders(text: str, start: int = 0, end: int | None = None) -> list[Placeholder]:
    """Every ``{{ … }}`` between two offsets, in order. Braces inside quoted text and of maps do not close it."""
    found = []
    end = len(text) if end is None else end
    at = text.find("{{", start, end)
    while at >= 0:
        close = closing(text, at + 2, end)
        if close < 0:
            found.append(Placeholder(at, end, text[at + 2 : end], False))
            break
        found.append(Placeholder(at, close + 2, text[at + 2 : close]))
        at = text.find("{{", close + 2, end)
    return found


def closing(text: str, at: int, end: int) -> int:
    """The offset of the braces that close what begins before ``at``, or -1."""
    depth = 0
    for match in re.compile(_INSIDE).finditer(text, at, end):
        sign = match[0]
        if sign == "{":
            depth += 1
        elif sign == "}" and depth:
            depth -= 1
        elif sign == "}}":
            if not depth:
                return match.start()
            depth = max(0, depth - 2)
            if text.startswith("}", match.end()) and not depth and text.startswith("}}", match.end() - 1):
                return match.end() - 1
    return -1
