"""Whether a JSON Schema is one itself, before data is held against it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.jsonschema import DEEPEST, KEYWORDS, TYPES, Json, target
from planrunner.jsontext import shown

_ONE = frozenset("additionalProperties additionalItems contains propertyNames not if then else".split())
_LISTS = frozenset(("prefixItems", "allOf", "anyOf", "oneOf"))
_MAPS = frozenset(("properties", "patternProperties", "dependentSchemas"))
_NUMBERS = frozenset("multipleOf maximum exclusiveMaximum minimum exclusiveMinimum".split())
_COUNTS = frozenset("maxLength minLength maxItems minItems maxProperties minProperties minContains maxContains".split())


def require_schema(schema: Json, name: str) -> None:
    """Raises Failure where the input of that name is no schema, or one that cannot be held against data."""
    flaw = next(_flaws(schema, schema, "", set(), 0), "")
    if flaw:
        raise Failure(f"`{name}` is no sound JSON Schema: {flaw}")


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
            if (found := target(root, wanted)) is None:
                yield f"{at}/$ref: it refers to `{wanted}`, which it does not hold"
            else:
                yield from _flaws(root, found, wanted.lstrip("#"), seen, depth + 1)


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
    return f"{_excerpt(strange[0] if strange else wanted)} is no type, expected {', '.join(TYPES)}"


def _of_pattern(wanted: Json) -> str:
    try:
        re.compile(str(wanted) if isinstance(wanted, str) else "(")
    except (re.error, OverflowError, RecursionError) as error:
        return f"{_excerpt(wanted)} is no pattern: {error if isinstance(wanted, str) else 'it is no text'}"
    return ""


def _is_names(wanted: Json) -> bool:
    return isinstance(wanted, list) and all(isinstance(name, str) for name in wanted)


def _excerpt(value: Json) -> str:
    text = f"`{value}`" if isinstance(value, str) else shown(value)
    return text if len(text) <= 80 else text[:79] + "…"
