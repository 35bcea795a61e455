"""What is written out for an input of a capability, held to the type and the JSON Schema that it publishes.

Templates stand for values of the run, so a text with one fits everything. A number or a bool fits where text is wanted:
it is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from planrunner.jsontext import as_text
from planrunner.plan.expressions.quantities import amount, parse_duration, parse_money, parse_size
from planrunner.plan.http_forms import is_address, is_condition, parse_status
from planrunner.plan.model import Field
from planrunner.plan.nearest import nearest
from planrunner.plan.rules.reading import is_template

Json = Any
Path = tuple[str | int, ...]
Quick = Callable[[Json], bool]

_QUANTITIES: dict[str, tuple[Callable[[str], float | None], str, str]] = {
    "duration": (parse_duration, "a duration such as `30s` or `5m`", "seconds"),
    "size": (parse_size, "a size such as `50MB`", "bytes"),
    "money": (parse_money, "an amount such as `$2` or `$0.50`", "dollars"),
}


def _is_amount(parse: Callable[[str], float | None], value: Json) -> bool:
    return amount(value, parse) is not None


_FORMS: dict[str, tuple[Quick, str]] = {
    **{f"plan-{name}": (partial(_is_amount, parse), words) for name, (parse, words, _) in _QUANTITIES.items()},
    "http-status": (lambda value: parse_status(value) is not None, "a status such as 200, `2xx` or `200-299`"),
    "http-address": (is_address, "an address that starts with `http://` or `https://`"),
    "http-condition": (
        is_condition,
        "a condition on `status`, `headers`, `json` and `body`, such as `json.state == 'done'`",
    ),
}
"""What else a schema may ask of a text or number, under `format`."""
_SCHEMAS = {
    "string": {"type": "string"},
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array"},
    "map": {"type": "object"},
}
"""What an input of a type takes that publishes no schema."""
_WORDS = {"integer": "int", "boolean": "bool", "array": "list", "object": "map"}
"""Types of JSON Schema in the words of the plan language."""
_KINDS: tuple[tuple[type, str], ...] = ((str, "string"), (list, "array"), (dict, "object"))
_CLASSES: dict[str, tuple[type, ...]] = {
    "string": (str, int, float, bool),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_made: dict[int, tuple[Json, Quick]] = {}
REMEMBERED = 1024
"""Schemas that are kept ready for judging."""
SHOWN = 8
"""So many names at most stand in a message."""


class Fault(NamedTuple):
    """One value that does not fit: ``path`` leads to it from the input, ``said`` is what it is and what was expected;
    ``near`` is what to write instead of the last word of it."""

    path: Path
    said: str
    help: str = ""
    near: str = ""
    unknown: bool = False
    """It is a key that the map around it does not have."""
    length: bool = False
    """It is a list, as expected, of another length."""


def faults(value: Json, field: Field) -> Iterator[Fault]:
    """Where the value of an input does not fit; nothing for what may be right."""
    known = _QUANTITIES.get(field.type)
    schema = field.schema or _SCHEMAS.get(field.type)
    if known is None and (not isinstance(schema, dict) or _quick(schema)(value)):
        return
    if value is None or is_template(value) or value == field.default:
        return
    if known is not None and isinstance(value, (str, int, float)):
        found = amount(value, known[0])
        if found is None:
            yield Fault((), f"is `{_short(value)}`, expected {known[1]}")
        elif "integer" in _types(schema) and found != int(found):
            yield Fault((), f"is `{_short(value)}`, expected a whole number of {known[2]}")
    else:
        yield from _look(schema, value, ())


def _quick(schema: dict[str, Json]) -> Quick:
    """Whether a value fits beyond doubt, made once for each schema: nearly all values do, and need no words."""
    known = _made.get(id(schema))
    if known is None:
        if len(_made) >= REMEMBERED:
            _made.clear()
        known = _made[id(schema)] = (schema, _making(schema))
    return known[1]


def _making(schema: Json) -> Quick:
    if not isinstance(schema, dict) or not schema:
        return lambda value: True
    if "anyOf" in schema:
        members = [_making(member) for member in schema["anyOf"]]
        return lambda value: any(member(value) for member in members)
    if "enum" in schema:
        words = frozenset(choice for choice in schema["enum"] if isinstance(choice, str))
        return lambda value: isinstance(value, str) and value in words
    classes = frozenset(each for name in _types(schema) for each in _CLASSES.get(name, ()))
    if "prefixItems" in schema:
        return _making_fixed([_making(each) for each in schema["prefixItems"]])
    item, rest = _making(schema.get("items")), schema.get("additionalProperties")
    named = {name: _making(each) for name, each in schema.get("properties", {}).items()}
    other: Quick = (lambda value: False) if rest is False else _making(rest)

    form = _form(schema)

    def fits(value: Json) -> bool:
        if type(value) not in classes or not (form is None or form[0](value)):
            return False
        if isinstance(value, list):
            return all(map(item, value))
        return not isinstance(value, dict) or all(named.get(name, other)(each) for name, each in value.items())

    return fits


def _making_fixed(parts: list[Quick]) -> Quick:
    def fits(value: Json) -> bool:
        if type(value) is not list or len(value) != len(parts):
            return False
        return all(part(each) for part, each in zip(parts, value, strict=True))

    return fits


def _look(schema: Json, value: Json, path: Path) -> Iterator[Fault]:
    if not isinstance(schema, dict) or value is None or is_template(value):
        return
    if "anyOf" in schema:
        yield from _any(schema["anyOf"], value, path)
    elif "enum" in schema:
        if not any(
            choice == value and isinstance(choice, bool) == isinstance(value, bool) for choice in schema["enum"]
        ):
            yield _none_of(schema["enum"], value, path)
    elif not _is_of(value, _types(schema)):
        yield Fault(path, f"is {kind(value)}, expected {_joined([_WORDS.get(each, each) for each in _types(schema)])}")
    elif (form := _form(schema)) is not None and not form[0](value):
        yield Fault(path, f"is `{_short(value)}`, expected {form[1]}")
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        if first and len(first) != len(value):
            yield Fault(path, f"has {_counted(len(value))}, expected {len(first)}", length=True)
        for number, item in enumerate(value):
            yield from _look(first[number] if number < len(first) else schema.get("items"), item, (*path, number))
    elif isinstance(value, dict):
        yield from _entries(schema, value, path)


def _entries(schema: dict[str, Json], value: dict[str, Json], path: Path) -> Iterator[Fault]:
    named, rest = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        if name in named:
            yield from _look(named[name], item, (*path, name))
        elif rest is False and not is_template(name):
            near = nearest(str(name), named) or ""
            way = "" if near else f"it has {', '.join(f'`{each}`' for each in list(named)[:SHOWN])}"
            yield Fault((*path, name), f"has no key `{name}`", way, near, unknown=True)
        else:
            yield from _look(rest, item, (*path, name))


def _any(members: list[Json], value: Json, path: Path) -> Iterator[Fault]:
    """What is wrong by the one alternative that a value of its kind can mean, or that none is of its kind."""
    found = [list(_look(member, value, path)) for member in members]
    if not all(found):
        return
    alike = [
        each
        for each, member in zip(found, members, strict=True)
        if _of_its_kind(each[0], path) or "enum" in member or (_form(member) and _is_of(value, _types(member)))
    ]
    if alike:
        yield from alike[0]
        return
    words = [_WORDS.get(each, each) for member in members for each in _types(member) if each != "null"]
    yield Fault(path, f"is {kind(value)}, expected {_joined(list(dict.fromkeys(words)))}")


def _of_its_kind(fault: Fault, path: Path) -> bool:
    """Whether the value itself is what was expected, and wrong in what it holds."""
    return fault.path != path or fault.length


def _none_of(choices: list[Json], value: Json, path: Path) -> Fault:
    words = [str(choice) for choice in choices if choice not in ("", None)]
    near = (nearest(value, words) or "") if isinstance(value, str) else ""
    shown = f"`{_short(value)}`" if not isinstance(value, (list, dict)) else kind(value)
    way = f"it takes {', '.join(f'`{word}`' for word in words)}" if len(words) <= SHOWN else ""
    return Fault(path, f"is {shown}, which it does not take", "" if near else way, near)


def _form(schema: dict[str, Json]) -> tuple[Quick, str] | None:
    return _FORMS.get(schema.get("format", ""))


def _counted(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"


def _types(schema: Json) -> list[str]:
    found = schema.get("type", []) if isinstance(schema, dict) else []
    return list(found) if isinstance(found, list) else [found]


def _is_of(value: Json, types: list[str]) -> bool:
    if not types:
        return True
    if isinstance(value, bool):
        return "boolean" in types or "string" in types
    if isinstance(value, (int, float)):
        whole = isinstance(value, int) or value.is_integer()
        return "number" in types or "string" in types or ("integer" in types and whole)
    return next((name in types for each, name in _KINDS if isinstance(value, each)), True)


def kind(value: Json) -> str:
    """What a value is, in words."""
    for each, name in ((bool, "a bool"), (int, "an int"), (float, "a number"), (str, "a string"), (list, "a list")):
        if isinstance(value, each):
            return name
    return "a map"


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _short(value: Json) -> str:
    text = " ".join(as_text(value).split())
    return text if len(text) <= 40 else text[:39] + "…"
