"""JSON Schema for what capabilities take and give: whether a schema is sound, and data checked by it.

The validator is ``jsonschema``, draft 2020-12 as far as it describes data, and ``items`` as older drafts write it. A
keyword that would be ignored could let wrong data through: one that ``DIALECT`` does not have is a fault. ``WORDINGS``
has the wording of every keyword. References lead inside the schema only, so nothing is fetched.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from planrunner.capabilities.contract import Failure
from planrunner.jsontext import shown

Json = Any

TYPES: dict[str, Callable[[Json], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and not math.isinf(value) and value == int(value),
    "number": lambda value: _is_number(value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

_SCHEMA = {"$ref": "#"}
_SCHEMAS = {"type": "array", "items": _SCHEMA}
_NAMED_SCHEMAS = {"type": "object", "additionalProperties": _SCHEMA}
_NAMES = {"type": "array", "items": {"type": "string"}}
_TYPE = {"enum": list(TYPES)}


def _each(names: str, schema: Json) -> dict[str, Json]:
    return dict.fromkeys(names.split(), schema)


DIALECT: Json = {
    "type": ["object", "boolean"],
    "properties": {
        **_each("$schema $id $comment $anchor title description default examples deprecated readOnly writeOnly", True),
        **_each("format contentEncoding contentMediaType const", True),
        **_each("additionalProperties additionalItems contains propertyNames not if then else", _SCHEMA),
        **_each("prefixItems allOf anyOf oneOf", _SCHEMAS),
        **_each("$defs definitions properties patternProperties dependentSchemas", _NAMED_SCHEMAS),
        **_each("maximum exclusiveMaximum minimum exclusiveMinimum", {"type": "number"}),
        **_each("maxLength minLength maxItems minItems maxProperties", {"type": "integer", "minimum": 0}),
        **_each("minProperties minContains maxContains", {"type": "integer", "minimum": 0}),
        "multipleOf": {"type": "number", "exclusiveMinimum": 0},
        "type": {"if": {"type": "array"}, "then": {"items": _TYPE, "minItems": 1}, "else": _TYPE},
        "items": {"if": {"type": "array"}, "then": _SCHEMAS, "else": _SCHEMA},
        "enum": {"type": "array"},
        "required": _NAMES,
        "dependentRequired": {"type": "object", "additionalProperties": _NAMES},
        "uniqueItems": {"type": "boolean"},
        "pattern": {"type": "string", "format": "regex"},
        "patternProperties": {**_NAMED_SCHEMAS, "propertyNames": {"format": "regex"}},
        "$ref": {"type": "string", "format": "reference"},
    },
    "additionalProperties": {"format": "keyword"},
}
"""The schema of schemas. In them ``format`` is a hint, as the standard has it; here ``_flaws`` checks by it."""


def faults(schema: Json, data: Json) -> list[str]:
    """Where the data does not fit, as ``/path: what is wrong``; empty when it fits. An invalid schema fits nothing."""
    known = _known(schema)
    return [f"/: the schema is not valid: {known.flaw}"] if known.flaw else _misfits(known.validator, data)


def require_schema(schema: Json, name: str) -> None:
    """Raises Failure where the input of that name is not a schema that data can be checked by."""
    if flaw := _known(schema).flaw:
        raise Failure(f"`{name}` is not a valid JSON Schema: {flaw}")


class _Known(NamedTuple):
    """A schema with the first thing that is wrong with it."""

    validator: Any
    flaw: str = ""


def _known(schema: Json) -> _Known:
    try:
        return _read(json.dumps(schema, allow_nan=False))
    except (RecursionError, TypeError, ValueError) as error:
        return _Known(None, f"/: {_TOO_DEEP if isinstance(error, RecursionError) else error}")


@lru_cache(maxsize=64)
def _read(text: str) -> _Known:
    schema = json.loads(text)
    flaws = _flaws(schema)
    return _Known(None, flaws[0]) if flaws else _Known(_validator(schema))


def _validator(schema: Json, **keywords: Any) -> Any:
    """The validator of a schema; ``keywords`` replace those of the library."""

    def refer(validator: Any, pointer: str, data: Json, _: Json) -> Iterator[ValidationError]:
        return validator.descend(data, target(schema, pointer))  # type: ignore[no-any-return]

    return extend(Draft202012Validator, {"$ref": refer, **_OWN, **keywords})(schema)


def _flaws(schema: Json) -> list[str]:
    """What is wrong with a schema; what a reference leads to counts once."""
    seen: set[Json] = set()

    def form(validator: Any, name: str, data: Json, _: Json) -> Iterator[ValidationError]:
        if name == "keyword":
            yield ValidationError("the keyword is not known")
        elif isinstance(data, str) and name == "regex":
            try:
                re.compile(data)
            except (re.error, OverflowError, RecursionError) as error:
                yield ValidationError(f"{shown(data)} is not a pattern: {error}")
        elif isinstance(data, str) and data not in seen:
            seen.add(data)
            part = target(schema, data)
            if part is None:
                yield ValidationError(f"it refers to `{data}`, which the schema does not have")
            else:
                yield from validator.descend(part, DIALECT)

    return _misfits(_validator(DIALECT, format=form), schema)


def target(root: Json, reference: str) -> Json:
    """The part of the schema that a reference inside the same file names; None where it does not exist."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
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


def _misfits(validator: Any, data: Json) -> list[str]:
    texts: dict[str, None] = {}
    try:
        for error in validator.iter_errors(data):
            at = "".join(f"/{step}" for step in error.absolute_path)
            for text in _worded(error):
                texts[f"{at or '/'}: {text}"] = None
    except RecursionError:
        texts[f"/: {_TOO_DEEP}"] = None
    return list(texts)


_TOO_DEEP = "the schema, or the data that it describes, is nested too deep"


def _worded(error: ValidationError) -> list[str]:
    if error.validator is None:
        return ["nothing is allowed here"]
    wording = WORDINGS.get(error.validator)
    text = wording(error.validator_value, error.instance, error) if wording else error.message
    return [text] if isinstance(text, str) else text


def _inside(validator: Any, data: Json, part: Json, step: str | int) -> Iterator[ValidationError]:
    """What is wrong with an item or a value; the library leaves the step out where nothing is allowed."""
    if part is False:
        yield ValidationError("nothing is allowed here", path=(step,))
    else:
        yield from validator.descend(data, part, path=step)


def _properties(validator: Any, parts: Json, data: Json, _: Json) -> Iterator[ValidationError]:
    for name, part in parts.items() if isinstance(data, dict) else ():
        if name in data:
            yield from _inside(validator, data[name], part, name)


def _additional(validator: Any, part: Json, data: Json, schema: Json) -> Iterator[ValidationError]:
    known, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
    for name, value in data.items() if isinstance(data, dict) else ():
        if name in known or any(re.search(pattern, name) for pattern in patterns):
            continue
        if part is False:
            yield ValidationError(f"`{name}` is not allowed")
        else:
            yield from validator.descend(value, part, path=name)


def _names(validator: Any, part: Json, data: Json, _: Json) -> Iterator[ValidationError]:
    for name in data if isinstance(data, dict) else ():
        yield from _inside(validator, name, part, name)


def _items(validator: Any, items: Json, data: Json, schema: Json) -> Iterator[ValidationError]:
    """``items`` as it is written since 2020, or a list with ``additionalItems`` as before."""
    first, rest = (items, schema.get("additionalItems", True)) if isinstance(items, list) else ([], items)
    for number, item in enumerate(data if isinstance(data, list) else ()):
        if number < len(first):
            yield from _inside(validator, item, first[number], number)
        elif number >= len(schema.get("prefixItems", ())):
            yield from _inside(validator, item, rest, number)


def _multiple(_: Any, unit: float, data: Json, __: Json) -> Iterator[ValidationError]:
    """With the rounding of binary fractions: 0.3 is a multiple of 0.1."""
    if _is_number(data) and not (math.isfinite(data) and abs(data / unit - round(data / unit)) < 1e-9):
        yield ValidationError(f"{data} is not a multiple of {unit}")


_OWN = {
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "items": _items,
    "multipleOf": _multiple,
}
"""Keywords that the library takes otherwise; their errors have their wording."""


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _type(wanted: Json, data: Json, _: Any) -> str:
    kind = next((kind for kind, fits in TYPES.items() if fits(data)), type(data).__name__)
    return f"expected {' or '.join([wanted] if isinstance(wanted, str) else wanted)}, found {kind}"


def _missing(names: list[str], data: Json, _: Any = None) -> str:
    return f"{', '.join(f'`{name}`' for name in names if name not in data)} missing"


WORDINGS: dict[str, Callable[[Json, Json, Any], str | list[str]]] = {
    "type": _type,
    "enum": lambda wanted, data, _: f"{shown(data)} is not one of {shown(wanted)}",
    "const": lambda wanted, data, _: f"{shown(data)} is not {shown(wanted)}",
    "maximum": lambda wanted, data, _: f"{data} is more than {wanted}",
    "exclusiveMaximum": lambda wanted, data, _: f"{data} is not less than {wanted}",
    "minimum": lambda wanted, data, _: f"{data} is less than {wanted}",
    "exclusiveMinimum": lambda wanted, data, _: f"{data} is not more than {wanted}",
    "maxLength": lambda wanted, data, _: f"{len(data)} characters are more than {wanted}",
    "minLength": lambda wanted, data, _: f"{len(data)} characters are less than {wanted}",
    "maxItems": lambda wanted, data, _: f"{len(data)} items are more than {wanted}",
    "minItems": lambda wanted, data, _: f"{len(data)} items are less than {wanted}",
    "maxProperties": lambda wanted, data, _: f"{len(data)} entries are more than {wanted}",
    "minProperties": lambda wanted, data, _: f"{len(data)} entries are less than {wanted}",
    "pattern": lambda wanted, data, _: f"{shown(data)} does not match `{wanted}`",
    "uniqueItems": lambda *_: "items occur twice",
    "required": _missing,
    "dependentRequired": lambda wanted, data, _: [
        _missing(names, data) for key, names in wanted.items() if key in data and not set(names) <= data.keys()
    ],
    "contains": lambda _, __, error: f"fewer than {error.schema.get('minContains', 1)} items fit `contains`",
    "minContains": lambda wanted, *_: f"fewer than {wanted} items fit `contains`",
    "maxContains": lambda wanted, *_: f"more than {wanted} items fit `contains`",
    "anyOf": lambda wanted, *_: f"fits none of {len(wanted)} alternatives",
    "oneOf": lambda wanted, _, error: (
        f"fits {'none' if error.context else 'more than one'} of {len(wanted)} alternatives, and has to fit one"
    ),
    "not": lambda *_: "fits what is excluded",
}
"""Each keyword that checks something, with what is wrong, from its value, the data and the error of the library."""
