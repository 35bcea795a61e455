"""The values of expressions: what kind they are, when two are the same, how they order, add up and read as text.

Data is as JSON has it, plus ``Quantity``; a scope inside a scope is a ``group``, a set of names but not a value.
Errors carry places inside one expression, template or script: where its text is in the file is added later.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any, Protocol

from planrunner.jsontext import shown as shown_json
from planrunner.plan.expressions.quantities import Quantity
from planrunner.plan.templated import EvaluationError as EvaluationError
from planrunner.plan.templated import TemplateError as TemplateError
from planrunner.records import Struct

FACTS: dict[str, tuple[str, str]] = {
    "disk.free": ("size", "room for this user on the disk of the working directory"),
    "host.cpus": ("number", "processors that planrunner may use"),
    "host.load": ("number", "the load average of the last minute"),
    "host.memory": ("size", "main memory that is still available"),
    "host.os": ("string", "the operating system in small letters, such as `linux`"),
    "memory.has_space": ("size", "room for the state directory of planrunner on its disk"),
    "network.online": ("bool", "whether a default route leads out through an interface that is up"),
}
ROOTS = frozenset(name.partition(".")[0] for name in FACTS)
"""What is before the dot of a fact."""


Json = Any


class Problem(Struct):
    """``start`` and ``end`` are offsets into the checked text.

    Where the text is in the file as it is written (a plain scalar, a double-quoted one without escapes), the place in
    the file is the start of the text plus the offset. For a block scalar the caller adds the indentation of each line,
    for quoted text with escapes it maps character by character or points at the whole scalar.
    """

    code: str
    message: str
    start: int
    end: int
    help: str = ""


class ExpressionError(Exception):
    """Text that is not an expression. ``start`` and ``end`` are offsets into it; ``code`` is that of the finding."""

    def __init__(self, message: str, start: int, end: int, way_out: str = "", code: str = "PLAN207") -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.help = way_out
        self.code = code


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


LONGEST_TEXT = 1_048_576
"""Characters of one text that an expression makes."""
LONGEST_LIST = 100_000
"""Items of one list that an expression makes."""
LARGEST_INT = 2**63
DEEPEST_DATA = 128
"""Levels of data that are compared; deeper data is refused."""

_KINDS: dict[type, str] = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    type(None): "null",
    list: "list",
    tuple: "list",
    dict: "map",
}
NAMES = {
    "string": "text",
    "number": "a number",
    "bool": "true or false",
    "null": "null",
    "list": "a list",
    "map": "a map",
    "time": "a duration",
    "size": "a size",
    "money": "an amount of money",
    "percent": "a percentage",
    "group": "a group of names",
    "unknown": "no value a plan can hold",
}


class Scope(Protocol):
    """Where names get their values.

    ``resolve`` gives the value of one name, and raises KeyError (or MissingName with words of its own) where there is
    none. The value is data or again a scope, which is asked for the next name: ``tasks.test.outputs`` asks the scope
    for ``tasks``, that one for ``test``, and that one for ``outputs``. So nothing is built that no expression reads.
    """

    def resolve(self, name: str) -> Json: ...


class Absent(dict[str, "Json"]):
    """An empty map in the place of what is not there, such as the outputs of a task that did not run: ``default`` and
    ``exists`` take it for missing."""


class Names:
    """The scope that a dict is."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[str, Json]) -> None:
        self._values = values

    def resolve(self, name: str) -> Json:
        return self._values[name]


def items_of(container: Json) -> Json:
    """What an index by number looks into: of the record of a fan-out its ``items``, of anything else the value."""
    if isinstance(container, dict) and "status" in container and isinstance(container.get("items"), list):
        return container["items"]
    return container


def kind(value: Json) -> str:
    """One of the keys of ``NAMES``: a JSON kind, the dimension of a quantity, or ``group``."""
    found = _KINDS.get(type(value))
    if found is not None:
        return found
    if isinstance(value, Quantity):
        return value.dimension
    if isinstance(value, dict):  # such as ``Absent``
        return "map"
    return "group" if hasattr(value, "resolve") else "unknown"


def same(left: Json, right: Json, level: int = 0) -> bool:
    """Whether two values are equal: by kind first, so that ``1`` is not ``true``; a percentage equals its fraction, a
    quantity the number of its seconds, bytes or dollars."""
    if level > DEEPEST_DATA:
        raise EvaluationError("the data is nested too deeply to be compared")
    one, other = kind(left), kind(right)
    if one != other:
        if _of_one_measure(one, other):
            return bool(_amount(left) == _amount(right))
        refuse_mixed_units(one, other)
        return False
    if one == "list":
        return len(left) == len(right) and all(same(a, b, level + 1) for a, b in zip(left, right, strict=True))
    if one == "map":
        return left.keys() == right.keys() and all(same(value, right[key], level + 1) for key, value in left.items())
    return bool(left == right)


def before(left: Json, right: Json) -> bool:
    """Whether ``left < right``: numbers, texts, quantities of one dimension, a quantity and the number of its seconds,
    bytes or dollars. Raises EvaluationError for others."""
    one, other = kind(left), kind(right)
    if _of_one_measure(one, other):
        return bool(_amount(left) < _amount(right))
    if one == other == "string":
        return bool(left < right)
    refuse_mixed_units(one, other)
    if one == other:
        raise EvaluationError(f"{NAMES[one]} has no order")
    raise EvaluationError(f"{NAMES[one]} cannot be compared with {NAMES[other]}")


def refuse_mixed_units(one: str, other: str) -> None:
    """Raises EvaluationError where a quantity meets a percentage or another dimension."""
    if one == other or not ({one, other} & set(UNITS)):
        return
    quantity, rest = (one, other) if one in UNITS else (other, one)
    if rest == "percent":
        example = {"time": "10s", "size": "10MB", "money": "$10"}[quantity]
        raise EvaluationError(f"{NAMES[quantity]} is compared with {NAMES[rest]}: write a unit, such as `{example}`")
    if rest in UNITS:
        raise EvaluationError(f"{NAMES[one]} cannot be compared with {NAMES[other]}")


def text_of(value: Json) -> str:
    """A value as people write it: text as it is, ``true``, ``null``, ``10m``, ``50MB``; lists and maps as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Quantity):
        return str(value)
    if kind(value) in ("group", "unknown"):
        raise EvaluationError(f"{NAMES[kind(value)]} cannot be written as text")
    return json_of(value)


def json_of(value: Json) -> str:
    """A value as JSON in one line; quantities become text. Raises EvaluationError for what JSON cannot hold."""
    check_size(value)
    try:
        text = json.dumps(plain(value), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise EvaluationError("the value cannot be written as JSON") from error
    return bounded_text(text)


def plain(value: Json, level: int = 0) -> Json:
    """A copy of a value with quantities as text, fit for JSON. Raises EvaluationError for what is not data."""
    if level > DEEPEST_DATA:
        raise EvaluationError("the data is nested too deeply")
    what = kind(value)
    if what == "list":
        return [plain(item, level + 1) for item in value]
    if what == "map":
        return {key: plain(item, level + 1) for key, item in value.items()}
    if what in ("group", "unknown"):
        raise EvaluationError(f"{NAMES[what]} cannot be passed on")
    return str(value) if isinstance(value, Quantity) else value


def check_size(value: Json) -> None:
    """Raises EvaluationError where a value as text would be too long: one value may occur in it many times."""
    left, waiting = LONGEST_TEXT, [value]
    while waiting:
        item = waiting.pop()
        left -= len(item) if isinstance(item, str) else 1
        if left < 0:
            raise EvaluationError(f"the text would have more than {LONGEST_TEXT:,} characters")
        if isinstance(item, dict):
            left -= sum(len(str(key)) for key in item)
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)) and not isinstance(item, Quantity):
            if len(item) > left:
                raise EvaluationError(f"the text would have more than {LONGEST_TEXT:,} characters")
            waiting.extend(item)


def shown(value: Json, longest: int = 80) -> str:
    """A value for a message: text in quotes, long ones cut."""
    if kind(value) in ("group", "unknown"):
        return NAMES[kind(value)]
    try:
        return str(value) if isinstance(value, Quantity) else shown_json(plain(value), longest)
    except EvaluationError as error:
        return error.message


def joined(parts: list[str], glue: str = "") -> str:
    """Texts as one. Raises EvaluationError where it would be too long, before it is made."""
    if sum(map(len, parts)) + len(glue) * len(parts) > LONGEST_TEXT:
        raise EvaluationError(f"the text would have more than {LONGEST_TEXT:,} characters")
    return glue.join(parts)


def bounded_text(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise EvaluationError(f"the text would have more than {LONGEST_TEXT:,} characters")
    return text


def bounded_list(items: list[Json]) -> list[Json]:
    if len(items) > LONGEST_LIST:
        raise EvaluationError(f"the list would have more than {LONGEST_LIST:,} items")
    return items


def bounded_number(value: float) -> float:
    """A number, as a whole one where it was computed from whole ones; too large ones and NaN are refused."""
    if isinstance(value, int):
        if abs(value) > LARGEST_INT:
            raise EvaluationError("the number is too large")
    elif value - value != 0:
        raise EvaluationError("the number is too large")
    return value


def _of_one_measure(one: str, other: str) -> bool:
    """Whether two kinds are amounts of the same: a number is a fraction, or the seconds, bytes or dollars of the
    quantity that it meets, which is what capabilities give."""
    if one in UNITS or other in UNITS:
        return one == other or "number" in (one, other)
    return one in ("number", "percent") and other in ("number", "percent")


def _amount(value: Json) -> float:
    return value.amount if isinstance(value, Quantity) else value


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
    hint = ""
    if sign == "+" and "string" in (one, other):
        hint = f": write `str(…)` around {NAMES[other if one == 'string' else one]}"
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
        return Quantity(_numbers(sign, left.amount, right.amount), left.dimension)
    if one in UNITS and other in ("number", "percent") and sign in ("*", "/"):
        return Quantity(_numbers(sign, left.amount, _amount(right)), left.dimension)
    if other in UNITS and one in ("number", "percent") and sign == "*":
        return Quantity(_numbers(sign, _amount(left), right.amount), right.dimension)
    if {one, other} == {"number", "percent"}:
        return _numbers(sign, _amount(left), _amount(right))
    if sign in ("+", "-") and _of_one_measure(one, other):
        dimension = left.dimension if isinstance(left, Quantity) else right.dimension
        return Quantity(_numbers(sign, _amount(left), _amount(right)), dimension)
    return None
