"""Values for the parameters of a plan: from text on the command line or data in a file to typed data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from json import loads
from typing import Any, Literal, TypeAlias

from planrunner.jsontext import as_text
from planrunner.plan.expressions.quantities import parse_count, parse_duration, parse_money, parse_percent, parse_size
from planrunner.plan.model import Param, Plan
from planrunner.plan.nearest import nearest
from planrunner.records import Struct

Json: TypeAlias = "Any"


class Bound(Struct):
    """Values by parameter name (durations in seconds, sizes in bytes, money in dollars), and what was wrong."""

    values: dict[str, Json]
    problems: tuple[str, ...]


def bind_params(plan: Plan, given: Mapping[str, Json]) -> Bound:
    """The parameters of a plan, by ``bind``."""
    return bind(plan.params, given)


def bind(params: Sequence[Param], given: Mapping[str, Json], noun: str = "parameter") -> Bound:
    """Check and convert what was given, fill in defaults. Text is read by the parameter's type; other data must fit it.
    ``noun`` is what they are called in messages: ``parameter``, or ``field`` of a form."""
    known = {param.name: param for param in params}
    problems = [_unknown(name, known, noun) for name in given if name not in known]
    values: dict[str, Json] = {}
    for param in params:
        if param.name in given:
            value, problem = _read(param, given[param.name], noun)
        elif param.required:
            problem = f"{noun} `{param.name}` is required: {_OPTIONS[noun]} {param.name}=VALUE"
            value = None
        else:
            value, problem = (None, "") if param.default is None else _read(param, param.default, noun)
        values[param.name] = value
        if problem:
            problems.append(problem)
    return Bound(values, tuple(problems))


def misfit(param: Param) -> tuple[Literal["", "type", "choice"], str]:
    """What is wrong with the default of a parameter when it is used: which kind of fault and in words, or nothing."""
    if param.default is None:
        return "", ""
    _, problem = _read(param._replace(choices=()), param.default)
    if problem:
        return "type", problem
    _, problem = _read(param, param.default)
    return ("choice", problem) if problem else ("", "")


_OPTIONS = {"parameter": "-p", "field": "-f"}
_PLACES = {"parameter": "the plan", "field": "the form"}


def _unknown(name: str, known: Mapping[str, Param], noun: str) -> str:
    near = nearest(name, tuple(known))
    text = f"{_PLACES[noun]} has no {noun} `{name}`"
    if near:
        return f"{text}; did you mean `{near}`?"
    return text + (f"; it has {', '.join(known)}" if known else "; it has none")


def _read(param: Param, value: Json, noun: str = "parameter") -> tuple[Json, str]:
    reader = _READERS.get(param.type, _any)
    try:
        found = reader(value)
    except (ValueError, OverflowError, RecursionError):
        quote = ": write it in quotes" if param.type == "string" and isinstance(value, float) else ""
        kind = "the number " if quote else ""
        return None, f"{noun} `{param.name}` takes {_WORDS[param.type]}, not {kind}{_shown(value)}{quote}"
    if param.choices and found not in [_quiet(reader, choice) for choice in param.choices]:
        listed = ", ".join(str(choice) for choice in param.choices)
        return None, f"{noun} `{param.name}` takes one of {listed}, not {_shown(value)}"
    return found, ""


def _quiet(reader: Callable[[Json], Json], value: Json) -> Json:
    try:
        return reader(value)
    except (ValueError, OverflowError, RecursionError):
        return value


def _shown(value: Json) -> str:
    return f"`{as_text(value, 60)[:60]}`"


def _any(value: Json) -> Json:
    return value


def _string(value: Json) -> Json:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError  # of a number with a point or an exponent the digits that were written are lost: `1.10` is 1.1
    return str(value)


def _int(value: Json) -> Json:
    if isinstance(value, str):
        counted = parse_count(value)
        if counted is None:
            return int(value)
        value = counted
    if isinstance(value, bool) or not isinstance(value, (int, float)) or int(value) != value:
        raise ValueError
    return int(value)


def _number(value: Json) -> Json:
    if isinstance(value, str):
        counted = parse_count(value)
        number = float(value) if counted is None else counted
        if number != number or number in (float("inf"), float("-inf")):
            raise ValueError
        return int(number) if number == int(number) and "." not in value else number
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError
    return value


def _bool(value: Json) -> Json:
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if not isinstance(value, str) or value.lower() not in words:
        raise ValueError
    return words[value.lower()]


def _data(kind: type) -> Callable[[Json], Json]:
    def read(value: Json) -> Json:
        found = loads(value) if isinstance(value, str) else value
        if not isinstance(found, kind):
            raise ValueError
        return found

    return read


def _list(value: Json) -> Json:
    if isinstance(value, str) and not value.lstrip().startswith("["):
        return [part.strip() for part in value.split(",")] if value.strip() else []
    return _data(list)(value)


def _quantity(parse: Callable[[str], float | None]) -> Callable[[Json], Json]:
    def read(value: Json) -> Json:
        if isinstance(value, bool):
            raise ValueError
        if isinstance(value, (int, float)):
            return value
        found = parse(value) if isinstance(value, str) else None
        if found is None:
            raise ValueError
        return found

    return read


_READERS: dict[str, Callable[[Json], Json]] = {
    "string": _string,
    "int": _int,
    "number": _number,
    "bool": _bool,
    "duration": _quantity(parse_duration),
    "size": _quantity(parse_size),
    "money": _quantity(parse_money),
    "percent": _quantity(parse_percent),
    "list": _list,
    "map": _data(dict),
    "any": _any,
}


def numbers_of(params: Sequence[Param]) -> frozenset[str]:
    """The names of the parameters that always have a number."""
    given = (param for param in params if param.required or param.default is not None)
    return frozenset(param.name for param in given if param.type in ("int", "number"))


def takes(kind: str) -> str:
    """What a value of that type looks like, in words."""
    return _WORDS.get(kind, _WORDS["any"])


_WORDS = {
    "string": "text",
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "duration": "a duration such as 90s or 10m",
    "size": "a size such as 50MB",
    "money": "an amount such as $2",
    "percent": "a percentage such as 25%",
    "list": "a list (a,b,c or JSON)",
    "map": "a JSON object",
    "any": "any value",
}
