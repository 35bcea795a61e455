"""The faults of plans and settings against their published schemas, each at its node.

``WORDINGS`` has the finding for every keyword. A task takes a fifth of a millisecond: items of lists that a quicker
validator has found sound are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, TypeAlias

from planrunner.diagnostics import Diagnostic
from planrunner.fileio import read_data
from planrunner.jsontext import read_json
from planrunner.plan import wording
from planrunner.plan.keys import named
from planrunner.plan.sections import PLAN, PROJECT, Schema, sections_with
from planrunner.records import Struct
from planrunner.syntax.tree import Json, Mapping, Node, Scalar, Sequence, to_json

Path: TypeAlias = "Iterable[str | int]"

MOST = 1000
"""Faults after which the check ends."""

_STRONGER = (frozenset({"gate"}), named("gate"))
"""The keys that say better than another key of a gate, or than ``kind: gate``, what is wrong: one finding is enough."""


def faults(address: str, name: str, node: Node, unsound: list[Path] | None = None) -> list[Diagnostic]:
    """Every fault of a tree against a part of a published schema, in the order of the text.

    ``address`` is ``plan.schema.json#/definitions/task``, ``name`` what messages call the tree. ``unsound`` are paths
    to all faults, or to more than ``MOST`` of them, where they are known.
    """
    file, schema = _part(address, "")
    problems = [*_faults(schema, node, name, file, _branches(unsound) if unsound is not None else None)]
    mistyped = {(fault.node.start, fault.node.end) for fault in problems if fault.keyword == "type"}
    meant = {fault.node.start: _meant(fault) for fault in problems if fault.keyword == "additionalProperties"}
    findings: dict[Diagnostic, None] = {}
    seen: set[tuple[str, int, int, int]] = set()
    for fault in problems:
        place = (fault.node.start, fault.node.end)
        visit = (fault.keyword, *place, id(fault.schema))
        if visit in seen or (place in mistyped and fault.keyword != "type"):
            continue  # of a node that aliases share each fault is reported once
        seen.add(visit)
        fault = fault._replace(meant=meant.get(fault.node.start, frozenset()))
        findings |= dict.fromkeys(WORDINGS[fault.keyword](fault))
    listed = sorted(findings, key=lambda finding: (finding.span, finding.message))
    if len(listed) <= MOST:
        return listed
    message = f"more than {MOST:,} faults, the rest is not checked"
    return [*listed[:MOST], Diagnostic("PLAN011", message, listed[MOST].span, help="fix those first")]


_Branches: TypeAlias = "dict[str | int, _Branches | None]"
"""Paths by their steps; None where one ends."""


def _branches(paths: list[Path]) -> _Branches | None:
    root: _Branches = {}
    for path in paths:
        if not (steps := list(path)):
            return None
        here: _Branches | None = root
        for step in steps[:-1]:
            here = here.setdefault(step, {}) if here is not None else None
        if here is not None:
            here[steps[-1]] = None
    return root


@cache
def _part(target: str, file: str) -> tuple[str, Schema]:
    """The file and the part of it that a ``$ref`` in a file leads to."""
    other, _, pointer = target.partition("#")
    schema: Any = read_schema(other or file)
    for step in filter(None, pointer.split("/")):
        schema = schema[step]
    return other or file, schema


@cache
def read_schema(file: str) -> Schema:
    """A published schema as data."""
    schema: Schema = read_json(read_data("schemas", file))
    return schema


class Fault(Struct):
    """What is wrong with a node: the failing keyword with its value, and the schema around it with its file; ``name``
    is what messages call the node, ``meant`` are the keys that it has misspelt."""

    keyword: str
    value: Any
    schema: Schema
    node: Node
    name: str
    file: str
    meant: frozenset[str | None] = frozenset()

    @property
    def title(self) -> str:
        """The name of a mapping by what it is, where the schema says so: ``a task``."""
        return wording.titled(self.schema.get("title", ""), self.name)


def _faults(schema: Schema, node: Node, name: str, file: str, within: _Branches | None = None) -> Iterator[Fault]:
    """Each fault of a node, which messages call ``name``, against a part of a file's schema. Items of lists that
    ``within`` does not lead through are sound."""
    while (target := schema.get("$ref")) is not None:
        file, schema = _part(target, file)
    properties = schema.get("properties", {})
    for keyword, value in schema.items():
        if keyword == "allOf":
            for part in value:
                yield from _faults(part, node, name, file, within)
        elif keyword == "anyOf":
            if not any(_fits(part, node, file) for part in value):
                yield Fault(keyword, value, schema, node, name, file)
        elif keyword == "not":
            if _fits(value, node, file):
                yield Fault(keyword, value, schema, node, name, file)
        elif keyword == "if":
            part = schema.get("then" if _fits(value, node, file) else "else", {})
            yield from _faults(part, node, name, file, within)
        elif keyword == "items":
            for at, item in enumerate(node.items if isinstance(node, Sequence) else ()):
                if within is None or at in within:
                    yield from _faults(value, item, f"an item of {name}", file, _inside(within, at))
        elif keyword == "additionalProperties" and isinstance(node, Mapping):
            others = [(str(key.value), inner) for key, inner in node.entries if str(key.value) not in properties]
            if value is False and others:
                yield Fault(keyword, value, schema, node, name, file)
            for word, inner in others if value else ():
                yield from _faults(value, inner, f"a value of {name}", file, _inside(within, word))
        elif (holds := CHECKS.get(keyword)) is not None and not holds(value, node):
            yield Fault(keyword, value, schema, node, name, file)
    if properties and isinstance(node, Mapping):
        for key, inner in node.entries:
            if (part := properties.get(word := str(key.value))) is not None:
                yield from _faults(part, inner, f"`{word}`", file, _inside(within, word))


def _inside(within: _Branches | None, step: str | int) -> _Branches | None:
    return None if within is None else within.get(step, {})


def _fits(schema: Schema, node: Node, file: str) -> bool:
    return next(_faults(schema, node, "", file), None) is None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Node, object], bool]] = {
    "object": lambda node, _: isinstance(node, Mapping),
    "array": lambda node, _: isinstance(node, Sequence),
    "string": lambda _, value: isinstance(value, str),
    "boolean": lambda _, value: isinstance(value, bool),
    "null": lambda node, value: value is None and isinstance(node, Scalar),
    "number": lambda _, value: _is_number(value),
    "integer": lambda _, value: _is_number(value) and value == value // 1,  # type: ignore[operator]
}


def _is_of_type(names: str | list[str], node: Node) -> bool:
    value = _value(node)
    return any(_TYPES[name](node, value) for name in ([names] if isinstance(names, str) else names))


def _value(node: Node) -> Any:
    """The value of a scalar; None for a list and a mapping."""
    return node.value if isinstance(node, Scalar) else None


def _same(one: Json, other: Json) -> bool:
    """Whether two values are equal; ``true`` is not 1."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _are_unique(node: Sequence) -> bool:
    plain = [(isinstance(item.value, bool), item.value) for item in node.items if isinstance(item, Scalar)]
    nested = [to_json(item) for item in node.items if not isinstance(item, Scalar)]
    twice = any(_same(value, other) for at, value in enumerate(nested) for other in nested[:at])
    return len(set(plain)) == len(plain) and not twice


CHECKS: dict[str, Callable[[Any, Node], bool]] = {
    "type": _is_of_type,
    "enum": lambda values, node: any(_same(value, to_json(node)) for value in values),
    "const": lambda value, node: _same(value, to_json(node)),
    "pattern": lambda text, node: not isinstance(_value(node), str) or re.search(text, _value(node)) is not None,
    "minimum": lambda least, node: not _is_number(_value(node)) or _value(node) >= least,
    "maximum": lambda most, node: not _is_number(_value(node)) or _value(node) <= most,
    "exclusiveMinimum": lambda bound, node: not _is_number(_value(node)) or _value(node) > bound,
    "uniqueItems": lambda wanted, node: not (wanted and isinstance(node, Sequence)) or _are_unique(node),
    "minLength": lambda least, node: not isinstance(_value(node), str) or len(_value(node)) >= least,
    "minItems": lambda least, node: not isinstance(node, Sequence) or len(node.items) >= least,
    "maxItems": lambda most, node: not isinstance(node, Sequence) or len(node.items) <= most,
    "minProperties": lambda least, node: not isinstance(node, Mapping) or len(node.entries) >= least,
    "maxProperties": lambda most, node: not isinstance(node, Mapping) or len(node.entries) <= most,
    "required": lambda names, node: not isinstance(node, Mapping) or all(map(node.key, names)),
}
"""Whether what a keyword of a published schema demands of a node holds; ``_faults`` has those that lead on."""


def _unknown_keys(fault: Fault) -> Iterator[Diagnostic]:
    assert isinstance(fault.node, Mapping)
    known = tuple(fault.schema.get("properties", ()))
    for key, value in fault.node.entries:
        if key.value not in known:
            under = sections_with(wording.inner_name(str(key.value)), fault.schema, read_schema)
            takes = partial(_takes, fault, value)
            found = wording.unknown_key(fault.title, key, known, fault.node, under, takes)
            known_here = found.fix or "did you mean" in found.message or "belongs under" in found.help
            told = "" if known_here else _elsewhere(fault.title, str(key.value))
            yield found._replace(help=told) if told else found


def _elsewhere(title: str, name: str) -> str:
    """Where a key stands that the plan, a task or its defaults have not; empty for one that is known nowhere."""
    plan = read_schema(PLAN)
    keys = {"the plan": plan["properties"], "a task": plan["definitions"]["task"]["properties"]}
    keys["`defaults`"] = plan["definitions"]["defaults"]["properties"]
    if title not in keys:
        return ""
    places = [place for place, known in keys.items() if name in known]
    if places:
        return f"it is a key of {' and of '.join(places)}"
    return "it is a key of planrunner.yaml, for the whole project" if name in read_schema(PROJECT)["properties"] else ""


def _takes(fault: Fault, value: Node, key: str) -> bool:
    """Whether a value may stand under a key as it is, faults inside it aside."""
    inner = _faults(fault.schema["properties"][key], value, "", fault.file)
    return all(each.node is not value for each in inner)


def _missing_keys(fault: Fault) -> Iterator[Diagnostic]:
    assert isinstance(fault.node, Mapping)
    for name in fault.value:
        if fault.node.key(name) is None and name not in fault.meant:
            yield wording.missing(fault.title, fault.node, name)


def _meant(fault: Fault) -> frozenset[str | None]:
    """The keys that are misspelt, as they were meant: they are not missing as well."""
    known = tuple(fault.schema.get("properties", ()))
    if not isinstance(fault.node, Mapping):
        return frozenset()
    keys = fault.node.entries
    return frozenset(wording.meant_key(str(key.value), known, fault.node) for key, _ in keys if key.value not in known)


def _excluded(fault: Fault) -> Iterator[Diagnostic]:
    """Two keys that exclude each other, or a key that makes a task a gate beside one that says what it does."""
    assert isinstance(fault.node, Mapping)
    if "required" in fault.value:
        yield wording.conflict(fault.node, *fault.value["required"])
        return
    gate, action = ([each["required"][0] for each in group["anyOf"]] for group in fault.value["allOf"])
    keys = {str(key.value): key for key, _ in fault.node.entries}
    key = next(key for name, key in keys.items() if name in gate)
    if keys.keys().isdisjoint(_STRONGER[key.value == "kind"]):
        act = next(keys[name] for name in action if name in keys)
        what = f"`{key.value}`" if key.value != "kind" else "`kind: gate`"
        yield wording.makes_a_gate(what, key.span, str(act.value), act.span)


def _none_of(fault: Fault) -> Iterator[Diagnostic]:
    """None of several alternatives fits: one of these keys, or one of these types, has to be there."""
    if "required" in fault.value[0]:
        if fault.meant.isdisjoint(each["required"][0] for each in fault.value):
            yield wording.missing(fault.title, fault.node, fault.value[0]["required"][0])
        return
    types = tuple(each.get("type", "object") for each in fault.value)
    yield wording.wrong_type(fault.name, fault.node, types)


WORDINGS: dict[str, Callable[[Fault], Iterator[Diagnostic] | tuple[Diagnostic, ...]]] = {
    "type": lambda f: (wording.wrong_type(f.name, f.node, (f.value,) if isinstance(f.value, str) else tuple(f.value)),),
    "enum": lambda f: (wording.not_among(f.name, f.node, tuple(f.value)),),
    "const": lambda f: (wording.not_among(f.name, f.node, (f.value,)),),
    "pattern": lambda f: (wording.not_matching(f.name, f.node, f.value, f.schema.get("patternErrorMessage", "")),),
    "minimum": lambda f: (wording.out_of_range(f.name, f.node, f"at least {f.value}"),),
    "maximum": lambda f: (wording.out_of_range(f.name, f.node, f"at most {f.value}"),),
    "exclusiveMinimum": lambda f: (wording.out_of_range(f.name, f.node, f"more than {f.value}"),),
    "uniqueItems": lambda f: (wording.twice(f.name, f.node),),
    "minLength": lambda f: (wording.too_few(f.name, f.node, f.value, "character"),),
    "minItems": lambda f: (wording.too_few(f.name, f.node, f.value, "item"),),
    "maxItems": lambda f: (wording.too_many(f.name, f.node, f.value, "item"),),
    "minProperties": lambda f: (wording.too_few(f.name, f.node, f.value, "key"),),
    "maxProperties": lambda f: (wording.too_many(f.title, f.node, f.value, "key"),),
    "required": _missing_keys,
    "additionalProperties": _unknown_keys,
    "anyOf": _none_of,
    "not": _excluded,
}
"""Each keyword that a published schema uses, with the findings of a fault against it."""
