"""What a command says: its calls, with offsets into the text of the command."""

from __future__ import annotations

from typing import Any, NamedTuple

from planrunner.records import Struct
from planrunner.source import Span
from planrunner.syntax.tree import Scalar

Tree = Any


class Word(NamedTuple):
    """A name in the text."""

    text: str
    start: int
    end: int


class Argument(Struct):
    """``name`` is empty for an argument by position; ``value`` is a tree as expressions have them."""

    name: str
    value: Tree
    start: int
    end: int


class Call(Struct):
    """``verb(arguments) -> result``; ``opened`` and ``closed`` are the places of the brackets."""

    verb: Word
    arguments: tuple[Argument, ...]
    opened: int
    closed: int
    result: Word | None

    @property
    def end(self) -> int:
        return self.closed if self.result is None else self.result.end


class CommandError(Exception):
    """Text that is not a command. ``start`` and ``end`` are offsets into it; ``code`` is the code of the finding."""

    def __init__(self, message: str, start: int, end: int, way_out: str = "", code: str = "PLAN214") -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.help = way_out
        self.code = code


class Places:
    """The places of a text inside the scalar it was read from."""

    __slots__ = ("_node", "_offsets", "_text")

    def __init__(self, node: Scalar, text: str) -> None:
        self._node = node
        self._text = text
        self._offsets: list[int] | None = None

    def span(self, start: int, end: int) -> Span:
        """The place in the file of a part of the text."""
        node, text = self._node, self._text
        at = node.raw.find(text)
        if at >= 0 and node.raw.find(text, at + 1) < 0:
            return Span(node.start + at + start, node.start + at + end)
        if self._offsets is None:
            self._offsets = _followed(text, node)
        if start >= len(self._offsets):
            return node.span
        return Span(self._offsets[start], self._offsets[max(start, min(end, len(self._offsets)) - 1)] + 1)


def _followed(text: str, node: Scalar) -> list[int]:
    """The place of each character: what is written is read along with it, over indentation and escapes. A space or a
    line end stands where the character before it ended."""
    raw = node.raw
    at = raw.find("\n") + 1 if node.style in ("|", ">") else int(node.style in ("'", '"'))
    result: list[int] = []
    for character in text:
        here = raw.find(character, at) if not character.isspace() else -1
        if here >= 0:
            at = here + 1
        result.append(node.start + (here if here >= 0 else min(at, max(len(raw) - 1, 0))))
    return result
