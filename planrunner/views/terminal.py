"""Where text goes: colour, character set, size and columns, counts and times as words.

A sign and a word always stand together: colour alone never carries meaning."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TextIO

from planrunner.escapes import harmless, quiet
from planrunner.later import Later
from planrunner.statuses import SHOWN

combining = Later("unicodedata:combining")
east_asian_width = Later("unicodedata:east_asian_width")

CODES: dict[str, str] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
}


def plural(count: int, noun: str) -> str:
    """``1 task``, ``2 tasks``, ``10,000 items``."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


EDGE = 200
"""Columns after which a line of foreign text is cut where no width is known: one line may be as long as a file."""


class Terminal:
    """A text stream with its abilities. ``live`` tells whether the cursor can be moved; a ``strict`` one, which carries
    data, raises OSError when it cannot be written, any other falls silent. ``program`` is how its reader calls this
    program again for the same runs."""

    __slots__ = ("_signs", "_stream", "color", "gone", "live", "program", "strict", "unicode")

    def __init__(self, stream: TextIO, color: bool = False, unicode: bool = False, live: bool = False) -> None:
        self._stream = stream
        self._signs: dict[str, str] = {}
        self.color = color
        self.unicode = unicode
        self.live = live
        self.program = "planrunner"
        self.strict = False
        self.gone = False

    def write(self, text: str) -> None:
        """Write and flush; once a stream that is not strict has failed, do nothing."""
        if self.gone:
            return
        try:
            self._stream.write(quiet(text) if self.live else text)
            self._stream.flush()
        except UnicodeEncodeError:
            self.unicode = False
            self._signs.clear()
            encoding = self._stream.encoding or "ascii"
            self.write(text.encode(encoding, "backslashreplace").decode(encoding))
        except (OSError, ValueError):
            if self.strict:
                raise
            self.gone = True

    def size(self) -> tuple[int, int]:
        """(columns, rows); COLUMNS and LINES come before what the terminal says, 80 by 24 where nothing is known."""
        columns, rows = _number("COLUMNS"), _number("LINES")
        if not (columns and rows):
            try:
                real = os.get_terminal_size(self._stream.fileno())
            except (OSError, ValueError, AttributeError):
                real = os.terminal_size((80, 24))
            columns, rows = columns or real.columns, rows or real.lines
        return max(20, columns or 80), max(4, rows or 24)

    def edge(self) -> int:
        """The columns that a line of foreign text may take; any other stream has ``EDGE``."""
        return self.size()[0] if self.live else EDGE

    def paint(self, text: str, color: str) -> str:
        """The text in a colour or weight, where colour is wanted."""
        return f"\x1b[{CODES[color]}m{text}\x1b[0m" if self.color and color in CODES else text

    def sign(self, status: str) -> str:
        """The sign of a status, coloured."""
        known = self._signs.get(status)
        if known is None:
            _, _, sign, plain, color, _, _ = SHOWN.get(status, SHOWN["pending"])
            known = self._signs[status] = self.paint(sign if self.unicode else plain, color)
        return known


def _number(name: str) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isascii() and value.isdigit() else 0


def word(text: str) -> str:
    """A text as one word of a shell, as people copy it. The standard library's way loads regular expressions."""
    plain = text
    for sign in "/._-":
        plain = plain.replace(sign, "")
    return text if plain.isascii() and (plain.isalnum() or not plain) else "'" + text.replace("'", "'\"'\"'") + "'"


def width(text: str) -> int:
    """How many columns a text takes on a terminal; the text holds no control characters."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def cut(text: str, columns: int, unicode: bool = True) -> str:
    """The text in at most that many columns, with an ellipsis where something is left out."""
    if width(text) <= columns:
        return text
    mark = "…" if unicode else "~"
    if text.isascii():
        return text[: max(0, columns - 1)] + mark
    room = columns - 1
    for at, char in enumerate(text):
        room -= width(char)
        if room < 0:
            return text[:at] + mark
    return text + mark


def foreign(terminal: Terminal, text: str) -> str:
    """Text of a task or a person as part of a line: harmless, and no longer than the line."""
    return cut(harmless(text), terminal.edge(), terminal.unicode)


def pad(text: str, columns: int) -> str:
    """The text filled up with blanks to that many columns."""
    return text + " " * max(0, columns - width(text))


def notes(terminal: Terminal, texts: Iterable[str]) -> None:
    """Write what people should know before a run starts, a line each."""
    terminal.write("".join(f"note: {harmless(text)}\n" for text in texts))


def table(terminal: Terminal, header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the last column is cut at the edge of a terminal, and never in a pipe."""
    widths = [max(width(_bare(row[at])) for row in (header, *rows)) for at in range(len(header))]
    lines = [terminal.paint(_line(header, widths), "dim")]
    columns = terminal.size()[0]
    for row in rows:
        line = _line(row, widths)
        is_long = terminal.live and width(_bare(line)) > columns
        lines.append(cut(_bare(line), columns, terminal.unicode) if is_long else line)
    return lines


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    filled = [cell + " " * (size - width(_bare(cell))) for cell, size in zip(row, widths, strict=True)]
    return "  ".join(filled).rstrip()


def _bare(text: str) -> str:
    """The text without its colours."""
    first, *others = text.split("\x1b[")
    return first + "".join(each.partition("m")[2] for each in others)
