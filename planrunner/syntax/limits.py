"""What every notation has in common: bytes to text, the bounds that keep reading a plan cheap, and shared findings."""

from __future__ import annotations

import gc
import re

from planrunner.diagnostics import Diagnostic, Label
from planrunner.source import MAX_TEXT, Source, Span, notation_of
from planrunner.syntax.tree import Scalar

MAX_DEPTH = 64
"""Collections inside collections, aliases followed."""
MAX_NODES = 2_000_000
"""Scalars, and the beginnings and ends of collections, as written."""
MAX_ALIASES = 1_000
MAX_EXPANDED = 1_000_000
"""Nodes that aliases add when every one of them is replaced by what it stands for."""
MAX_SCALAR = 1024 * 1024
"""Characters of one scalar."""

MAX_LINE = 4 * MAX_SCALAR
"""Characters of one line of the text notation: patterns that look for the end of a quote need memory for each."""
MAX_WORDS = 1_000_000
"""Words and signs of a plan in the text notation, all of which are in memory before its tree is made."""


class CollectorPaused:
    """Holds Python's garbage collector while a tree is made: its many small objects all stay alive, and looking for
    dead ones among them is two thirds of the time."""

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()


class Refused(Exception):
    """Ends a parse at its first finding that leaves nothing sound to continue with; never leaves this room."""

    def __init__(self, finding: Diagnostic) -> None:
        super().__init__(finding.message)
        self.finding = finding


def too_large(message: str, start: int, end: int) -> Refused:
    """The refusal of a text that passes one of the bounds above."""
    return Refused(Diagnostic("PLAN011", message, Span(start, end)))


def too_deep(start: int) -> Refused:
    return too_large(f"the nesting is deeper than {MAX_DEPTH} levels", start, start + 1)


def check_length(text: str) -> None:
    """Raises Refused where the whole text is too long to be read."""
    if len(text) > MAX_TEXT:
        raise too_large(f"the text is longer than {MAX_TEXT:,} characters", 0, 0)


def check_scalar(length: int, start: int, end: int) -> None:
    if length > MAX_SCALAR:
        raise too_large(f"a value is longer than {MAX_SCALAR:,} characters", start, end)


_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def decode(data: bytes, name: str) -> tuple[Source | None, tuple[Diagnostic, ...]]:
    """The source for the bytes of a file, its notation taken from its name, or the finding why they are not a plan.

    A byte order mark of UTF-8 is dropped. Never raises; the span of a finding is the start of the text, because what
    cannot be decoded has no characters to point at; the message has the offset in bytes.
    """
    if len(data) > MAX_TEXT:
        return None, (
            _finding("PLAN011", f"the file has {len(data):,} bytes; a plan has at most {MAX_TEXT:,}", "split the plan"),
        )
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return None, (
                _finding(
                    "PLAN012", f"the file is {encoding}; plans are UTF-8", f"convert it: `iconv -f {encoding} -t UTF-8`"
                ),
            )
    if b"\0" in data:
        at = data.index(b"\0")
        return None, (_finding("PLAN012", f"the file is not text: byte {at} is NUL", "a plan is UTF-8 text"),)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"the file is not UTF-8: byte {error.start}, on line {line}, is 0x{data[error.start]:02x}"
        return None, (_finding("PLAN012", message, "save it as UTF-8"),)
    return Source(text, name, notation_of(name)), ()


def _finding(code: str, message: str, help: str) -> Diagnostic:
    return Diagnostic(code, message, Span(0, 0), help=help)


_UNREADABLE = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"
"""Control characters, halves of surrogate pairs, byte order marks (but the first of a file) and non-characters."""


def find_unreadable(text: str) -> Diagnostic | None:
    """The finding for the first character that no plan may contain, or None."""
    match = re.compile(_UNREADABLE).search(text, 1 if text[:1] == "\ufeff" else 0)
    return None if match is None else unreadable(text, match.start())


def unreadable(text: str, at: int) -> Diagnostic:
    number = ord(text[at])
    if not number:
        return Diagnostic("PLAN012", "the file is not text: it contains NUL characters", Span(at, at + 1))
    help = "delete it, or write it as an escape in double quotes"
    return Diagnostic("PLAN001", f"the character U+{number:04X} cannot stand in a plan", Span(at, at + 1), help=help)


def empty_plan() -> Diagnostic:
    return Diagnostic("PLAN001", "the plan is empty", Span(0, 0), help="`planrunner init` writes one to start from")


def duplicate_key(key: Scalar, earlier: Scalar) -> Diagnostic:
    label = Label(earlier.span, "first here")
    return Diagnostic(
        "PLAN002", f"the key `{key.value}` stands twice in this mapping", key.span, "again here", (label,)
    )
