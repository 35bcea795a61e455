"""Telling a command apart from an instruction in plain words, and the text of a command made ready for its grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planrunner.records import Struct

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_CALL = rf"(?:{_NAME}\s*=\s*)?{_NAME}(?:\.{_NAME})*(?:\(|[ \t]+\([^()]*\)\s*->)"
_DOTTED = rf"{_NAME}\.{_NAME}\s[^;\n]*->"
_PIECE = (
    r"(?P<text>\"(?:[^\"\\]|\\[\s\S])*(?:\"|\\?\Z)|'(?:[^'\\]|\\[\s\S])*(?:'|\\?\Z))"
    r"|(?P<comment>#[^\n]*)|(?P<bracket>[()\[\]{}])|(?P<end>[;\n])"
)
"""Text that is never closed goes on to the end: looking for its end once more from each of its quotes would take for
ever."""


class Piece(Struct):
    """A part of a command that is not just characters: quoted text, a comment, a bracket or the end of a statement."""

    kind: str
    start: int
    end: int
    depth: int


def looks_like_calls(text: str) -> bool:
    """Whether a text means to be a command: one of its statements begins with ``name(``, or names a capability with a
    dot and a result."""
    if "(" not in text and "->" not in text:
        return False
    return any(re.match(_CALL, part) or re.match(_DOTTED, part) for part in statements(text))


def only_calls(text: str) -> bool:
    """Whether a script is a command: every statement is a call, and one at least names its result. No shell could run
    it."""
    if "->" not in text:
        return False
    parts = [part for part in statements(unwrapped(text)) if part]
    named = [part for part in parts if re.search(rf"\)\s*->\s*{_NAME}$", part)]
    return bool(named) and all(part in named or re.fullmatch(rf"{_STATEMENT}", part) for part in parts)


_STATEMENT = rf"(?s:{_NAME}(?:\.{_NAME})*\(.*\))"


def statements(text: str) -> Iterator[str]:
    """The statements of a text, without the spaces around them."""
    start = 0
    for piece in pieces(text):
        if piece.kind == "comment" and not text[start : piece.start].strip():
            start = piece.end
        if piece.kind == "end" and piece.depth <= 0:
            yield text[start : piece.start].strip()
            start = piece.end
    yield text[start:].strip()


def pieces(text: str) -> Iterator[Piece]:
    depth = 0
    for found in re.finditer(_PIECE, text):
        kind = str(found.lastgroup)
        if kind == "bracket":
            depth += 1 if found[0] in "([{" else -1
        yield Piece(kind, found.start(), found.end(), depth)


def unwrapped(text: str) -> str:
    """The same text, each character in its place, with spaces for comments and for the line ends that part nothing:
    those inside brackets and those around ``->``."""
    parts = list(pieces(text))
    characters = list(text)
    for piece in parts:
        if piece.kind == "comment" or (piece.kind == "end" and piece.depth > 0 and text[piece.start] == "\n"):
            characters[piece.start : piece.end] = " " * (piece.end - piece.start)
    joined = list(re.sub(r"\s+(?=->)|(?<=->)\s+", lambda gap: " " * len(gap[0]), "".join(characters)))
    for piece in parts:
        if piece.kind == "text":
            joined[piece.start : piece.end] = text[piece.start : piece.end]
    return "".join(joined)
