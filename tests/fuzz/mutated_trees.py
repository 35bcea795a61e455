"""Mutations of what a plan says, and plans made up from the schema: whatever way they are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import hostile_words

from planrunner import fileio
from planrunner.syntax import limits, notations
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence, to_json

DEEPEST = 90
Place = tuple[Any, Any]
"""A collection and the key or number of a value in it."""


def data_of(name: str, text: bytes) -> Any:
    """What a plan says, None where it does not parse."""
    source, _ = limits.decode(text, name)
    parsed = notations.parse(source) if source is not None else None
    tree = parsed.tree if parsed is not None else None
    return to_json(tree) if isinstance(tree, Mapping) else None


def tree_of(data: Any) -> Node:
    """The node tree of plain data, without places."""
    if isinstance(data, dict):
        return Mapping([(Scalar(key, 0, 0, key), tree_of(value)) for key, value in data.items()], 0, 0)
    if isinstance(data, list):
        return Sequence([tree_of(item) for item in data], 0, 0)
    return Scalar(data, 0, 0, str(data))


def mutate_tree(random: Random, data: Any, other: Any) -> Any:
    """One to six changes: values replaced, keys renamed, parts taken away, doubled, wrapped or brought from elsewhere."""
    whole = {"": _copy(data)}
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        places = list(_places(whole))
        box, key = random.choice(places)
        way = random.randrange(9)
        if way == 0:
            box[key] = value(random)
        elif way == 1 and isinstance(box, dict) and key:
            box[hostile_words.word(random)] = box.pop(key)
        elif way == 2 and key != "":
            del box[key]
        elif way == 3:
            box[key] = _wrapped(random, box[key])
        elif way == 4 and isinstance(box, list):
            box.extend(_copy(box[key]) for _ in range(random.choice((1, 3, 40))))
        elif way == 5 and other is not None:
            there, where = random.choice(list(_places({"": other})))
            box[key] = _copy(there[where])
        elif way == 6 and isinstance(box[key], str):
            box[key] = _altered(random, box[key])
        elif way == 7:
            there, where = random.choice(places)
            if where in there if isinstance(there, dict) else where < len(there):
                box[key] = _copy(there[where])
        else:
            box[key] = shaped(random, _any_part(random))
        whole.setdefault("", None)
    return whole[""]


def made_up(random: Random) -> dict[str, Any]:
    """A plan that the schema might allow, of values that it never thought of."""
    schema = _schema("plan.schema.json")
    plan = {"plan": "made-up", "tasks": [shaped(random, _part("task"), 1) for _ in range(random.choice((1, 2, 5)))]}
    for key in random.sample(sorted(schema["properties"]), random.choice((0, 1, 4))):
        plan[key] = shaped(random, schema["properties"][key], 1)
    if random.random() < 0.3:
        plan["policy"] = shaped(random, _part("policy"), 1)
        for task in plan["tasks"] if isinstance(plan["tasks"], list) else ():
            if isinstance(task, dict):
                task["policy"] = mutate_tree(random, shaped(random, _part("policy"), 1), None)
    if random.random() < 0.7:
        for number, task in enumerate(plan["tasks"] if isinstance(plan["tasks"], list) else ()):
            if isinstance(task, dict):
                task["id"] = f"t{number}"
                task.setdefault("uses", random.choice(("noop", "shell", "files.write", "http.request", "llm.complete")))
    return plan


def made_up_project(random: Random) -> dict[str, Any]:
    """A file of a project, made up in the same way."""
    sections = _schema("project.schema.json")["properties"]
    chosen = random.sample(sorted(sections), min(len(sections), random.choice((1, 3, 9))))
    return {key: shaped(random, sections[key], 1) for key in chosen}


def value(random: Random, depth: int = 0) -> Any:
    """Any value that JSON has."""
    way = random.randrange(9 if depth < 4 else 6)
    if way == 0:
        return random.choice((None, True, False, 0, -1, 1.5, 10**30, -(10**400), 5e-324, 1e308))
    if way < 6:
        return hostile_words.word(random)
    if way == 6:
        return [value(random, depth + 1) for _ in range(random.choice((0, 1, 3, 30)))]
    return {hostile_words.word(random): value(random, depth + 1) for _ in range(random.choice((0, 1, 3, 9)))}


def shaped(random: Random, part: Any, depth: int = 0) -> Any:
    """A value of the shape that a part of the schema asks for; now and then of another."""
    if depth > 7 or random.random() < 0.06 or not isinstance(part, dict):
        return value(random, 3)
    if "$ref" in part:
        return shaped(random, _part(part["$ref"].rpartition("/")[2]), depth)
    for key in ("oneOf", "anyOf", "allOf"):
        if key in part:
            return shaped(random, random.choice(part[key]), depth)
    if "enum" in part:
        return _copy(random.choice(part["enum"]))
    if "examples" in part and random.random() < 0.5:
        return _copy(random.choice(part["examples"]))
    kind = part.get("type", "string" if "pattern" in part else "object")
    kind = random.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        return _object(random, part, depth)
    if kind == "array":
        items = part.get("items", {})
        return [shaped(random, items, depth + 1) for _ in range(random.choice((0, 1, 2, 5)))]
    if kind in ("integer", "number"):
        return random.choice((0, 1, 3, -1, 0.5, 10**9, 10**30, part.get("maximum", 7), part.get("minimum", 7)))
    if kind == "boolean":
        return random.random() < 0.5
    return random.choice(
        (*hostile_words.EXPRESSIONS, *hostile_words.TEMPLATES, *hostile_words.NAMES, *hostile_words.NUMBERS)
    )


def _object(random: Random, part: dict[str, Any], depth: int) -> dict[str, Any]:
    known: dict[str, Any] = part.get("properties", {})
    wanted = [*part.get("required", ()), *random.sample(sorted(known), min(len(known), random.choice((1, 2, 5))))]
    found = {key: shaped(random, known.get(key, {}), depth + 1) for key in wanted}
    if not known or random.random() < 0.1:
        rest = part.get("additionalProperties")
        found[hostile_words.word(random)] = shaped(random, rest, depth + 1)
    return found


def _places(box: Any) -> Iterator[Place]:
    """Every place of a tree, the outermost first."""
    waiting = [box]
    for inner in waiting:
        for key in list(inner) if isinstance(inner, dict) else range(len(inner)):
            yield inner, key
            if isinstance(inner[key], (dict, list)) and len(waiting) < 400:
                waiting.append(inner[key])


def _copy(data: Any) -> Any:
    """Data of its own: what is changed at one place must not change at another, nor in the schema."""
    return json.loads(json.dumps(data))


def _wrapped(random: Random, inner: Any) -> Any:
    for _ in range(random.choice((1, 2, 9, 60, DEEPEST))):
        inner = [inner] if random.random() < 0.5 else {random.choice(("tasks", "loop", "a", "with", "any")): inner}
    return inner


def _altered(random: Random, text: str) -> str:
    """A text with a hostile word in it, at its ends or instead of one of its words."""
    words = text.split(" ")
    at = random.randrange(len(words))
    words[at : at + random.randrange(2)] = [hostile_words.word(random)]
    return " ".join(words)


@cache
def _schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fileio.read_data("schemas", name))
    return found


@cache
def _parts() -> dict[str, Any]:
    return _schema("project.schema.json")["definitions"] | _schema("plan.schema.json")["definitions"]


def _part(name: str) -> Any:
    return _parts().get(name, {})


def _any_part(random: Random) -> Any:
    return random.choice(list(_parts().values()))
