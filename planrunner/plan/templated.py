"""Data that may hold templates: whether it does, and how filling them in fails. Most tasks hold none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from planrunner.records import Struct, astuple


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


def is_template(value: object) -> TypeGuard[str]:
    """Whether a value is text in which anything is to be rendered."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def templates(value: object) -> Iterator[str]:
    """The texts with templates inside data, in its order."""
    stack = [value]
    while stack:
        item = stack.pop()
        if is_template(item):
            yield item
        elif isinstance(item, dict):
            stack.extend(reversed(item.values()))
        elif isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        elif isinstance(item, Struct):
            stack.extend(reversed(astuple(item)))


def holds_template(value: object) -> bool:
    """Whether there is a template anywhere in data."""
    return any(True for _ in templates(value))
