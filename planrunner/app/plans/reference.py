"""What plans can say, for editors and people: JSON Schemas, lint rules, examples of capabilities."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import planrunner
from planrunner.app.plans.lint import registry
from planrunner.diagnostics import RULES, Rule
from planrunner.errors import Hint, NextStep, NotFound
from planrunner.fileio import read_data
from planrunner.machine.ledger import SPENDABLE
from planrunner.plan.model import Capability, Field
from planrunner.plan.nearest import nearest
from planrunner.plan.schema import read_schema

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
        task.setdefault("allOf", []).extend(
            {
                "if": {"properties": {"uses": {"const": capability.name}}, "required": ["uses"]},
                "then": {"properties": {"with": input_schema(capability)}},
            }
            for capability in capabilities
        )
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


def capability_object(capability: Capability) -> dict[str, Any]:
    """A capability as data, with the schema of its inputs."""
    data = capability._asdict()
    data["inputs"] = [field._asdict() for field in capability.inputs]
    data["outputs"] = [field._asdict() for field in capability.outputs]
    return {**data, "schema": input_schema(capability)}


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
        target: Any = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        yield from _alternatives(root, target, seen)
    for key in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(key, ()):
            yield from _alternatives(root, each, seen)
    for key in ("items", "then", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _alternatives(root, schema[key], seen)


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


def _field_schema(field: Field) -> Schema:
    found = _with_templates(field.schema if isinstance(field.schema, dict) else _TYPES.get(field.type, {}))
    if field.description:
        found["description"] = field.description
    if field.default is not None:
        found["default"] = field.default
    return found


def _with_templates(schema: Schema) -> Schema:
    """The schema with a text wherever something else is wanted: a template may stand there."""
    result = dict(schema)
    if isinstance(result.get("type"), str) and result["type"] not in ("string", "null"):
        result["type"] = [result["type"], "string"]
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _with_templates(result[key])
    if "anyOf" in result:
        result["anyOf"] = [_with_templates(each) for each in result["anyOf"]]
    if "properties" in result:
        result["properties"] = {name: _with_templates(each) for name, each in result["properties"].items()}
    return result


def rule_objects(wanted: str | None = None) -> list[dict[str, Any]]:
    """The rules as JSON data: ``code, name, severity, title, explanation``. Raises NotFound for a code or name that no
    rule has."""
    rules = list(RULES.values()) if wanted is None else [_find(wanted)]
    return [{**rule._asdict(), "explanation": _explanation(rule.code)} for rule in rules]


def explain_rule(code: str) -> str:
    """A rule for people: its explanation, or its line of the table where none is installed."""
    rule = RULES[code]
    return _explanation(code).strip() or f"{rule.code} {rule.name} ({rule.severity}): {rule.title}"


def _find(wanted: str) -> Rule:
    for rule in RULES.values():
        if wanted.upper() == rule.code or wanted.lower() == rule.name:
            return rule
    near = nearest(wanted.upper(), RULES) or nearest(wanted.lower(), [rule.name for rule in RULES.values()])
    raise NotFound(f"there is no rule `{wanted}`", f"did you mean `{near}`?" if near else NextStep("rule", "--all"))


def _explanation(code: str) -> str:
    path = os.path.join(os.path.dirname(planrunner.__file__), "plan", "rules", "explanations", f"{code}.md")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


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


def example_tasks(capability: Capability, named: Callable[[str], Capability]) -> str:
    """A task of the capability, after those that give its inputs or let people decide; ``named`` finds their
    capabilities. A plan of these tasks lints clean, and runs where the files and services are there that it names."""
    chain = [capability]
    while earlier := EARLIER.get(chain[0].name):
        chain.insert(0, named(earlier))
    gate = ["- id: sign-off\n  gate: approval\n  ask: Go on?"] if capability.name in GATED else []
    needed = ["sign-off" if gate else "", *map(_identifier, chain)]
    return "\n".join([*gate, *(_task(each, need) for each, need in zip(chain, needed))])


def _task(capability: Capability, need: str) -> str:
    lines = [f"- id: {_identifier(capability)}", f"  uses: {capability.name}"]
    if need:
        lines.append(f"  needs: [{need}]")
    given = INPUTS.get(capability.name)
    if given is None:
        given = {field.name: _value(field) for field in capability.inputs if field.required}
    if capability.takes_run and not given:
        lines.append("  run: echo hello")
    if given:
        lines.append("  with:")
        lines += [f"    {name}: {_written(value)}" for name, value in given.items()]
    if spends := [what for what in capability.spends if what in SPENDABLE]:
        lines.append(f"  budgets: {{{', '.join(f'{what}: {_spent(what)}' for what in spends)}}}")
    if not capability.instant:
        lines.append("  timeout: 1m")
    return "\n".join(lines)


def _identifier(capability: Capability) -> str:
    return capability.name.rpartition(".")[2].replace("_", "-")


def _value(field: Field) -> Any:
    schema: Any = field.schema or {}
    for known in (schema, *schema.get("anyOf", ())):
        if known.get("enum"):
            return known["enum"][0]
    named = _BY_NAME.get(field.name)
    if (
        named is not None
        and field.type in ("string", "list", "any")
        and isinstance(named, list) == (field.type == "list")
    ):
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


INPUTS: Mapping[str, Mapping[str, Any]] = json.loads(Path(__file__).with_name("examples.json").read_text("utf-8"))
"""The inputs of examples, by capability; required ones are made up for others."""

EARLIER: Mapping[str, str] = {
    "branch.apply": "branch.change",
    "branch.change": "branch.fork",
    "branch.drop": "branch.fork",
    "files.restore": "files.snapshot",
    "research.cite": "research.facts",
    "research.dedupe": "research.fetch",
    "research.facts": "research.fetch",
    "research.rank": "research.fetch",
}
"""The capability whose task gives an example its inputs."""

GATED = frozenset({"http.delete"})
"""Capabilities whose example has people decide first, since nothing takes back what they do."""


def catalogue(family: str | None = None) -> list[Capability]:
    """Every installed capability, by name, or those of a family such as ``files``, or of a group in one such as
    ``git.worktree``; loads every plugin."""
    known = registry()
    begins = f"{family}_" if family is not None and "." in family else f"{family}."
    names = sorted(name for name in known.names() if family is None or name.startswith(begins))
    return [found for name in names if (found := known.find(name)) is not None]


def capability(name: str) -> Capability:
    """One capability; raises NotFound with the nearest name."""
    known = registry()
    found = known.find(name)
    if found is None:
        near = nearest(name, known.names())
        raise NotFound(
            f"no installed capability is named `{name}`",
            f"did you mean `{near}`?" if near else Hint(NextStep("capabilities"), " lists them"),
        )
    return found


def schema_for(path: str | None, complete: bool) -> dict[str, Any]:
    """The schema of plans, of ``capabilities``, of ``project`` (the file of settings), of ``run`` (what ``--json``
    prints of one), or of ``test`` and ``eval`` (the files of those). A path of keys such as ``tasks.retry`` or
    ``project.models`` gives that of what stands there. ``complete`` adds the inputs of the installed capabilities.
    Raises NotFound for a key that there is not."""
    if path == "capabilities":
        return capabilities_schema(catalogue())
    if path == "run":
        return run_schema()
    if path in ("test", "eval"):
        return read_schema(f"plan-{path}.schema.json")
    whose, _, rest = (path or "").partition(".")
    if whose == "project":
        return part(project_schema(), rest, "the project's file") if rest else project_schema()
    schema = plan_schema(catalogue() if complete else ())
    return part(schema, path) if path else schema
