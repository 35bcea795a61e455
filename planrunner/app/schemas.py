"""The JSON Schema of plans for editors and people: whole, or the part under a path of keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from planrunner.errors import NotFound
from planrunner.fileio import read_data
from planrunner.plan.model import Capability, Field
from planrunner.plan.nearest import nearest

Schema = dict[str, Any]

_TYPES: dict[str, Schema] = {
    "string": {"type": "string"},
    "integer": {"type": ["integer", "string"]},
    "int": {"type": ["integer", "string"]},
    "number": {"type": ["number", "string"]},
    "bool": {"type": ["boolean", "string"]},
    "list": {"type": ["array", "string"]},
    "map": {"type": ["object", "string"]},
}
"""Types of the plan language; text is allowed everywhere, because it may be a template."""


def plan_schema(capabilities: Sequence[Capability] = ()) -> Schema:
    """The schema of plans. With ``capabilities``, editors also complete their names and check their inputs."""
    schema: Schema = json.loads(read_data("schemas", "plan.schema.json"))
    if capabilities:
        task = _task_definition(schema)
        uses = task["properties"]["uses"]
        known = {"enum": [capability.name for capability in capabilities]}
        task["properties"]["uses"] = {"description": uses.get("description", ""), "anyOf": [known, dict(uses)]}
        task.setdefault("allOf", []).extend(_inputs_rule(capability) for capability in capabilities)
    return schema


def run_schema() -> Schema:
    """The schema of a run as ``exec --json`` and ``show --json`` print it."""
    schema: Schema = json.loads(read_data("schemas", "run.schema.json"))
    return schema


def project_schema() -> Schema:
    """The schema of a project's settings, with that of plans in it, whose policy it refers to: one file for editors."""
    schema: Schema = json.loads(read_data("schemas", "project.schema.json"))
    plan: Schema = json.loads(read_data("schemas", "plan.schema.json"))
    whole = {**schema, "definitions": {**schema["definitions"], "plan": _pointed(plan, "#/", "#/definitions/plan/")}}
    pointed: Schema = _pointed(whole, "plan.schema.json#/", "#/definitions/plan/")
    return pointed


def _pointed(value: Any, before: str, after: str) -> Any:
    """A schema whose references that begin with the one begin with the other."""
    if isinstance(value, dict):
        return {
            key: after + each.removeprefix(before)
            if key == "$ref" and isinstance(each, str) and each.startswith(before)
            else _pointed(each, before, after)
            for key, each in value.items()
        }
    return [_pointed(each, before, after) for each in value] if isinstance(value, list) else value


def capabilities_schema(capabilities: Sequence[Capability]) -> Schema:
    """The schema of the inputs of each capability, by name."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "inputs of capabilities",
        "type": "object",
        "properties": {capability.name: input_schema(capability) for capability in capabilities},
    }


def input_schema(capability: Capability) -> Schema:
    """The schema of what stands under ``with`` of a task that calls the capability."""
    return {
        "type": "object",
        "title": f"inputs of {capability.name}",
        "description": capability.summary,
        "properties": {field.name: _field_schema(field) for field in capability.inputs},
        "required": [field.name for field in capability.inputs if field.required],
        "additionalProperties": capability.open_inputs,
    }


def part(schema: Schema, path: str, whose: str = "a plan") -> Schema:
    """The part of a schema under a path of keys such as ``tasks.retry``, with the definitions it refers to.

    Lists are passed through: ``tasks.retry`` is the retry of one task. Raises NotFound, naming the nearest key.
    """
    here = schema
    for at, name in enumerate(path.split(".")):
        known: dict[str, Schema] = {}
        for each in _alternatives(schema, here, set()):
            for key, value in each.get("properties", {}).items():
                known.setdefault(key, value)
        if name not in known:
            near = nearest(name, known)
            where = f"`{'.'.join(path.split('.')[:at])}`" if at else whose
            hint = f"did you mean `{near}`?" if near else f"it has {', '.join(sorted(known)) or 'no keys of its own'}"
            raise NotFound(f"{where} has no key `{name}`", hint)
        here = known[name]
    definitions = _used(schema, here)
    return {**here, "definitions": definitions} if definitions else dict(here)


def _alternatives(root: Schema, schema: Schema, seen: set[int]) -> Iterator[Schema]:
    """A schema and everything that describes the same place: references, combinations, items of lists."""
    if id(schema) in seen:
        return
    seen.add(id(schema))
    yield schema
    if "$ref" in schema:
        yield from _alternatives(root, _resolve(root, schema["$ref"]), seen)
    for key in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(key, ()):
            yield from _alternatives(root, each, seen)
    for key in ("items", "then", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _alternatives(root, schema[key], seen)


def _resolve(root: Schema, reference: str) -> Schema:
    found: Any = root
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    resolved: Schema = found
    return resolved


def _used(root: Schema, start: Schema) -> Schema:
    """The definitions that a part refers to, directly or by another one."""
    used: Schema = {}
    todo = list(_references(start))
    while todo:
        reference = todo.pop()
        name = reference.removeprefix("#/definitions/").split("/")[0]
        if name not in used and reference.startswith("#/definitions/"):
            used[name] = root["definitions"][name]
            todo += _references(used[name])
    return {name: used[name] for name in sorted(used)}


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _task_definition(schema: Schema) -> Schema:
    for each in _alternatives(schema, schema["properties"]["tasks"], set()):
        if "uses" in each.get("properties", {}):
            return each
    raise KeyError("the schema of plans does not describe tasks")


def _inputs_rule(capability: Capability) -> Schema:
    condition = {"properties": {"uses": {"const": capability.name}}, "required": ["uses"]}
    return {"if": condition, "then": {"properties": {"with": input_schema(capability)}}}


def _field_schema(field: Field) -> Schema:
    found = _with_templates(field.schema if isinstance(field.schema, dict) else _TYPES.get(field.type, {}))
    if field.description:
        found["description"] = field.description
    if field.default is not None:
        found["default"] = field.default
    return found


def _with_templates(schema: Schema) -> Schema:
    """The schema with a text wherever something else is wanted: a template may stand there."""
    found = dict(schema)
    if isinstance(found.get("type"), str) and found["type"] not in ("string", "null"):
        found["type"] = [found["type"], "string"]
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _with_templates(found[key])
    if "anyOf" in found:
        found["anyOf"] = [_with_templates(each) for each in found["anyOf"]]
    if "properties" in found:
        found["properties"] = {name: _with_templates(each) for name, each in found["properties"].items()}
    return found
