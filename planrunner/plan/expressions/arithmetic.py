"""``+ - * / // %`` on numbers, quantities, texts and lists."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from planrunner.plan.expressions.quantities import Dimension, Quantity
from planrunner.plan.expressions.values import (
    NAMES,
    EvaluationError,
    bounded_list,
    bounded_number,
    bounded_text,
    kind,
)

Json = Any
UNITS = ("time", "size", "money")


def compute(sign: str, left: Json, right: Json) -> Json:
    """The result of an operation. Raises EvaluationError where kinds do not fit or the result is too large."""
    one, other = kind(left), kind(right)
    if one == other == "number":
        return _numbers(sign, left, right)
    if one in UNITS or other in UNITS or "percent" in (one, other):
        result = _quantities(sign, left, right)
        if result is not None:
            return result
    elif sign == "+" and one == other == "string":
        return bounded_text(left + right) if len(left) + len(right) < 1 << 24 else bounded_text(left)
    elif sign == "+" and one == other == "list":
        return bounded_list([*left, *right])
    raise EvaluationError(misfit(sign, one, other))


def misfit(sign: str, one: str, other: str) -> str:
    """Words for an operation on kinds that do not fit."""
    hint = ": write `str(…)` around the other one" if sign == "+" and "string" in (one, other) else ""
    return f"`{sign}` does not take {NAMES[one]} and {NAMES[other]}{hint}"


def negative(value: Json) -> Json:
    """``-value``; raises EvaluationError for what has no sign."""
    if isinstance(value, Quantity):
        return Quantity(-value.amount, value.dimension)
    if kind(value) != "number":
        raise EvaluationError(f"`-` does not take {NAMES[kind(value)]}")
    return bounded_number(-value)


_EXACT: dict[str, Callable[[float, float], float]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _numbers(sign: str, left: float, right: float) -> float:
    bounded_number(left)
    bounded_number(right)
    if sign in _EXACT:
        return bounded_number(_EXACT[sign](left, right))
    if not right:
        raise EvaluationError("division by zero")
    if sign == "%":
        return bounded_number(left % right)
    if sign == "//":
        return bounded_number(left // right)
    whole = isinstance(left, int) and isinstance(right, int) and left % right == 0
    return left // right if whole else bounded_number(left / right)


def _quantities(sign: str, left: Json, right: Json) -> Json:
    """Quantities among themselves and with numbers; None where they do not fit.

    A percentage is its fraction: times a quantity it gives that quantity, with a number it gives a number.
    """
    one, other = kind(left), kind(right)
    if one == other:
        if sign in ("/", "//"):
            return _numbers(sign, left.amount, right.amount)
        if sign == "*":
            return Quantity(_numbers("*", left.amount, right.amount), "percent") if one == "percent" else None
        return _quantity(_numbers(sign, left.amount, right.amount), one)
    if one in UNITS and other in ("number", "percent") and sign in ("*", "/"):
        return _quantity(_numbers(sign, left.amount, _fraction(right)), one)
    if other in UNITS and one in ("number", "percent") and sign == "*":
        return _quantity(_numbers(sign, _fraction(left), right.amount), other)
    if {one, other} == {"number", "percent"}:
        return _numbers(sign, _fraction(left), _fraction(right))
    return None


def _quantity(amount: float, dimension: str) -> Quantity:
    dimensions: dict[str, Dimension] = {"time": "time", "size": "size", "money": "money", "percent": "percent"}
    return Quantity(amount, dimensions[dimension])


def _fraction(value: Json) -> float:
    return value.amount if isinstance(value, Quantity) else value
