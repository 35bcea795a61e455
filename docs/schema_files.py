"""The published schemas of plans and of settings, from their tables of keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

from planrunner.plan.keys import PLAN, TASK, Key, one
from planrunner.plan.shapes import SHAPES, WITH_INPUTS
from planrunner.safety import keys as settings

Schema = dict[str, Any]

_DRAFT = "http://json-schema.org/draft-07/schema#"
_TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
_SNIPPETS = (
    (
        "task: run a command",
        "A task with a shell script",
        {"id": "${1:task}", "title": "${2:What it does}", "run": "${3:command}", "timeout": "${4:5m}"},
    ),
    (
        "task: use a capability",
        "A task with a capability",
        {"id": "${1:task}", "uses": "${2:files.read}", "with": {"${3:path}": "${4:value}"}},
    ),
    (
        "task: gate",
        "A gate for people",
        {
            "id": "${1:approve}",
            "gate": "approval",
            "needs": ["${2:task}"],
            "ask": "${3:Go on?}",
            "expires": "${4:4h}",
        },
    ),
)


def text(schema: Schema) -> str:
    """A schema as its file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def of_plans() -> Schema:
    """The schema of plans, and as its definitions the task and the shapes of all values."""
    definitions = {name: _shape(row) for name, row in SHAPES.items()}
    definitions["task"] = _task()
    definitions["step"] = _step(definitions["task"])
    return {"$schema": _DRAFT, "title": "plan"} | _value(PLAN) | {"definitions": definitions}


def of_settings() -> Schema:
    """The schema of a project's settings, which refers to that of plans."""
    definitions = {name: _titled(row) for name, row in settings.SHAPES.items()}
    return {"$schema": _DRAFT} | _value(settings.SETTINGS) | {"definitions": definitions}


def _shape(row: Key) -> Schema:
    """A shape with the keys of a task that it has as well."""
    found = _titled(row)
    taken = {each.name: {"$ref": _pointer(f"task.{each.name}")} for each in TASK.keys if row.name in each.also.split()}
    taken |= {each.name: _value(each) for each in TASK.keys if row.name == each.only}
    if taken:
        found |= {"properties": {**found.get("properties", {}), **taken}, "additionalProperties": False}
    return found


def _titled(row: Key) -> Schema:
    found = {"title": row.name} | _value(row) if row.keys else _value(row)
    return {word: value for word, value in found.items() if value != ""}


def _value(row: Key) -> Schema:
    """What may stand in the place of a value."""
    types = [word for word in row.kind.split() if word in _TYPES]
    found: Schema = {"type": types[0] if len(types) == 1 else types} if types else {}
    conditions: list[Schema] = [{"$ref": _pointer(word)} for word in row.kind.split() if word not in _TYPES]
    found |= _said(row.says) | dict(_keywords(row.schema))
    properties = dict(_properties(row))
    if properties or row.keys:
        found["properties"] = properties
        if not row.schema.get("open") and "values" not in row.schema:
            found["additionalProperties"] = False
    choices = list(_required(row, found))
    if len(choices) == 1:  # where the title stands, by which messages call the mapping
        found |= choices.pop()
    conditions += [*found.pop("allOf", ()), *choices, *(_apart(*pair) for pair in _pairs(row.keys))]
    if conditions and not found and len(conditions) == 1:
        return conditions[0]
    return found | {"allOf": conditions} if conditions else found


def _pointer(word: str) -> str:
    """``retry``: a shape; ``task.run``: the key of one; ``plan:policy``: a shape of plans."""
    file, _, place = word.rpartition(":")
    shape, _, name = place.partition(".")
    whole = "#" if shape == "plan" else f"#/definitions/{shape}"
    whole = f"{file}.schema.json{whole}" if file else whole
    return f"{whole}/properties/{name}" if name else whole


def _said(says: str) -> Schema:
    plain = says.replace("`", "")
    marked = {"markdownDescription": says} if plain != says else {}
    return {"description": plain} | marked if says else {}


def _keywords(given: Schema) -> Iterator[tuple[str, Any]]:
    for word, value in given.items():
        if word == "enum":
            yield word, value.split()
        elif word in ("items", "values"):
            inner = _value(one(value) if isinstance(value, str) else value)
            yield "items" if word == "items" else "additionalProperties", inner
        elif word == "expected":
            yield "patternErrorMessage", value
        elif word == "mapping":
            yield from (("if", {"type": "object"}), ("then", {"$ref": _pointer(value)}))
        elif word not in ("open", "required"):
            yield word, value


def _properties(row: Key) -> Iterator[tuple[str, Schema]]:
    for each in row.keys:
        if not each.only:
            yield each.name, _value(each)
        for alias in each.aliases.split():
            whole = f"Another name of `{each.name}`; `planrunner fmt` writes `{each.name}`."
            yield alias, {"allOf": [{"$ref": _pointer(f"{row.name}.{each.name}")}], **_said(whole)}


def _names(row: Key, keys: Iterable[Key]) -> list[str]:
    """A key by all its names."""
    return [row.name, *row.aliases.split(), *(other.name for other in keys if other.same == row.name)]


def _required(row: Key, found: Schema) -> Iterator[Schema]:
    """The keys that must be there; a condition for each that may have another name or another in its place."""
    by_name = {each.name: each for each in row.keys}
    alone = []
    for word in row.schema.get("required", "").split():
        names = [
            name
            for part in word.split("|")
            for name in ([part] if part not in by_name else _names(by_name[part], row.keys))
        ]
        if len(names) == 1:
            alone += names
        else:
            yield {"anyOf": [{"required": [name]} for name in names]}
    if alone:
        found["required"] = alone


def _pairs(keys: tuple[Key, ...]) -> Iterator[tuple[str, str]]:
    """The keys that exclude each other: names of one, and those that say so."""
    by_name = {row.name: row for row in keys}
    for row in keys:
        others = [name for name in _names(row, keys)[1:] if name not in by_name or by_name[name].same]
        yield from combinations([row.name, *others], 2)
    for row in keys:
        for other in row.apart.split():
            yield from ((row.name, name) for name in (other, *by_name[other].aliases.split()))


def _apart(first: str, second: str) -> Schema:
    message = f"{first} and {second} exclude each other"
    return {"not": {"type": "object", "required": [first, second]}, "errorMessage": message}


def _task() -> Schema:
    task = {"title": "task"} | _value(TASK)
    by_name = {row.name: row for row in TASK.keys}
    acting = [name for word in by_name["gate"].apart.split() for name in (word, *by_name[word].aliases.split())]
    idle = "a gate does nothing itself: put what it does into a task of its own"
    asking = [row.name for row in TASK.keys if row.read == "gate" and row.name != "gate"]
    kind = {"properties": {"kind": {"const": "gate"}}, "required": ["kind"]}
    variables = {"properties": {"environment": {"type": "object", **_said("Variables, as `env` has them.")}}}
    task["allOf"] += [
        _none_together(asking, acting, f"keys such as approvers make the task a gate, and {idle}"),
        {"if": kind, "then": _none_together(["kind"], acting, idle)},
        {"if": variables | {"required": ["environment"]}, "then": _apart("env", "environment")},
    ]
    inputs = _names(by_name["with"], ())
    for capability in WITH_INPUTS:
        shape = {"$ref": _pointer(f"inputs_of_{capability.replace('.', '_')}")}
        for word in _names(by_name["uses"], ()):
            called = {"properties": {word: {"const": capability}}, "required": [word]}
            task["allOf"].append({"if": called, "then": {"properties": dict.fromkeys(inputs, shape)}})
    task["defaultSnippets"] = [{"label": label, "description": about, "body": body} for label, about, body in _SNIPPETS]
    return task


def _none_together(first: list[str], second: list[str], message: str) -> Schema:
    both = [{"anyOf": [{"required": [name]} for name in names]} for names in (first, second)]
    return {"not": {"type": "object", "allOf": both}, "errorMessage": message}


def _step(task: Schema) -> Schema:
    """A task among the steps of a subplan: it may go without an id."""
    return {
        "title": "step",
        "type": "object",
        "properties": {name: {"$ref": _pointer(f"task.{name}")} for name in task["properties"]},
        "additionalProperties": False,
        "allOf": task["allOf"],
    }
