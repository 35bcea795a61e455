"""Tasks in YAML that call a capability, for people to copy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from planrunner.app.example_inputs import EARLIER, GATED, INPUTS
from planrunner.machine.ledger import SPENDABLE
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
    "percent": "10%",
}


def example_tasks(found: Capability, named: Callable[[str], Capability]) -> str:
    """A task of the capability, after those that give it what it takes or let people decide; ``named`` finds their
    capabilities. A plan of these tasks lints clean, and runs where the files and services are there that it names."""
    chain = [found]
    while earlier := EARLIER.get(chain[0].name):
        chain.insert(0, named(earlier))
    gate = ["- id: sign-off\n  gate: approval\n  ask: Go on?"] if found.name in GATED else []
    needed = ["sign-off" if gate else "", *map(_identifier, chain)]
    return "\n".join([*gate, *(_task(each, need) for each, need in zip(chain, needed))])


def _task(found: Capability, need: str) -> str:
    lines = [f"- id: {_identifier(found)}", f"  uses: {found.name}"]
    if need:
        lines.append(f"  needs: [{need}]")
    given = _given(found)
    if found.takes_run and not given:
        lines.append("  run: echo hello")
    if given:
        lines.append("  with:")
        lines += [f"    {name}: {_written(value)}" for name, value in given.items()]
    if spends := [what for what in found.spends if what in SPENDABLE]:
        lines.append(f"  budgets: {{{', '.join(f'{what}: {_spent(what)}' for what in spends)}}}")
    if not found.instant:
        lines.append("  timeout: 1m")
    return "\n".join(lines)


def _given(found: Capability) -> Mapping[str, Any]:
    """The inputs that the example shows."""
    known = INPUTS.get(found.name)
    if known is not None:
        return known
    return {field.name: _value(field) for field in found.inputs if field.required}


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
    """A value in the flow style of YAML; plain words need no quotes."""
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_written(name)}: {_written(each)}' for name, each in value.items())}}}"
    if isinstance(value, str) and value.replace("/", "").replace(".", "").isalpha() and not _is_special(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_special(word: str) -> bool:
    """Whether YAML, or an older reader of it, takes a word for something else than text."""
    return word.lower() in ("true", "false", "yes", "no", "on", "off", "null", "y", "n") or not word[0].isalpha()
