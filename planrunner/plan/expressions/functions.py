"""The fixed functions of the expression language: pure, total on the kinds they name, bounded in their results."""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from planrunner.lean import sha256
from planrunner.plan.expressions.arithmetic import compute
from planrunner.plan.expressions.quantities import Quantity, parse_duration, parse_size
from planrunner.plan.expressions.values import (
    LONGEST_LIST,
    NAMES,
    EvaluationError,
    MissingName,
    before,
    bounded_list,
    bounded_number,
    bounded_text,
    json_of,
    kind,
    plain,
    same,
    text_of,
    weigh,
)
from planrunner.record import NamedTuple

Json = Any

LISTS = ("list",)
TEXT = ("string",)
SIZED = ("string", "list", "map")
NUMERIC = ("number", "time", "size", "money", "percent")


class Function(NamedTuple):
    """``least`` and ``most`` arguments (``most`` None: any number); ``takes`` are the kinds of the first argument and
    ``gives`` the kind of the result, both for the linter (empty: any)."""

    call: Callable[..., Json]
    least: int
    most: int | None
    takes: tuple[str, ...] = ()
    gives: str = "any"


def length(value: Json) -> int:
    return len(_of(value, "len", "string", "list", "map"))


def smallest(*values: Json) -> Json:
    return _extreme("min", values, before)


def largest(*values: Json) -> Json:
    return _extreme("max", values, lambda value, best: before(best, value))


def total(values: Json) -> Json:
    items = _of(values, "sum", "list")
    result: Json = 0
    for position, item in enumerate(items):
        result = compute("+", result, item) if position else _of(item, "sum", *NUMERIC)
    return result


def absolute(value: Json) -> Json:
    if isinstance(value, Quantity):
        return Quantity(abs(value.amount), value.dimension)
    return bounded_number(abs(_of(value, "abs", "number")))


def rounded(value: Json, digits: Json = 0) -> Json:
    places = max(-20, min(20, whole(_of(digits, "round", "number"))))
    amount = value.amount if isinstance(value, Quantity) else _of(value, "round", "number")
    result = bounded_number(round(bounded_number(amount), places))
    if isinstance(value, Quantity):
        return Quantity(result, value.dimension)
    return int(result) if places <= 0 else result


def lower(text: Json) -> str:
    return bounded_text(_text(text, "lower").lower())


def upper(text: Json) -> str:
    return bounded_text(_text(text, "upper").upper())


def trim(text: Json) -> str:
    return _text(text, "trim").strip()


def split(text: Json, separator: Json = None) -> list[Json]:
    """Parts between separators; without one, words between white space."""
    source = _text(text, "split")
    if separator is None:
        return bounded_list(list(source.split(None, LONGEST_LIST)))
    if not _text(separator, "split"):
        raise EvaluationError("`split` needs a separator that is not empty")
    return bounded_list(list(source.split(separator, LONGEST_LIST)))


def join(items: Json, separator: Json = "") -> str:
    weigh(_of(items, "join", "list"))
    parts = [text_of(item) for item in items]
    glue = _text(separator, "join")
    if sum(map(len, parts)) + len(glue) * len(parts) > 1 << 24:
        return bounded_text(" " * (1 << 24))
    return bounded_text(glue.join(parts))


def starts_with(text: Json, start: Json) -> bool:
    return _text(text, "starts_with").startswith(_text(start, "starts_with"))


def ends_with(text: Json, end: Json) -> bool:
    return _text(text, "ends_with").endswith(_text(end, "ends_with"))


def contains(whole_value: Json, part: Json) -> bool:
    """A text in a text, an item in a list, a key in a map."""
    holder = kind(whole_value)
    if holder == "string":
        return _text(part, "contains") in whole_value
    if holder == "map":
        return part in whole_value if isinstance(part, str) else False
    return any(same(item, part) for item in _of(whole_value, "contains", "list"))


def matches(text: Json, pattern: Json) -> bool:
    from planrunner.plan.expressions.patterns import search  # late: only plans with patterns pay for it

    return search(_text(pattern, "matches"), _text(text, "matches"))


def replace(text: Json, old: Json, new: Json) -> str:
    source, part, other = _text(text, "replace"), _text(old, "replace"), _text(new, "replace")
    if not part:
        raise EvaluationError("`replace` needs a part that is not empty")
    if len(source) + source.count(part) * (len(other) - len(part)) > 1 << 24:
        return bounded_text(" " * (1 << 24))
    return bounded_text(source.replace(part, other))


def keys(value: Json) -> list[Json]:
    return bounded_list(list(_of(value, "keys", "map")))


def values(value: Json) -> list[Json]:
    return bounded_list(list(_of(value, "values", "map").values()))


def merged(*maps: Json) -> dict[str, Json]:
    """One map of several; of a key that more of them have, the last one counts."""
    found: dict[str, Json] = {}
    for one in maps:
        found |= _of(one, "merge", "map")
    bounded_list(list(found))
    return found


def counted(start: Json, end: Json = None) -> list[Json]:
    """The whole numbers from ``start`` to before ``end``; of one argument those from 0 to before it."""
    least, most = (0, start) if end is None else (start, end)
    first_one, bound = _whole(least, "range"), _whole(most, "range")
    if bound - first_one > LONGEST_LIST:
        raise EvaluationError(f"the list would have more than {LONGEST_LIST:,} items")
    return list(range(first_one, bound))


def batched(items: Json, size: Json) -> list[Json]:
    """Lists of ``size`` items each, the last of what is left."""
    source, step = list(_of(items, "batch", "list")), _whole(size, "batch")
    if step < 1:
        raise EvaluationError(f"`batch` takes a size of at least 1, not {step}")
    return bounded_list([source[at : at + step] for at in range(0, len(source), step)])


def paired(one: Json, other: Json) -> list[Json]:
    """The first items of two lists together, the second ones, and so on; the lists are of one length."""
    left, right = _of(one, "zip", "list"), _of(other, "zip", "list")
    if len(left) != len(right):
        raise EvaluationError(f"`zip` takes lists of the same length, not of {len(left):,} and {len(right):,} items")
    return bounded_list([[here, there] for here, there in zip(left, right, strict=True)])


def unique(items: Json) -> list[Json]:
    """Each item once, in the order of its first appearance."""
    seen: set[object] = set()
    kept: list[Json] = []
    for item in _of(items, "unique", "list"):
        key = _identity(item)
        if key not in seen:
            seen.add(key)
            kept.append(item)
    return kept


def ordered(items: Json) -> list[Json]:
    result = list(_of(items, "sort", "list"))
    return sorted(bounded_list(result), key=cmp_to_key(_order))


def _order(one: Json, other: Json) -> int:
    return -1 if before(one, other) else int(before(other, one))


def first(items: Json) -> Json:
    return _item(items, "first", 0)


def last(items: Json) -> Json:
    return _item(items, "last", -1)


def any_of(items: Json) -> bool:
    return any(_flag(item, "any") for item in _of(items, "any", "list"))


def all_of(items: Json) -> bool:
    return all(_flag(item, "all") for item in _of(items, "all", "list"))


def whole(value: Json) -> int:
    """A whole number: fractions are cut off, text is read, a quantity gives its seconds, bytes or dollars."""
    result = decimal(value, "int")
    return int(bounded_number(int(result)))


def decimal(value: Json, function: str = "float") -> float:
    """A number: text is read, a quantity gives its seconds, bytes or dollars, a percentage its fraction."""
    if isinstance(value, Quantity):
        return value.amount
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return bounded_number(_read_number(value, function))
    return bounded_number(_of(value, function, "number"))


def as_text(value: Json) -> str:
    return text_of(value)


def as_json(value: Json) -> str:
    return json_of(value)


def parsed(text: Json) -> Json:
    """The data that a JSON text holds."""
    source = bounded_text(_text(text, "parse_json"))
    try:
        found = json.loads(source, parse_int=_json_number, parse_float=_json_number, parse_constant=_no_json)
        return plain(found)
    except (ValueError, RecursionError) as error:
        reason = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        raise EvaluationError(f"`parse_json` cannot read {json.dumps(source[:40])} as JSON{reason}") from None


def encoded(text: Json) -> str:
    """A text as base64 of its UTF-8 bytes."""
    return bounded_text(b2a_base64(_bytes(text, "base64"), newline=False).decode("ascii"))


def hashed(text: Json) -> str:
    """The SHA-256 of the UTF-8 bytes of a text, as 64 hexadecimal digits."""
    return sha256(_bytes(text, "sha256")).hexdigest()


def as_duration(value: Json) -> Quantity:
    """A duration from text such as ``10m`` or a number of seconds."""
    if isinstance(value, Quantity) and value.dimension == "time":
        return value
    if isinstance(value, str):
        seconds = parse_duration(value)
        if seconds is None:
            raise EvaluationError(f"`duration` cannot read {json.dumps(value[:40])}: write `10m` or `1h30m`")
        return Quantity(seconds, "time")
    return Quantity(bounded_number(_of(value, "duration", "number")), "time")


def as_size(value: Json) -> Quantity:
    """A size from text such as ``50MB`` or a number of bytes."""
    if isinstance(value, Quantity) and value.dimension == "size":
        return value
    if isinstance(value, str):
        size = parse_size(value)
        if size is None:
            raise EvaluationError(f"`size` cannot read {json.dumps(value[:40])}: write `50MB` or `2GiB`")
        return Quantity(size, "size")
    return Quantity(bounded_number(_of(value, "size", "number")), "size")


def _of(value: Json, function: str, *kinds: str) -> Json:
    if kind(value) not in kinds:
        expected = " or ".join(NAMES[item] for item in kinds[:3])
        raise EvaluationError(f"`{function}` takes {expected}, not {NAMES[kind(value)]}")
    return value


def _text(value: Json, function: str) -> str:
    return str(_of(value, function, "string"))


def _bytes(value: Json, function: str) -> bytes:
    try:
        return bounded_text(_text(value, function)).encode()
    except UnicodeEncodeError:
        raise EvaluationError(f"`{function}` takes text that UTF-8 can hold") from None


def _whole(value: Json, function: str) -> int:
    number = _of(value, function, "number")
    if number != int(bounded_number(number)):
        raise EvaluationError(f"`{function}` takes whole numbers, not {number}")
    return int(number)


def _no_json(word: str) -> Json:
    raise ValueError(word)


def _json_number(text: str) -> float:
    if len(text) > 400:
        raise EvaluationError("the number is too large")
    return bounded_number(int(text) if text.lstrip("-").isdigit() else float(text))


def _flag(value: Json, function: str) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(f"`{function}` takes a list of true and false, it holds {NAMES[kind(value)]}")
    return value


def _item(items: Json, function: str, index: int) -> Json:
    found = _of(items, function, "list", "string")
    if not found:
        raise MissingName(f"`{function}` of an empty {'text' if isinstance(found, str) else 'list'}")
    return found[index]


def _extreme(name: str, arguments: tuple[Json, ...], better: Callable[[Json, Json], bool]) -> Json:
    items = _of(arguments[0], name, "list") if len(arguments) == 1 else arguments
    if not items:
        raise MissingName(f"`{name}` of an empty list")
    best = items[0]
    before(best, best)
    for item in items[1:]:
        if better(item, best):
            best = item
    return best


def _identity(value: Json) -> object:
    """A hashable stand-in that is equal for equal values."""
    what = kind(value)
    if what in ("list", "map"):
        return (what, json.dumps(json.loads(json_of(value)), sort_keys=True))
    return (what, value)


def _read_number(text: str, function: str) -> float:
    stripped = text.strip()
    if len(stripped) > 30 or "_" in stripped:
        raise EvaluationError(f"`{function}` cannot read {json.dumps(text[:40])} as a number")
    try:
        return int(stripped) if stripped.lstrip("+-").isdigit() else float(stripped)
    except ValueError:
        raise EvaluationError(f"`{function}` cannot read {json.dumps(text[:40])} as a number") from None


FUNCTIONS: dict[str, Function] = {
    "len": Function(length, 1, 1, SIZED, "number"),
    "min": Function(smallest, 1, None),
    "max": Function(largest, 1, None),
    "sum": Function(total, 1, 1, LISTS),
    "abs": Function(absolute, 1, 1, NUMERIC, "first"),
    "round": Function(rounded, 1, 2, NUMERIC, "first"),
    "lower": Function(lower, 1, 1, TEXT, "string"),
    "upper": Function(upper, 1, 1, TEXT, "string"),
    "trim": Function(trim, 1, 1, TEXT, "string"),
    "split": Function(split, 1, 2, TEXT, "list"),
    "join": Function(join, 1, 2, LISTS, "string"),
    "starts_with": Function(starts_with, 2, 2, TEXT, "bool"),
    "ends_with": Function(ends_with, 2, 2, TEXT, "bool"),
    "contains": Function(contains, 2, 2, SIZED, "bool"),
    "matches": Function(matches, 2, 2, TEXT, "bool"),
    "replace": Function(replace, 3, 3, TEXT, "string"),
    "keys": Function(keys, 1, 1, ("map",), "list"),
    "values": Function(values, 1, 1, ("map",), "list"),
    "merge": Function(merged, 2, None, ("map",), "map"),
    "range": Function(counted, 1, 2, ("number",), "list"),
    "batch": Function(batched, 2, 2, LISTS, "list"),
    "zip": Function(paired, 2, 2, LISTS, "list"),
    "unique": Function(unique, 1, 1, LISTS, "list"),
    "sort": Function(ordered, 1, 1, LISTS, "list"),
    "first": Function(first, 1, 1, ("list", "string"), "item"),
    "last": Function(last, 1, 1, ("list", "string"), "item"),
    "any": Function(any_of, 1, 1, LISTS, "bool"),
    "all": Function(all_of, 1, 1, LISTS, "bool"),
    "int": Function(whole, 1, 1, ("string", "bool", *NUMERIC), "number"),
    "float": Function(decimal, 1, 1, ("string", "bool", *NUMERIC), "number"),
    "str": Function(as_text, 1, 1, (), "string"),
    "json": Function(as_json, 1, 1, (), "string"),
    "parse_json": Function(parsed, 1, 1, TEXT),
    "base64": Function(encoded, 1, 1, TEXT, "string"),
    "sha256": Function(hashed, 1, 1, TEXT, "string"),
    "duration": Function(as_duration, 1, 1, ("string", "number", "time"), "time"),
    "size": Function(as_size, 1, 1, ("string", "number", "size"), "size"),
}
"""Every function but ``default`` and ``exists``, which look at names before their values (``evaluate.py``)."""
