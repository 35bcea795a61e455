"""The fixed functions of the expression language: pure, total on the kinds they name, bounded in their results."""

from __future__ import annotations

import json
from binascii import b2a_base64
from collections.abc import Callable
from functools import cmp_to_key
from hashlib import sha256
from typing import Any

from planrunner.plan.expressions import texts
from planrunner.plan.expressions.patterns import search, spans
from planrunner.plan.expressions.quantities import Quantity, parse_duration, parse_size
from planrunner.plan.expressions.texts import text
from planrunner.plan.expressions.values import (
    LONGEST_LIST,
    LONGEST_TEXT,
    NAMES,
    EvaluationError,
    MissingName,
    before,
    bounded_list,
    bounded_number,
    bounded_text,
    check_size,
    compute,
    joined,
    json_of,
    kind,
    plain,
    same,
    text_of,
)
from planrunner.records import Struct

Json = Any


LISTS = ("list",)
TEXT = ("string",)
SIZED = ("string", "list", "map")
NUMERIC = ("number", "time", "size", "money", "percent")


class Function(Struct):
    """``least`` and ``most`` arguments (``most`` None: any number); ``takes`` are the kinds of the first argument and
    ``gives`` the kind of the result, both for the linter (empty: any)."""

    call: Callable[..., Json]
    least: int
    most: int | None
    takes: tuple[str, ...] = ()
    gives: str = "any"

    @property
    def words(self) -> tuple[str, ...]:
        """The names of the arguments, for those that are given by name."""
        code = self.call.__code__
        return tuple(code.co_varnames[: code.co_argcount])


def length(value: Json) -> int:
    """Characters of a text, items of a list or a map."""
    return len(_of(value, "len", "string", "list", "map"))


def smallest(*values: Json) -> Json:
    """The least of several values, or of a list."""
    return _extreme("min", values, before)


def largest(*values: Json) -> Json:
    """The largest of several values, or of a list."""
    return _extreme("max", values, lambda value, best: before(best, value))


def total(items: Json) -> Json:
    """The sum of numbers or quantities, of those under ``attribute`` of each item where it is named."""
    items = _of(items, "sum", "list")
    result: Json = 0
    for position, item in enumerate(items):
        result = compute("+", result, item) if position else _of(item, "sum", *NUMERIC)
    return result


def absolute(value: Json) -> Json:
    """Without its sign."""
    if isinstance(value, Quantity):
        return Quantity(abs(value.amount), value.dimension)
    return bounded_number(abs(_of(value, "abs", "number")))


def rounded(value: Json, digits: Json = None, method: Json = None) -> Json:
    """Rounded to ``digits`` (0) behind the point; ``method`` "floor" or "ceil" rounds down or up."""
    places = 0 if digits is None else max(-20, min(20, whole(_of(digits, "round", "number"))))
    amount = bounded_number(value.amount if isinstance(value, Quantity) else _of(value, "round", "number"))
    if method in ("floor", "ceil"):
        sign, scale = (1 if method == "floor" else -1), 10**places
        result = bounded_number(sign * (sign * amount * scale // 1) / scale)
    elif method in (None, "common"):
        result = bounded_number(round(amount, places))
    else:
        raise EvaluationError('`round` takes the methods "common", "floor" and "ceil"')
    if isinstance(value, Quantity):
        return Quantity(result, value.dimension)
    return int(result) if places <= 0 else result


def split(value: Json, separator: Json = None) -> list[Json]:
    """Parts between separators; without one, words between white space."""
    source = text(value, "split")
    if separator is None:
        return bounded_list(list(source.split(None, LONGEST_LIST)))
    if not text(separator, "split"):
        raise EvaluationError("`split` needs a separator that is not empty")
    return bounded_list(list(source.split(separator, LONGEST_LIST)))


def join(items: Json, separator: Json = None) -> str:
    """The items as one text, ``separator`` between them; or of their ``attribute`` where one is named."""
    check_size(_of(items, "join", "list"))
    return joined([text_of(item) for item in items], "" if separator is None else text(separator, "join"))


def starts_with(value: Json, start: Json) -> bool:
    """Whether a text begins with another."""
    return text(value, "starts_with").startswith(text(start, "starts_with"))


def ends_with(value: Json, end: Json) -> bool:
    """Whether a text ends with another."""
    return text(value, "ends_with").endswith(text(end, "ends_with"))


def contains(value: Json, part: Json) -> bool:
    """A text in a text, an item in a list, a key in a map."""
    container = kind(value)
    if container == "string":
        return text(part, "contains") in value
    if container == "map":
        return part in value if isinstance(part, str) else False
    return any(same(item, part) for item in _of(value, "contains", "list"))


def matches(value: Json, pattern: Json) -> bool:
    """Whether a pattern occurs in a text."""
    return search(text(pattern, "matches"), text(value, "matches"))


def replace(value: Json, old: Json, new: Json) -> str:
    """A text with a part of it written otherwise wherever it occurs; any value as its text."""
    source, part, other = text_of(value), text(old, "replace"), text(new, "replace")
    if not part:
        raise EvaluationError("`replace` needs a part that is not empty")
    if len(source) + source.count(part) * (len(other) - len(part)) > LONGEST_TEXT:
        raise EvaluationError(f"the text would have more than {LONGEST_TEXT:,} characters")
    return source.replace(part, other)


def split_pattern(value: Json, pattern: Json) -> list[Json]:
    """The parts between the matches of a pattern, of which the leftmost and longest counts."""
    source, parts, at = text(value, "split_pattern"), [], 0
    for start, end in spans(text(pattern, "split_pattern"), source):
        parts.append(source[at:start])
        at = end
    return bounded_list([*parts, source[at:]])


def replace_pattern(value: Json, pattern: Json, new: Json) -> str:
    """A text with another one for each match of a pattern, of which the leftmost and longest counts."""
    source, other = text(value, "replace_pattern"), text(new, "replace_pattern")
    parts, at = [], 0
    for start, end in spans(text(pattern, "replace_pattern"), source):
        parts += [source[at:start], other]
        at = end
    return joined([*parts, source[at:]])


def keys(value: Json) -> list[Json]:
    """The keys of a map in their order."""
    return bounded_list(list(_of(value, "keys", "map")))


def values(value: Json) -> list[Json]:
    """The values of a map in their order."""
    return bounded_list(list(_of(value, "values", "map").values()))


def items(value: Json) -> list[Json]:
    """The pairs of a map, each a list of key and value."""
    return bounded_list([list(pair) for pair in _of(value, "items", "map").items()])


def sorted_items(value: Json) -> list[Json]:
    """The pairs of a map in the order of their keys."""
    return sorted(items(value), key=lambda pair: pair[0])


def listed(value: Json) -> list[Json]:
    """A list as it is, the keys of a map, the characters of a text."""
    return bounded_list(list(_of(value, "list", "list", "map", "string")))


def reversed_(value: Json) -> Json:
    """A list or a text from its end."""
    found: Json = _of(value, "reverse", "list", "string")
    return found[::-1]


def grouped(items: Json, attribute: Json) -> list[Json]:
    """Pairs of a value and the list of the items that have it under ``attribute``, in the order of their first
    appearance."""
    path = text(attribute, "groupby")
    groups: dict[object, Json] = {}
    for item in _of(items, "groupby", "list"):
        value = _at(item, path, "groupby")
        groups.setdefault(_identity(value), [value, []])[1].append(item)
    return list(groups.values())


def merged(*maps: Json) -> dict[str, Json]:
    """One map of several; of a key that more of them have, the last one counts."""
    whole: dict[str, Json] = {}
    for one in maps:
        whole |= _of(one, "merge", "map")
    bounded_list(list(whole))
    return whole


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


def unique(items: Json, attribute: Json = None) -> list[Json]:
    """Each item once, in the order of its first appearance; items with the same ``attribute`` count as one."""
    path = None if attribute is None else text(attribute, "unique")
    seen: set[object] = set()
    kept: list[Json] = []
    for item in _of(items, "unique", "list"):
        key = _identity(item if path is None else _at(item, path, "unique"))
        if key not in seen:
            seen.add(key)
            kept.append(item)
    return kept


def flattened(items: Json) -> list[Json]:
    """The items of the lists in a list, one after the other; null counts as an empty list."""
    whole: list[Json] = []
    for item in _of(items, "flatten", "list"):
        whole += [] if item is None else _of(item, "flatten", "list")
        bounded_list(whole)
    return whole


def ordered(items: Json, reverse: Json = None, attribute: Json = None) -> list[Json]:
    """The items in their order, or in that of their ``attribute``."""
    found = bounded_list(list(_of(items, "sort", "list")))
    path = None if attribute is None else text(attribute, "sort")
    keyed = [(item if path is None else _at(item, path, "sort"), item) for item in found]
    keyed.sort(key=cmp_to_key(_order), reverse=reverse is not None and _flag(reverse, "sort"))
    return [item for _, item in keyed]


def _order(one: tuple[Json, Json], other: tuple[Json, Json]) -> int:
    """Of two pairs, by their first members."""
    return -1 if before(one[0], other[0]) else int(before(other[0], one[0]))


def first(items: Json) -> Json:
    """The first item of a list or character of a text."""
    return _item(items, "first", 0)


def last(items: Json) -> Json:
    """The last item of a list or character of a text."""
    return _item(items, "last", -1)


def any_of(items: Json) -> bool:
    """Whether one of a list is true."""
    return any(_flag(item, "any") for item in _of(items, "any", "list"))


def all_of(items: Json) -> bool:
    """Whether all of a list are true."""
    return all(_flag(item, "all") for item in _of(items, "all", "list"))


def whole(value: Json) -> int:
    """A whole number: fractions are cut off, text is read, a quantity gives its seconds, bytes or dollars."""
    result = _decimal(value, "int")
    return int(bounded_number(int(result)))


def decimal(value: Json) -> float:
    """A number: text is read, a quantity gives its seconds, bytes or dollars, a percentage its fraction."""
    return _decimal(value, "float")


def _decimal(value: Json, function: str) -> float:
    if isinstance(value, Quantity):
        return value.amount
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return bounded_number(_read_number(value, function))
    return bounded_number(_of(value, function, "number"))


def as_text(value: Json) -> str:
    """A value as templates write it: text as it is, quantities with their unit, lists and maps as JSON."""
    return text_of(value)


def as_json(value: Json, indent: Json = None) -> str:
    """A value as JSON in one line, or in lines with this indentation."""
    if indent is None:
        return json_of(value)
    spaces = min(max(_whole(indent, "json"), 0), 8)
    return bounded_text(json.dumps(json.loads(json_of(value)), ensure_ascii=False, indent=spaces))


def parsed(value: Json) -> Json:
    """The data that a JSON text holds."""
    source = bounded_text(text(value, "parse_json"))
    try:
        found = json.loads(source, parse_int=_json_number, parse_float=_json_number, parse_constant=_no_json)
        return plain(found)
    except (ValueError, RecursionError) as error:
        reason = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        raise EvaluationError(f"`parse_json` cannot read {json.dumps(source[:40])} as JSON{reason}") from None


def encoded(value: Json) -> str:
    """A text as base64 of its UTF-8 bytes."""
    return bounded_text(b2a_base64(_bytes(value, "base64"), newline=False).decode("ascii"))


def hashed(value: Json) -> str:
    """The SHA-256 of the UTF-8 bytes of a text, as 64 hexadecimal digits."""
    return sha256(_bytes(value, "sha256")).hexdigest()


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


def _at(item: Json, path: str, function: str) -> Json:
    """The value under a path such as ``a.b`` of an item."""
    for name in path.split("."):
        if not isinstance(item, dict) or name not in item:
            raise MissingName(f"`{function}`: {NAMES[kind(item)]} has no `{name}`")
        item = item[name]
    return item


def _bytes(value: Json, function: str) -> bytes:
    try:
        return bounded_text(text(value, function)).encode()
    except UnicodeEncodeError:
        raise EvaluationError(f"`{function}` takes text that UTF-8 can encode") from None


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
    "round": Function(rounded, 1, 3, NUMERIC, "first"),
    "lower": Function(texts.lower, 1, 1, TEXT, "string"),
    "upper": Function(texts.upper, 1, 1, TEXT, "string"),
    "trim": Function(texts.trim, 1, 2, TEXT, "string"),
    "lstrip": Function(texts.trim_start, 1, 2, TEXT, "string"),
    "rstrip": Function(texts.trim_end, 1, 2, TEXT, "string"),
    "capitalize": Function(texts.capitalize, 1, 1, TEXT, "string"),
    "title": Function(texts.title, 1, 1, TEXT, "string"),
    "truncate": Function(texts.truncate, 1, 4, TEXT, "string"),
    "indent": Function(texts.indent, 1, 4, TEXT, "string"),
    "lines": Function(texts.lines, 1, 1, TEXT, "list"),
    "wordcount": Function(texts.words, 1, 1, TEXT, "number"),
    "urlencode": Function(texts.urlencode, 1, 1, ("string", "map"), "string"),
    "split": Function(split, 1, 2, TEXT, "list"),
    "join": Function(join, 1, 2, LISTS, "string"),
    "starts_with": Function(starts_with, 2, 2, TEXT, "bool"),
    "ends_with": Function(ends_with, 2, 2, TEXT, "bool"),
    "contains": Function(contains, 2, 2, SIZED, "bool"),
    "matches": Function(matches, 2, 2, TEXT, "bool"),
    "replace": Function(replace, 3, 3, (), "string"),
    "split_pattern": Function(split_pattern, 2, 2, TEXT, "list"),
    "replace_pattern": Function(replace_pattern, 3, 3, TEXT, "string"),
    "keys": Function(keys, 1, 1, ("map",), "list"),
    "values": Function(values, 1, 1, ("map",), "list"),
    "items": Function(items, 1, 1, ("map",), "list"),
    "dictsort": Function(sorted_items, 1, 1, ("map",), "list"),
    "list": Function(listed, 1, 1, SIZED, "list"),
    "reverse": Function(reversed_, 1, 1, ("list", "string"), "first"),
    "groupby": Function(grouped, 2, 2, LISTS, "list"),
    "merge": Function(merged, 2, None, ("map",), "map"),
    "range": Function(counted, 1, 2, ("number",), "list"),
    "batch": Function(batched, 2, 2, LISTS, "list"),
    "zip": Function(paired, 2, 2, LISTS, "list"),
    "unique": Function(unique, 1, 2, LISTS, "list"),
    "flatten": Function(flattened, 1, 1, LISTS, "list"),
    "sort": Function(ordered, 1, 3, LISTS, "list"),
    "first": Function(first, 1, 1, ("list", "string"), "item"),
    "last": Function(last, 1, 1, ("list", "string"), "item"),
    "any": Function(any_of, 1, 1, LISTS, "bool"),
    "all": Function(all_of, 1, 1, LISTS, "bool"),
    "int": Function(whole, 1, 1, ("string", "bool", *NUMERIC), "number"),
    "float": Function(decimal, 1, 1, ("string", "bool", *NUMERIC), "number"),
    "str": Function(as_text, 1, 1, (), "string"),
    "json": Function(as_json, 1, 2, (), "string"),
    "parse_json": Function(parsed, 1, 1, TEXT),
    "base64": Function(encoded, 1, 1, TEXT, "string"),
    "sha256": Function(hashed, 1, 1, TEXT, "string"),
    "duration": Function(as_duration, 1, 1, ("string", "number", "time"), "time"),
    "size": Function(as_size, 1, 1, ("string", "number", "size"), "size"),
}
"""Every function but ``default`` and ``exists``, which look at names before their values (``evaluate.py``). The first
line of the docstring of a function is in the reference."""

BUILT_IN = {"default": (2, 3), "exists": (1, 1)}
"""Functions that look at names before their values, with the least and the most arguments."""

DEFAULT_WORDS = ("value", "other", "boolean")
ALIASES = {
    "length": "len",
    "count": "len",
    "string": "str",
    "tojson": "json",
    "d": "default",
    "strip": "trim",
    "startswith": "starts_with",
    "endswith": "ends_with",
    "splitlines": "lines",
}
"""Other names of functions."""
METHODS = frozenset(
    "upper lower strip lstrip rstrip split splitlines startswith endswith title capitalize replace".split()
    + "items keys values get".split()
)
"""Functions that may be called as a member of their first argument: ``text.upper()`` is ``upper(text)``."""
OVER_LISTS = frozenset(["map", "select", "reject", "selectattr", "rejectattr"])
CALLED = (*FUNCTIONS, *BUILT_IN, *ALIASES, *sorted(OVER_LISTS), "get")
"""Every name that can be called."""
