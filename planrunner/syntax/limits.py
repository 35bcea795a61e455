"""The bounds that all notations keep, so that reading any plan costs a bounded amount of time and memory."""

from __future__ import annotations

import gc

from planrunner.diagnostics import Diagnostic
from planrunner.source import Span

MAX_TEXT = 8 * 1024 * 1024
"""Characters of a plan; ``decode`` holds the same number of bytes against a file."""
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
    """Ends a parse at its first finding that leaves nothing sound to go on with; never leaves this room."""

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
