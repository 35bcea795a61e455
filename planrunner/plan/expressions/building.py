"""Trees from what the grammar recognises; called by the parser while it reads, one rule at a time, bottom up."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer

from planrunner.plan.expressions.literals import CONSTANTS, LONGEST_NUMBER, unquoted
from planrunner.plan.expressions.problem import ExpressionError
from planrunner.plan.expressions.quantities import parse_count, parse_quantity

Tree = Any
Tail = tuple[str, Any, int]
"""Operator, right side, end: what stands behind the left side of a comparison."""

COMPARISONS = {"is": "==", "is not": "!=", "is in": "in", "is not in": "not in"}
KINDS = {
    "string": "string",
    "text": "string",
    "number": "number",
    "bool": "bool",
    "boolean": "bool",
    "list": "list",
    "map": "map",
    "mapping": "map",
    "duration": "time",
    "size": "size",
    "percentage": "percent",
}


def _end(token: Token) -> int:
    return int(token.end_pos or 0)


def _start(token: Token) -> int:
    return int(token.start_pos or 0)


class Building(Transformer[Token, Tree]):
    """One method a rule of ``grammar/expr.lark``; shapes of trees are listed in ``evaluate.py``."""

    def start(self, items: list[Tree]) -> Tree:
        return items[0]

    def choice(self, items: list[Tree]) -> Tree:
        then, condition, otherwise = items
        return ("if", then[1], otherwise[2], condition, then, otherwise)

    def disjunction(self, items: list[Tree]) -> Tree:
        return ("or", items[0][1], items[-1][2], tuple(items))

    def conjunction(self, items: list[Tree]) -> Tree:
        return ("and", items[0][1], items[-1][2], tuple(items))

    def negate(self, items: list[Any]) -> Tree:
        return ("not", _start(items[0]), items[1][2], items[1])

    def comparison(self, items: list[Any]) -> Tree:
        left, (operator, right, end), *more = items
        if more:
            raise ExpressionError(
                "comparisons cannot be chained",
                left[1],
                more[-1][2],
                "join two comparisons by `and`, such as `1 < x and x < 5`",
            )
        if operator in ("empty", "kind"):
            positive, *rest = right
            test = (operator, left[1], end, left, *rest)
            return test if positive else ("not", left[1], end, test)
        return ("compare", left[1], end, operator, left, right)

    def against(self, items: list[Any]) -> Tail:
        operator = " ".join(items[0].split())
        return (COMPARISONS.get(operator, operator), items[1], items[1][2])

    def emptiness(self, items: list[Token]) -> Tail:
        return ("empty", ("not" not in items[0].split(),), _end(items[0]))

    def kind(self, items: list[Token]) -> Tail:
        words = items[0].split()
        if words[-1] not in KINDS:
            raise ExpressionError(
                f"`{words[-1]}` is no type of value",
                _end(items[0]) - len(words[-1]),
                _end(items[0]),
                "types are text, number, bool, list, map, duration, size and percentage",
            )
        return ("kind", ("not" not in words, KINDS[words[-1]]), _end(items[0]))

    def binary(self, items: list[Any]) -> Tree:
        left, operator, right = items
        return ("binary", left[1], right[2], str(operator), left, right)

    def signed(self, items: list[Any]) -> Tree:
        sign, operand = items
        return ("sign", _start(sign), operand[2], str(sign), operand)

    def member(self, items: list[Any]) -> Tree:
        return ("attr", items[0][1], _end(items[1]), items[0], str(items[1]))

    def index(self, items: list[Any]) -> Tree:
        return ("index", items[0][1], _end(items[2]), items[0], items[1])

    def name(self, items: list[Token]) -> Tree:
        return ("name", _start(items[0]), _end(items[0]), str(items[0]))

    def grouped(self, items: list[Token]) -> Tree:
        token = items[0]
        group, _, name = (part.strip() for part in token.partition("."))
        start = _start(token)
        return ("attr", start, _end(token), ("name", start, start + len(group), group), name)

    def constant(self, items: list[Token]) -> Tree:
        return self._const(items[0], CONSTANTS[str(items[0])])

    def number(self, items: list[Token]) -> Tree:
        token = items[0]
        if len(token) > LONGEST_NUMBER:
            raise ExpressionError(f"the number has more than {LONGEST_NUMBER} characters", _start(token), _end(token))
        value = int(token) if token.isdigit() else float(token)
        if value == float("inf"):
            raise ExpressionError("the number is too large", _start(token), _end(token))
        return self._const(token, value)

    def quantity(self, items: list[Token]) -> Tree:
        token = items[0]
        found = parse_quantity(token)
        if found is not None:
            return ("quantity", _start(token), _end(token), found.amount, found.dimension)
        count = parse_count(token)
        if count is not None:
            return self._const(token, count)
        raise ExpressionError(
            f"`{token[:40]}` is not a quantity",
            _start(token),
            _end(token),
            "write larger units first, each once, such as `1h30m`",
        )

    def string(self, items: list[Token]) -> Tree:
        return self._const(items[0], unquoted(items[0]))

    def call(self, items: list[Any]) -> Tree:
        name, _, *arguments, end = items
        return ("call", _start(name), _end(end), str(name), tuple(arguments))

    def parenthesised(self, items: list[Any]) -> Tree:
        start, inner, end = items
        return (inner[0], _start(start), _end(end), *inner[3:])

    def sequence(self, items: list[Any]) -> Tree:
        start, *values, end = items
        return ("list", _start(start), _end(end), tuple(values))

    def mapping(self, items: list[Any]) -> Tree:
        start, *pairs, end = items
        return ("map", _start(start), _end(end), tuple(pairs))

    def pair(self, items: list[Any]) -> Tree:
        key, value = items
        return (unquoted(key) if key.type == "STRING" else str(key), value)

    def _const(self, token: Token, value: object) -> Tree:
        return ("const", _start(token), _end(token), value)
