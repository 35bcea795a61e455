"""What a command says: its calls, with offsets into the text of the command."""

from __future__ import annotations

from typing import Any, NamedTuple

Tree = Any


class Word(NamedTuple):
    """A name in the text."""

    text: str
    start: int
    end: int


class Argument(NamedTuple):
    """``name`` is empty for an argument by position; ``value`` is a tree as expressions have them."""

    name: str
    value: Tree
    start: int
    end: int


class Call(NamedTuple):
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
    """Text that is no command. ``start`` and ``end`` are offsets into it; ``code`` is the code of the finding."""

    def __init__(self, message: str, start: int, end: int, way_out: str = "", code: str = "PLAN214") -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.help = way_out
        self.code = code
