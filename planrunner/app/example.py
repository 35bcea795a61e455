"""A task in YAML that calls a capability, made from what the capability says of its inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planrunner.plan.model import Capability, Field

_BY_NAME: Mapping[str, Any] = {
    "path": "notes.txt",
    "paths": ["notes.txt"],
    "source": "notes.txt",
    "target": "copy.txt",
    "url": "https://example.com/",
    "method": "GET",
    "query": "planrunner",
    "message": "Say what changed",
    "urls": ["https://example.com/"],
    "directory": "work",
    "folder": "work",
}
_BY_TYPE: Mapping[str, Any] = {
    "string": "text",
    "int": 1,
    "number": 1.5,
    "bool": True,
    "list": [],
    "map": {},
    "duration": "10s",
    "size": "1MB",
    "money": "$1",
}


def example_task(found: Capability) -> str:
    """The task, with every required input; a plan that holds it lints without errors of this task."""
    lines = [f"- id: {_identifier(found)}", f"  uses: {found.name}"]
    if found.takes_run and not any(field.required for field in found.inputs):
        lines.append("  run: echo hello")
    given = [field for field in found.inputs if field.required]
    if given:
        lines.append("  with:")
        lines += [f"    {field.name}: {_written(_value(field))}" for field in given]
    if found.spends:
        lines.append(f"  budgets: {{{', '.join(f'{what}: {_spent(what)}' for what in found.spends)}}}")
    if not found.instant:
        lines.append("  timeout: 1m")
    return "\n".join(lines)


def _identifier(found: Capability) -> str:
    return found.name.rpartition(".")[2].replace("_", "-")


def _value(field: Field) -> Any:
    schema: Any = field.schema or {}
    for known in (schema, *schema.get("anyOf", ())):
        if known.get("enum"):
            return known["enum"][0]
    named = _BY_NAME.get(field.name)
    if named is not None and _is_of(named, field.type):
        return named
    if field.type == "list":
        return [_item(each) for each in schema.get("prefixItems", (schema.get("items", {}),))]
    if field.type == "map":
        return dict.fromkeys(schema.get("required", ()), "text")
    return _BY_TYPE.get(field.type, "text")


def _item(schema: Any) -> Any:
    """A member of a list: text where nothing else is known to fit."""
    words = schema.get("enum")
    simple: dict[Any, Any] = {"integer": 1, "number": 1.5, "boolean": True, "object": {}, "array": []}
    return words[0] if words else simple.get(schema["type"], "text") if isinstance(schema.get("type"), str) else "text"


def _is_of(value: Any, kind: str) -> bool:
    return isinstance(value, list) == (kind == "list") and kind in ("string", "list", "any")


def _spent(what: str) -> str:
    return {"cost": "$1", "tokens": "10k"}.get(what, "10")


def _written(value: Any) -> str:
    """JSON is YAML as well; plain words need no quotes."""
    if isinstance(value, str) and value.replace("/", "").replace(".", "").isalpha():
        return value
    return json.dumps(value, ensure_ascii=False)
