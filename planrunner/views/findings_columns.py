"""Columns of a terminal: wide and combining characters, tabs, control characters, and lines too long to show."""

from __future__ import annotations

from typing import NamedTuple
from unicodedata import category, combining, east_asian_width

TAB = 4
"""A tab is shown as this many spaces, wherever it stands: underlines stay below what they mark."""

LONGEST = 160
"""Characters of a line that are shown at most."""

BEFORE = 40
"""Characters shown before the marked part of a line that is cut."""


class Window(NamedTuple):
    """The part of a line that is shown: characters ``start`` to ``end`` of it, with ``lead`` for what is cut before."""

    text: str
    start: int
    end: int
    lead: str = ""


def window(line: str, start: int, end: int) -> Window:
    """The line, or of a very long one the part around the characters ``start`` to ``end``."""
    if len(line) <= LONGEST:
        return Window(line, 0, len(line))
    first = 0 if end <= LONGEST - 1 else max(0, start - BEFORE)
    last = min(len(line), first + LONGEST)
    lead = "…" if first else ""
    return Window(lead + line[first:last] + ("…" if last < len(line) else ""), first, last, lead)


def expanded(text: str) -> str:
    """The text as a terminal shows it: tabs as spaces, control characters as ``\N{REPLACEMENT CHARACTER}``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([character if " " <= character <= "~" else _shown(character) for character in text])


def width(text: str) -> int:
    """How many columns a terminal needs for ``expanded(text)``."""
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(1 if " " <= character <= "~" else _columns(character) for character in text)


def _shown(character: str) -> str:
    if character == "\t":
        return " " * TAB
    return "\N{REPLACEMENT CHARACTER}" if _hidden(character) else character


def _columns(character: str) -> int:
    if character == "\t":
        return TAB
    if _hidden(character):
        return 1
    if combining(character) or category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _hidden(character: str) -> bool:
    """Control characters, and marks that turn the direction of writing and make a line look like another one."""
    turns = "\u202a" <= character <= "\u202e" or "\u2066" <= character <= "\u2069"
    return turns or category(character) in ("Cc", "Cs", "Zl", "Zp")
