"""Calls from what the grammar recognises; called by the parser while it reads, bottom up."""

from __future__ import annotations

from typing import Any

from lark import Token

from planrunner.plan.commands.calls import Argument, Call, Word
from planrunner.plan.expressions.grammar import Building

Tree = Any


class Reading(Building):
    """The rules of ``grammar/command.lark`` that expressions do not have; values are built as theirs are."""

    def start(self, items: list[Call]) -> tuple[Call, ...]:
        return tuple(items)

    def call(self, items: list[Any]) -> Call:
        verb, opened, *rest = items
        result = _word(rest.pop()) if isinstance(rest[-1], Token) and rest[-1].type == "NAME" else None
        closed = rest.pop()
        return Call(_word(verb), tuple(rest), int(opened.start_pos), int(closed.end_pos), result)

    def positional(self, items: list[Tree]) -> Argument:
        (value,) = items
        return Argument("", value, value[1], value[2])

    def keyword(self, items: list[Any]) -> Argument:
        name, value = items
        return Argument(str(name), value, int(name.start_pos), value[2])

    def negative(self, items: list[Any]) -> Tree:
        sign, token = items
        number = self.number([token])
        return ("const", int(sign.start_pos), number[2], -number[3])


def _word(token: Token) -> Word:
    return Word(str(token), int(token.start_pos or 0), int(token.end_pos or 0))
