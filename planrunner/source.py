"""Plan text and places in it: what every finding and every run-time failure points at."""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal, NamedTuple

Notation = Literal["yaml", "json", "text"]

MAX_TEXT = 8 * 1024 * 1024
"""Characters of a plan; what decodes a file holds the same number of bytes against a file."""


class Span(NamedTuple):
    """A half-open range of characters, as offsets into ``Source.text``."""

    start: int
    end: int


NOWHERE = Span(0, 0)


class Place(NamedTuple):
    """A line and a column as people count them: both start at 1, the column counts characters."""

    line: int
    column: int


class Source:
    """One plan file: its text, the name people know it by and its notation."""

    __slots__ = ("_starts", "name", "notation", "text")

    def __init__(self, text: str, name: str = "<text>", notation: Notation = "yaml") -> None:
        self.text = text
        self.name = name
        self.notation: Notation = notation
        self._starts: list[int] | None = None

    def place(self, offset: int) -> Place:
        """The line and column of a character offset; an offset past the end gives the place after the last
        character."""
        offset = max(0, min(offset, len(self.text)))
        starts = self._line_starts()
        line = bisect_right(starts, offset)
        return Place(line, offset - starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The text of a line (from 1), without its line ending."""
        starts = self._line_starts()
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")

    def offset(self, line: int, column: int = 1) -> int:
        """The character offset of a line and column, both from 1."""
        starts = self._line_starts()
        return starts[min(line, len(starts)) - 1] + column - 1

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            starts, at = [0], self.text.find("\n")
            while at >= 0:
                starts.append(at + 1)
                at = self.text.find("\n", at + 1)
            self._starts = starts
        return self._starts


def notation_of(name: str) -> Notation:
    """The notation a file name stands for: ``.plan`` is text, ``.json`` JSON, anything else YAML."""
    if name.endswith(".plan"):
        return "text"
    return "json" if name.endswith(".json") else "yaml"
