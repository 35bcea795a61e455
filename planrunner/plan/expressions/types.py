"""Static types of values, as far as they are known before a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Json = Any

Kind = Literal["any", "string", "number", "bool", "null", "time", "size", "money", "percent", "list", "map", "object"]


class Type(NamedTuple):
    """``item`` is the type of the items of a list or of the values of a map (None: any), ``fields`` the members of an
    object, which has no others, and those of a map that are known. ``optional``: the value may be missing when it is
    read. ``what`` names an object in messages, such as "task `test`"; ``code`` is the finding for a member it does not
    have."""

    kind: Kind
    item: Type | None = None
    fields: Mapping[str, Type] = {}
    optional: bool = False
    what: str = ""
    code: str = "PLAN201"
    without: Mapping[str, str] = {}
    """Names that a map does not have though they look as if it had, each with what is meant."""


ANY = Type("any")
STRING = Type("string")
NUMBER = Type("number")
BOOL = Type("bool")
NULL = Type("null")
TIME = Type("time")
SIZE = Type("size")
MONEY = Type("money")
PERCENT = Type("percent")
LIST = Type("list")
MAP = Type("map")

_DECLARED: dict[str, Type] = {
    "string": STRING,
    "str": STRING,
    "text": STRING,
    "url": STRING,
    "path": STRING,
    "int": NUMBER,
    "integer": NUMBER,
    "float": NUMBER,
    "number": NUMBER,
    "bool": BOOL,
    "boolean": BOOL,
    "duration": TIME,
    "size": SIZE,
    "money": MONEY,
    "percent": PERCENT,
    "list": LIST,
    "array": LIST,
    "map": MAP,
    "object": MAP,
    "any": ANY,
}


def list_of(item: Type) -> Type:
    return Type("list", item)


def map_of(item: Type) -> Type:
    return Type("map", item)


def object_of(fields: Mapping[str, Type], what: str = "", code: str = "PLAN201") -> Type:
    """An object with exactly these members; an unknown one is reported as ``code``: "``what`` has no …"."""
    return Type("object", None, fields, False, what, code)


def optional(found: Type) -> Type:
    """The type of a value that may be missing when it is read, such as an output of a task that may be skipped."""
    return found._replace(optional=True)


def declared(word: str) -> Type:
    """The type a word of a plan stands for, such as ``int``, ``duration`` or ``list[url]``; any for unknown words."""
    word = word.strip()
    if word.endswith("]") and "[" in word:
        outer, _, inner = word[:-1].partition("[")
        return declared(outer)._replace(item=declared(inner)) if outer in ("list", "array", "map") else ANY
    return _DECLARED.get(word, ANY)


_SIMPLE = {"string": STRING, "number": NUMBER, "integer": NUMBER, "boolean": BOOL, "null": NULL}
_COMBINED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "not", "patternProperties"})


def of_schema(schema: Json, what: str, *, closed: bool) -> Type:
    """The type of data that fits a JSON Schema, as far as its ``type``, ``properties`` and ``items`` tell. ``closed``
    says of objects without ``additionalProperties`` that they have no members but those that are listed."""
    if not isinstance(schema, dict) or not _COMBINED.isdisjoint(schema):
        return ANY
    kind = schema.get("type")
    if kind == "array":
        return list_of(of_schema(schema.get("items"), f"an item of {what}", closed=closed))
    if kind != "object":
        return _SIMPLE.get(kind, ANY) if isinstance(kind, str) else ANY
    properties = schema.get("properties")
    if (
        not isinstance(properties, dict)
        or not properties
        or schema.get("additionalProperties", not closed) is not False
    ):
        return MAP
    fields = {str(name): of_schema(each, f"`{name}` of {what}", closed=closed) for name, each in properties.items()}
    return object_of(fields, what)
