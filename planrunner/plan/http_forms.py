"""Forms of text in the inputs of the http family: addresses, ranges of status codes, conditions on an answer."""

from __future__ import annotations

from collections.abc import Mapping

from planrunner.plan.expressions.check import ANY, NUMBER, STRING, Type, check_condition
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.values import ExpressionError
from planrunner.plan.model import Expression

ANSWER: Mapping[str, Type] = {
    "status": NUMBER,
    "headers": Type("map", item=STRING),
    "json": ANY,
    "body": STRING,
}
"""What a condition on an answer reads."""


def is_address(value: object) -> bool:
    """Whether it is text that begins as an address of http or https does, with a host."""
    if not isinstance(value, str):
        return False
    scheme, _, rest = value.partition("://")
    return scheme.lower() in ("http", "https") and rest[:1] not in ("", "/", "?", "#", ":")


def parse_status(value: object) -> tuple[int, int] | None:
    """`204`, `2xx`, `200-299` as first and last code; None for anything else, such as a range that runs backwards."""
    text = str(value).strip().lower()
    if len(text) == 3 and text[0] in "12345" and text[1:] == "xx":
        return int(text[0]) * 100, int(text[0]) * 100 + 99
    first, _, last = text.partition("-")
    last = last or first
    if not all(part.isascii() and part.isdigit() for part in (first, last)):
        return None
    return (int(first), int(last)) if 100 <= int(first) <= int(last) <= 599 else None


def parse_condition(value: object) -> Expression:
    """A condition on an answer, such as ``status == 200 and json.state == "done"``, over the names of ``ANSWER``.

    Raises ExpressionError for anything else: text that is not an expression, unknown names, what is always the same.
    """
    if not isinstance(value, str):
        raise ExpressionError("it is not an expression", 0, 0)
    expression = parse(value)
    for problem in check_condition(expression, ANSWER):
        raise ExpressionError(problem.message, problem.start, problem.end, problem.help, problem.code)
    return expression


def is_condition(value: object) -> bool:
    """Whether it is a condition on an answer."""
    try:
        parse_condition(value)
    except ExpressionError:
        return False
    return True
