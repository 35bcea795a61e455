"""The findings that the readers of both notations make."""

from __future__ import annotations

import re

from planrunner.diagnostics import Diagnostic, Label
from planrunner.source import Span
from planrunner.syntax.tree import Scalar

_UNREADABLE = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"
"""Control characters, halves of surrogate pairs, byte order marks (but the first of a file) and non-characters."""


def find_unreadable(text: str) -> Diagnostic | None:
    """The finding for the first character that no plan may contain, or None."""
    found = re.compile(_UNREADABLE).search(text, 1 if text[:1] == "\ufeff" else 0)
    return None if found is None else unreadable(text, found.start())


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
