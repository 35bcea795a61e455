"""What may be written at a place of a plan: keys, values, capabilities, tasks, parameters, outputs, functions.

The text is looked at line by line (``outline.py``), because it is completed while it does not parse.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from planrunner.app.plans.outline import Place, fields_of, line_of, names_under, outputs_of, place_of, task_names
from planrunner.app.plans.reference import plan_schema
from planrunner.plan.expressions.functions import BUILT_IN, FUNCTIONS
from planrunner.plan.load import Capabilities
from planrunner.plan.model import Field
from planrunner.plan.rules.namespace import OUTCOME, RESULTS
from planrunner.records import Struct
from planrunner.source import Notation, Source

Schema = Mapping[str, Any]

MOST = 80
"""Suggestions that are given at most."""

_USUAL = (
    *("id", "title", "uses", "with", "run", "needs", "gate", "ask", "agent", "when", "expect", "retry", "timeout"),
    *("outputs", "artifacts", "rollback", "plan", "params", "budgets", "defaults", "tasks"),
)
"""The keys that are written most, which are suggested first."""

_TEMPLATE = re.compile(r"\{\{[^}]*$")
_WORD = re.compile(r"[\w.*/-]*$")
_PATH = re.compile(r"[\w.]*$")
_DASHED = re.compile(r"[\w.-]*$")
_ALIAS = "Another name of "
_EXPRESSIONS = ("#/definitions/expression", "#/definitions/criterion", "#/definitions/criteria")
_TASK_IDS = "#/definitions/task_id"
_OF_TASKS = {
    **dict.fromkeys(RESULTS, "whether the task ended so"),
    **dict.fromkeys(OUTCOME, "of its last attempt"),
    "outputs": "what the task gave",
    "status": "completed, failed, skipped …",
    "artifacts": "files that it kept",
}
_ROOTS = {
    "params": "parameters of the run",
    "tasks": "other tasks",
    "outputs": "outputs of this task",
    "env": "environment variables",
    "run": "the run: id, seed, dir, project",
    "plan": "the plan: id, title, version",
    "attempt": "the number of the attempt",
    "exit_code": "exit code of this task",
    "stdout": "what this task printed",
    "duration": "how long this task took",
    "artifacts": "files that this task kept",
}


class Suggestion(Struct):
    """One word that may stand at the cursor. ``kind`` is key, value, capability, task, parameter, output, function or
    name; ``about`` is one line about it; ``text`` is what is written for it, with what has to follow."""

    word: str
    kind: str
    about: str = ""
    text: str = ""


class Suggestions(Struct):
    """Suggestions for the characters ``start`` to ``end`` of a text, which they replace."""

    start: int
    end: int
    words: tuple[Suggestion, ...] = ()


class Names(Struct):
    """What a project has beside its plan: ``capabilities``, and names of ``agents``, ``models`` and ``secrets``."""

    capabilities: Capabilities
    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def suggestions(source: Source, offset: int, names: Names) -> Suggestions:
    """What may stand at the character ``offset`` of a plan, the best first, at most ``MOST``."""
    offset = max(0, min(offset, len(source.text)))
    row, column = (number - 1 for number in source.place(offset))
    lines = source.text.split("\n")
    before = lines[row][:column] if row < len(lines) else ""
    spot = _Spot(source.text, lines, row, before, names, source.notation)
    pattern, words = _words_at(spot)
    written = _written(pattern, before)
    fitting = _fitting(words, written)
    return Suggestions(offset - len(written), offset, tuple(fitting[:MOST]))


class _Spot(Struct):
    text: str
    lines: list[str]
    row: int
    before: str
    names: Names
    notation: Notation


def _written(pattern: re.Pattern[str], before: str) -> str:
    found = pattern.search(before)
    return found[0] if found else ""


def _fitting(words: Iterable[Suggestion], written: str) -> list[Suggestion]:
    """Those that begin with what is written, then those that contain it."""
    low = written.lower()
    unique = {each.word: each for each in words}
    starts = [each for each in unique.values() if each.word.lower().startswith(low)]
    inside = [each for each in unique.values() if low and low in each.word.lower() and each not in starts]
    return [each for each in (*starts, *inside) if (each.text or each.word) != written]


def _words_at(spot: _Spot) -> tuple[re.Pattern[str], Iterable[Suggestion]]:
    """What is being written, as a pattern, and every word that could stand there."""
    if _TEMPLATE.search(spot.before):
        return _PATH, _expression(spot, in_template=True)
    if spot.before.lstrip().startswith("#"):
        return _WORD, ()
    if spot.notation == "text":
        return _WORD, _in_text(spot)
    place = place_of(spot.lines, spot.row, len(spot.before))
    if place.inside:
        return _WORD, ()
    line = line_of(spot.row, spot.before)
    if line is not None and line.key:
        return _flow(spot, (*place.keys, line.key), line.value) or _value(spot, (*place.keys, line.key))
    if line is not None and line.dash >= 0 and (item := _item(spot, place)) is not None:
        return item
    return _DASHED, _keys(spot, place)


def _flow(spot: _Spot, keys: tuple[str, ...], value: str) -> tuple[re.Pattern[str], Iterable[Suggestion]] | None:
    """What may stand in a mapping that is written on one line; None outside of one."""
    if not value.startswith("{"):
        return None
    last = re.split(r"[{,]", value)[-1]
    name, colon, _ = last.partition(":")
    if colon:
        return _value(spot, (*keys, name.strip()))
    taken = dict.fromkeys(re.findall(r"([\w-]+) *:", value), "")
    return _DASHED, _keys(spot, Place(keys, taken, False))


def _item(spot: _Spot, place: Place) -> tuple[re.Pattern[str], Iterable[Suggestion]] | None:
    """The items of a list of words, such as ``needs``; None where items are mappings."""
    return _value(spot, place.keys) if _references(place.keys) & {_TASK_IDS, *_EXPRESSIONS} else None


def _references(keys: Sequence[str]) -> set[str]:
    """The definitions that the schema of a place refers to, for itself or for the items of its list."""
    schemas = [each for schema in _at(keys) for each in _same(schema)]
    schemas += [each["items"] for each in schemas if isinstance(each.get("items"), dict)]
    return {str(each["$ref"]) for each in schemas if "$ref" in each}


# Keys


def _keys(spot: _Spot, place: Place) -> Iterator[Suggestion]:
    """The keys that a mapping may have and has not."""
    if place.keys[-1:] in (("with",), ("inputs",)) and (fields := _inputs(spot)):
        for field in fields:
            if field.name not in place.siblings:
                yield Suggestion(field.name, "key", _about_field(field), f"{field.name}: ")
        return
    for schema in _at(place.keys):
        for name, inner in sorted(_properties(schema).items(), key=lambda each: _rank(each[0])):
            about = str(inner.get("description", ""))
            if name not in place.siblings and not about.startswith(_ALIAS):
                yield Suggestion(name, "key", about, f"{name}: ")


def _rank(key: str) -> int:
    return _USUAL.index(key) if key in _USUAL else len(_USUAL)


def _inputs(spot: _Spot) -> tuple[Field, ...]:
    """The inputs of the capability of the task around a place under ``with``, those that are required first."""
    uses = _sibling_of(spot, "uses") or _sibling_of(spot, "using")
    capability = spot.names.capabilities.find(uses) if uses else None
    return () if capability is None else tuple(sorted(capability.inputs, key=lambda field: not field.required))


def _sibling_of(spot: _Spot, key: str) -> str:
    """The value of a key of the task around the cursor, one level above it."""
    for number in range(spot.row, -1, -1):
        line = line_of(number, spot.lines[number])
        if line is not None and line.key in ("with", "inputs"):
            return place_of(spot.lines, number, line.column).siblings.get(key, "").strip("\"'")
    return ""


def _about_field(field: Field) -> str:
    need = "required" if field.required else f"default {field.default}" if field.default is not None else ""
    return " · ".join(part for part in (field.type, need, field.description) if part)


# Values


def _value(spot: _Spot, keys: tuple[str, ...]) -> tuple[re.Pattern[str], Iterable[Suggestion]]:
    name = keys[-1]
    if name in ("uses", "using"):
        return _WORD, _capabilities(spot)
    known = {"agent": spot.names.agents, "model": spot.names.models, "secrets": spot.names.secrets}.get(name, ())
    if known:
        return _WORD, [Suggestion(each, "value", f"{name} of this project") for each in known]
    references = _references(keys)
    if _TASK_IDS in references:
        own = _own_task(spot)
        return _WORD, [Suggestion(task, "task", _title(spot, task)) for task in task_names(spot.text) if task != own]
    if not references.isdisjoint(_EXPRESSIONS):
        return _PATH, _expression(spot)
    return _WORD, _plain([each for schema in _at(keys) for each in _same(schema)])


def _plain(schemas: Sequence[Schema]) -> Iterator[Suggestion]:
    """Values that a schema lists; truth values; examples that are one word."""
    for schema in schemas:
        for value in schema.get("enum", ()):
            yield Suggestion(_scalar(value), "value", str(schema.get("description", "")))
    if any("boolean" in _types(schema) for schema in schemas):
        yield from (Suggestion(word, "value") for word in ("true", "false"))
    for schema in schemas:
        for value in (*schema.get("examples", ()), *([schema["default"]] if "default" in schema else ())):
            if isinstance(value, (str, int, float, bool)) and "\n" not in str(value):
                yield Suggestion(_scalar(value), "value", "for example")


def _types(schema: Schema) -> tuple[str, ...]:
    said = schema.get("type", ())
    return (said,) if isinstance(said, str) else tuple(said)


def _scalar(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _capabilities(spot: _Spot) -> Iterator[Suggestion]:
    written = _written(_WORD, spot.before).lower()
    for name in sorted(spot.names.capabilities.names()):
        if written in name.lower():  # a description is read for those alone that fit
            capability = spot.names.capabilities.find(name)
            yield Suggestion(name, "capability", capability.summary if capability is not None else "")


# Expressions and templates


def _expression(spot: _Spot, in_template: bool = False) -> Iterator[Suggestion]:
    """Names in an expression: after a point what the name before it has, otherwise names and functions."""
    path = _written(_PATH, spot.before)
    owner = path.rpartition(".")[0]
    if owner:
        yield from _members(spot, owner)
        return
    for name, about in _ROOTS.items():
        yield Suggestion(name, "name", about)
    if not in_template:
        yield from (Suggestion(task, "task", _title(spot, task)) for task in task_names(spot.text))
    for name, function in FUNCTIONS.items():
        about = (function.call.__doc__ or "").partition("\n")[0]
        yield Suggestion(name, "function", about, f"{name}(")
    yield from (Suggestion(name, "function", "", f"{name}(") for name in BUILT_IN)


def _members(spot: _Spot, owner: str) -> Iterator[Suggestion]:
    parts = owner.split(".")
    if owner == "params":
        for name in names_under(spot.lines, "params"):
            yield Suggestion(f"params.{name}", "parameter", "parameter of this plan")
    elif owner == "tasks":
        for task in task_names(spot.text):
            yield Suggestion(f"tasks.{task}", "task", _title(spot, task))
    elif owner == "outputs":
        yield from _outputs(spot, _own_task(spot), owner)
    elif parts[0] == "tasks" and len(parts) == 2:
        yield from (Suggestion(f"{owner}.{name}", "name", about) for name, about in _OF_TASKS.items())
    elif parts[0] == "tasks" and parts[2:] == ["outputs"]:
        yield from _outputs(spot, parts[1], owner)
    elif len(parts) == 1 and owner in task_names(spot.text):
        yield from (Suggestion(f"{owner}.{name}", "name", about) for name, about in _OF_TASKS.items())


def _outputs(spot: _Spot, task: str, owner: str) -> Iterator[Suggestion]:
    for name in outputs_of(spot.lines, task):
        yield Suggestion(f"{owner}.{name}", "output", f"declared by {task}")
    fields = fields_of(spot.lines, task)
    uses = fields.get("uses", "").strip("\"'") or ("shell" if "run" in fields else "")
    capability = spot.names.capabilities.find(uses) if uses else None
    for field in capability.outputs if capability is not None else ():
        yield Suggestion(f"{owner}.{field.name}", "output", _about_field(field._replace(required=False)))


def _own_task(spot: _Spot) -> str:
    """The id of the task around the cursor; empty outside of tasks."""
    for number in range(spot.row, -1, -1):
        line = line_of(number, spot.lines[number])
        if line is not None and line.key in ("id", "task") and line.value:
            return line.value.strip("\"'")
    return ""


def _title(spot: _Spot, task: str) -> str:
    fields = fields_of(spot.lines, task)
    return (fields.get("title") or fields.get("run") or fields.get("uses") or "").strip("\"'")[:80]


# The text notation


def _in_text(spot: _Spot) -> Iterator[Suggestion]:
    """Words of a plan in the text notation: after a key its values, otherwise the keys of a task."""
    if re.search(r"\bneeds *:.*$", spot.before) or "->" in spot.before:
        yield from (Suggestion(task, "task") for task in task_names(spot.text))
    elif re.search(r"\buses *: *\S*$", spot.before):
        yield from _capabilities(spot)
    elif ":" not in spot.before and spot.before.startswith(" "):
        yield from _keys(spot._replace(notation="yaml"), Place(("tasks",), {}, False))


# The schema


@functools.cache
def _schema() -> Schema:
    return plan_schema()


def _same(schema: Schema) -> Iterator[Schema]:
    """A schema and all that describes the same place."""
    todo, seen = [schema], set[int]()
    while todo:
        here = todo.pop(0)
        if id(here) in seen:
            continue
        seen.add(id(here))
        yield here
        if "$ref" in here:
            target: Any = _schema()
            for name in str(here["$ref"]).removeprefix("#/").split("/"):
                target = target[name]
            todo.append(target)
        todo += [each for key in ("allOf", "anyOf", "oneOf") for each in here.get(key, ())]
        todo += [here[key] for key in ("then", "else") if isinstance(here.get(key), dict)]


def _properties(schema: Schema) -> dict[str, Schema]:
    """The keys of the mappings that a schema describes, of the items of a list for a list."""
    found: dict[str, Schema] = {}
    for each in _same(schema):
        for name, inner in each.get("properties", {}).items():
            found.setdefault(name, inner)
        if isinstance(each.get("items"), dict):
            for name, inner in _properties(each["items"]).items():
                found.setdefault(name, inner)
    return found


def _at(keys: Sequence[str]) -> list[Schema]:
    """The schemas of the place that keys lead to; none where the schema does not know it."""
    places: list[Schema] = [_schema()]
    for key in keys:
        inner: list[Schema] = []
        for place in places:
            known = _properties(place)
            if key in known:
                inner.append(known[key])
            else:
                inner += [
                    each["additionalProperties"]
                    for each in _same(place)
                    if isinstance(each.get("additionalProperties"), dict)
                ]
        places = inner
    return places
