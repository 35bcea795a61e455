"""What is wrong inside one expression, template or script, before anybody knows where in the file its text stands."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """``start`` and ``end`` are offsets into the checked text.

    Where the text stands in the file as it is (a plain scalar, a double-quoted one without escapes), the place in the
    file is the start of the text plus the offset. For a block scalar the caller adds the indentation of each line, for
    quoted text with escapes it maps character by character or points at the whole scalar.
    """

    code: str
    message: str
    start: int
    end: int
    help: str = ""


class ExpressionError(Exception):
    """Text that is no expression. ``start`` and ``end`` are offsets into it; ``code`` is the code of the finding."""

    def __init__(self, message: str, start: int, end: int, way_out: str = "", code: str = "PLAN207") -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.help = way_out
        self.code = code


class TemplateError(Exception):
    """A template that cannot be rendered; the message names what is missing or does not fit."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EvaluationError(Exception):
    """An expression that has no value: it names what is missing or does not fit."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Undecided(EvaluationError):
    """A value of a task that has not ended; ``flag`` where that is one of the flags of its result."""

    def __init__(self, message: str, flag: bool = False) -> None:
        super().__init__(message)
        self.flag = flag


class MissingName(EvaluationError):
    """A name, a member or an item that is not there; ``default`` and ``exists`` catch it."""


DEEPEST = 64
"""Levels of one expression, counted in operations inside operations."""

TOO_DEEP = f"the expression is nested more than {DEEPEST} levels deep"
SPLIT = "split it: compute a part in a task and read its output"
