"""JSON Schema (draft 2020-12 as far as it describes data, 7 and 6): whether a schema is sound, and data checked by it.

A keyword that would be ignored could let wrong data through: one that is not known here is a fault of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from planrunner.capabilities.contract import Failure
from planrunner.jsontext import shown

Json = Any

DEEPEST = 200
"""References and parts inside each other; a schema that refers to itself without end stops here."""


def faults(schema: Json, data: Json) -> list[str]:
    """Where the data does not fit, as ``/path: what is wrong``; empty when it fits."""
    return list(_Check(schema).look(schema, data, "", 0))


class _Check:
    __slots__ = ("root",)

    def __init__(self, root: Json) -> None:
        self.root = root

    def look(self, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
        if depth > DEEPEST:
            yield f"{at or '/'}: the schema goes deeper than {DEEPEST} levels"
            return
        if schema is True or schema == {}:
            return
        if schema is False:
            yield f"{at or '/'}: nothing is allowed here"
            return
        if not isinstance(schema, dict):
            yield f"{at or '/'}: the schema is {_kind(schema)}, not a mapping"
            return
        for keyword, wanted in schema.items():
            if keyword in _SILENT:
                continue
            simple, inner = _SIMPLE.get(keyword), _INNER.get(keyword)
            if simple is not None:
                if problem := simple(wanted, data):
                    yield f"{at or '/'}: {problem}"
            elif inner is not None:
                yield from inner(self, schema, data, at, depth + 1)
            else:
                yield f"{at or '/'}: the keyword `{keyword}` of the schema is not known"

    def fits(self, schema: Json, data: Json, depth: int) -> bool:
        return next(self.look(schema, data, "", depth), None) is None


def target(root: Json, reference: Json) -> Json:
    """The part of the schema that a reference inside the same file names; None where it does not exist."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    part = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, dict) and name in part:
            part = part[name]
        elif isinstance(part, list) and name.isdigit() and int(name) < len(part):
            part = part[int(name)]
        else:
            return None
    return part


def _kind(value: Json) -> str:
    for kind, fits in TYPES.items():
        if fits(value):
            return kind
    return type(value).__name__


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


TYPES: dict[str, Callable[[Json], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and not math.isinf(value) and value == int(value),
    "number": _is_number,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _type(wanted: Json, data: Json) -> str:
    names = wanted if isinstance(wanted, list) else [wanted]
    if any(name in TYPES and TYPES[name](data) for name in names):
        return ""
    return f"expected {' or '.join(map(str, names))}, found {_kind(data)}"


def _same(one: Json, other: Json) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    return bool(one == other)


def _enum(wanted: Json, data: Json) -> str:
    if isinstance(wanted, list) and any(_same(data, choice) for choice in wanted):
        return ""
    return f"{_short(data)} is not one of {_short(wanted)}"


def _short(value: Json) -> str:
    return shown(value)


def _multiple(wanted: Json, data: Json) -> str:
    if not _is_number(data) or not _is_number(wanted) or not wanted:
        return ""
    parts = data / wanted
    return "" if abs(parts - round(parts)) < 1e-9 else f"{data} is not a multiple of {wanted}"


def _pattern(wanted: Json, data: Json) -> str:
    if not isinstance(data, str):
        return ""
    try:
        return "" if re.search(wanted, data) else f"{_short(data)} does not match `{wanted}`"
    except re.error as error:
        return f"the pattern `{wanted}` of the schema cannot be read: {error}"


def _unique(wanted: Json, data: Json) -> str:
    if wanted is not True or not isinstance(data, list):
        return ""
    twice = any(_same(one, other) for at, one in enumerate(data) for other in data[:at])
    return "items occur twice" if twice else ""


def _required(wanted: Json, data: Json) -> str:
    missing = [name for name in wanted if name not in data] if isinstance(data, dict) else []
    return f"{', '.join(f'`{name}`' for name in missing)} missing" if missing else ""


def _dependent(wanted: Json, data: Json) -> str:
    if not isinstance(data, dict):
        return ""
    missing = [name for key, names in wanted.items() if key in data for name in names if name not in data]
    return f"{', '.join(f'`{name}`' for name in missing)} missing" if missing else ""


def _bound(measure: Callable[[Json], Any], fits: Callable[[Any, Any], bool], words: str) -> Callable[[Json, Json], str]:
    def check(wanted: Json, data: Json) -> str:
        measured = measure(data)
        return "" if measured is None or fits(measured, wanted) else f"{words.format(measured)} {wanted}"

    return check


def _number_of(value: Json) -> Json:
    return value if _is_number(value) else None


def _length(kind: type) -> Callable[[Json], Any]:
    def measure(value: Json) -> Json:
        return len(value) if isinstance(value, kind) else None  # type: ignore[arg-type]

    return measure


_SIMPLE: dict[str, Callable[[Json, Json], str]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda wanted, data: "" if _same(wanted, data) else f"{_short(data)} is not {_short(wanted)}",
    "multipleOf": _multiple,
    "maximum": _bound(_number_of, lambda found, wanted: found <= wanted, "{} is more than"),
    "exclusiveMaximum": _bound(_number_of, lambda found, wanted: found < wanted, "{} is not less than"),
    "minimum": _bound(_number_of, lambda found, wanted: found >= wanted, "{} is less than"),
    "exclusiveMinimum": _bound(_number_of, lambda found, wanted: found > wanted, "{} is not more than"),
    "maxLength": _bound(_length(str), lambda found, wanted: found <= wanted, "{} characters are more than"),
    "minLength": _bound(_length(str), lambda found, wanted: found >= wanted, "{} characters are less than"),
    "maxItems": _bound(_length(list), lambda found, wanted: found <= wanted, "{} items are more than"),
    "minItems": _bound(_length(list), lambda found, wanted: found >= wanted, "{} items are less than"),
    "maxProperties": _bound(_length(dict), lambda found, wanted: found <= wanted, "{} entries are more than"),
    "minProperties": _bound(_length(dict), lambda found, wanted: found >= wanted, "{} entries are less than"),
    "pattern": _pattern,
    "uniqueItems": _unique,
    "required": _required,
    "dependentRequired": _dependent,
}

_Inner = Callable[[_Check, Any, Json, str, int], Iterator[str]]


def _reference(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    part = target(check.root, schema["$ref"])
    if part is None:
        yield f"{at or '/'}: the schema refers to `{schema['$ref']}`, which it does not hold"
    else:
        yield from check.look(part, data, at, depth)


def _properties(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    """The three keywords about entries together, at whichever of them comes first."""
    if not isinstance(data, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    rest = schema.get("additionalProperties", True)
    for name, value in data.items():
        place = f"{at}/{name}"
        matching = [part for pattern, part in patterns.items() if re.search(pattern, name)]
        if name in named:
            yield from check.look(named[name], value, place, depth)
        for part in matching:
            yield from check.look(part, value, place, depth)
        if name not in named and not matching:
            if rest is False:
                yield f"{at or '/'}: `{name}` is not allowed"
            else:
                yield from check.look(rest, value, place, depth)


def _later_properties(*before: str) -> _Inner:
    def inner(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
        if not any(name in schema for name in before):
            yield from _properties(check, schema, data, at, depth)

    return inner


def _items(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    if not isinstance(data, list):
        return
    first, items = schema.get("prefixItems", []), schema.get("items", True)
    if isinstance(items, list):  # as older drafts write it
        first, items = items, schema.get("additionalItems", True)
    for number, value in enumerate(data):
        part = first[number] if number < len(first) else items
        yield from check.look(part, value, f"{at}/{number}", depth)


def _prefix(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    if "items" not in schema:
        yield from _items(check, schema, data, at, depth)


def _contains(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    if not isinstance(data, list):
        return
    count = sum(check.fits(schema["contains"], value, depth) for value in data)
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(data))
    if not least <= count <= most:
        yield f"{at or '/'}: {count} items fit `contains`, {least} to {most} may"


def _names(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    for name in data if isinstance(data, dict) else ():
        yield from check.look(schema["propertyNames"], name, f"{at}/{name}", depth)


def _dependent_schemas(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    for name, part in schema["dependentSchemas"].items() if isinstance(data, dict) else ():
        if name in data:
            yield from check.look(part, data, at, depth)


def _all(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    for part in schema["allOf"]:
        yield from check.look(part, data, at, depth)


def _any(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    if not any(check.fits(part, data, depth) for part in schema["anyOf"]):
        yield f"{at or '/'}: fits none of {len(schema['anyOf'])} alternatives"


def _one(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    count = sum(check.fits(part, data, depth) for part in schema["oneOf"])
    if count != 1:
        yield f"{at or '/'}: fits {count} of {len(schema['oneOf'])} alternatives, and has to fit one"


def _not(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    if check.fits(schema["not"], data, depth):
        yield f"{at or '/'}: fits what is excluded"


def _if(check: _Check, schema: Json, data: Json, at: str, depth: int) -> Iterator[str]:
    branch = "then" if check.fits(schema["if"], data, depth) else "else"
    if branch in schema:
        yield from check.look(schema[branch], data, at, depth)


_INNER: dict[str, _Inner] = {
    "$ref": _reference,
    "properties": _properties,
    "patternProperties": _later_properties("properties"),
    "additionalProperties": _later_properties("properties", "patternProperties"),
    "items": _items,
    "prefixItems": _prefix,
    "contains": _contains,
    "propertyNames": _names,
    "dependentSchemas": _dependent_schemas,
    "allOf": _all,
    "anyOf": _any,
    "oneOf": _one,
    "not": _not,
    "if": _if,
}

_SILENT = frozenset(
    {
        *("$schema", "$id", "$defs", "definitions", "$comment", "$anchor", "title", "description", "default"),
        *("examples", "deprecated", "readOnly", "writeOnly", "format", "then", "else", "minContains", "maxContains"),
        *("additionalItems", "contentEncoding", "contentMediaType"),
    }
)
"""Keywords that describe and check nothing by themselves; ``format`` is a hint, as the standard has it."""

KEYWORDS = frozenset({*_SIMPLE, *_INNER, *_SILENT})
"""All that a schema may say."""


_ONE = frozenset("additionalProperties additionalItems contains propertyNames not if then else".split())
_LISTS = frozenset(("prefixItems", "allOf", "anyOf", "oneOf"))
_MAPS = frozenset(("properties", "patternProperties", "dependentSchemas"))
_NUMBERS = frozenset("multipleOf maximum exclusiveMaximum minimum exclusiveMinimum".split())
_COUNTS = frozenset("maxLength minLength maxItems minItems maxProperties minProperties minContains maxContains".split())


def require_schema(schema: Json, name: str) -> None:
    """Raises Failure where the input of that name is not a schema that data can be checked by."""
    flaw = next(_flaws(schema, schema, "", set(), 0), "")
    if flaw:
        raise Failure(f"`{name}` is not a valid JSON Schema: {flaw}")


def _flaws(root: Json, schema: Json, at: str, seen: set[str], depth: int) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield f"{at or '/'}: a schema is a mapping, found {_excerpt(schema)}"
        return
    if depth > DEEPEST:
        yield f"{at or '/'}: it goes deeper than {DEEPEST} levels"
        return
    for keyword, wanted in schema.items():
        if flaw := _flaw(str(keyword), wanted):
            yield f"{at}/{keyword}: {flaw}"
            continue
        for place, part in _parts(keyword, wanted):
            yield from _flaws(root, part, f"{at}/{place}", seen, depth + 1)
        if keyword == "$ref" and wanted not in seen:
            seen.add(wanted)
            if (referred := target(root, wanted)) is None:
                yield f"{at}/$ref: it refers to `{wanted}`, which it does not hold"
            else:
                yield from _flaws(root, referred, wanted.lstrip("#"), seen, depth + 1)


def _parts(keyword: str, wanted: Json) -> Iterator[tuple[str, Json]]:
    """The schemas inside, with where they stand."""
    if keyword in _ONE or (keyword == "items" and not isinstance(wanted, list)):
        yield keyword, wanted
    elif keyword in _LISTS or keyword == "items":
        yield from ((f"{keyword}/{number}", part) for number, part in enumerate(wanted))
    elif keyword in _MAPS:
        yield from ((f"{keyword}/{name}", part) for name, part in wanted.items())


def _flaw(keyword: str, wanted: Json) -> str:
    """What is wrong with the value of a keyword, schemas inside of it left out."""
    if keyword not in KEYWORDS:
        return "the keyword is not known"
    if keyword == "type":
        return _of_types(wanted)
    if keyword == "pattern":
        return _of_pattern(wanted)
    if keyword == "$ref":
        return "" if isinstance(wanted, str) else f"expected text, found {_excerpt(wanted)}"
    expected = _expected(keyword, wanted)
    if expected:
        return f"expected {expected}, found {_excerpt(wanted)}"
    return next(filter(None, map(_of_pattern, wanted)), "") if keyword == "patternProperties" else ""


def _expected(keyword: str, wanted: Json) -> str:
    """What the keyword takes, where its value is something else."""
    number = isinstance(wanted, (int, float)) and not isinstance(wanted, bool)
    if keyword in _NUMBERS:
        fits = number and wanted == wanted and (keyword != "multipleOf" or wanted > 0)
        return "" if fits else "a number" + " above 0" * (keyword == "multipleOf")
    if keyword in _COUNTS:
        return "" if number and 0 <= wanted < math.inf and wanted == int(wanted) else "a whole number from 0 on"
    if keyword in _LISTS or keyword == "enum":
        return "" if isinstance(wanted, list) else "a list"
    if keyword == "required":
        return "" if _is_names(wanted) else "a list of names"
    if keyword == "dependentRequired":
        fits = isinstance(wanted, dict) and all(map(_is_names, wanted.values()))
        return "" if fits else "a mapping of lists of names"
    if keyword == "uniqueItems":
        return "" if isinstance(wanted, bool) else "true or false"
    return "a mapping" if keyword in _MAPS and not isinstance(wanted, dict) else ""


def _of_types(wanted: Json) -> str:
    given = wanted if isinstance(wanted, list) else [wanted]
    strange = [name for name in given if not isinstance(name, str) or name not in TYPES]
    if not strange and given:
        return ""
    return f"{_excerpt(strange[0] if strange else wanted)} is not a type, expected {', '.join(TYPES)}"


def _of_pattern(wanted: Json) -> str:
    try:
        re.compile(str(wanted) if isinstance(wanted, str) else "(")
    except (re.error, OverflowError, RecursionError) as error:
        return f"{_excerpt(wanted)} is not a pattern: {error if isinstance(wanted, str) else 'it is not text'}"
    return ""


def _is_names(wanted: Json) -> bool:
    return isinstance(wanted, list) and all(isinstance(name, str) for name in wanted)


def _excerpt(value: Json) -> str:
    text = f"`{value}`" if isinstance(value, str) else shown(value)
    return text if len(text) <= 80 else text[:79] + "…"
