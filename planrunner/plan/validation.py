"""The faults of plans and settings against their published schemas, by ``jsonschema``; its errors become findings.

``WORDINGS`` has the wording of every keyword; the place is the node that the path of the error leads to.
``jsonschema`` takes a millisecond for a task: it is shown no items of lists that ``jsonschema_rs`` has found sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

from jsonschema import Draft7Validator, ValidationError
from jsonschema.validators import extend

from planrunner.diagnostics import Diagnostic
from planrunner.fileio import read_data
from planrunner.jsontext import read_json
from planrunner.plan import wording
from planrunner.plan.lower.declarations import GATE_KEYS
from planrunner.plan.sections import PLAN, PROJECT, Schema, sections_with
from planrunner.syntax.tree import Json, Mapping, Node, Sequence, to_json

Path: TypeAlias = "Iterable[str | int]"

MOST = 1000
"""Faults after which the check ends."""

_STRONGER = (frozenset({"gate"}), GATE_KEYS)
"""The keys that say better than another key of a gate, or than ``kind: gate``, what is wrong: one finding is enough."""


def faults(address: str, name: str, node: Node, unsound: list[Path] | None = None) -> list[Diagnostic]:
    """Every fault of a tree against a part of a published schema, in the order of the text.

    ``address`` is ``plan.schema.json#/definitions/task``, ``name`` what messages call the tree. ``unsound`` are paths
    to all faults, or to more than ``MOST`` of them, where they are known.
    """
    if unsound is not None:
        node = _narrowed(node, _branches(unsound))
    held: dict[int, dict[str, Node]] = {}
    problems = [_fault(error, node, name, held) for error in _part(address).iter_errors(to_json(node))]
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


def _narrowed(node: Node, branches: _Branches | None) -> Node:
    """The tree without the items of lists that no path leads through, but one of each list."""
    if branches is None:
        return node
    if isinstance(node, Sequence):
        kept = [_narrowed(item, branches[at]) for at, item in enumerate(node.items) if at in branches]
        return Sequence(kept or node.items[:1], node.start, node.end, node.flow)
    if isinstance(node, Mapping):
        entries = [(key, _narrowed(value, branches.get(str(key.value), {}))) for key, value in node.entries]
        return Mapping(entries, node.start, node.end, node.flow)
    return node


@cache
def _part(address: str) -> Draft7Validator:
    """The validator of a part of a schema; a ``$ref`` in it leads to another part, of its own file or of another."""
    file, _, pointer = address.partition("#")
    schema: Any = _file(file)
    for step in filter(None, pointer.split("/")):
        schema = schema[step]

    def reference(_: object, target: str, instance: Json, __: object) -> Iterator[ValidationError]:
        yield from _part(file + target if target.startswith("#") else target).iter_errors(instance)

    validator: Draft7Validator = extend(Draft7Validator, {"$ref": reference})(schema)
    return validator


@cache
def _file(name: str) -> Schema:
    schema: Schema = read_json(read_data("schemas", name))
    return schema


class Fault(NamedTuple):
    """An error of the validator at its place in the text: the failing keyword with its value, the schema around it,
    and the node; ``name`` is what messages call the node, ``meant`` are the keys that it has misspelt."""

    keyword: str
    value: Any
    schema: Schema
    node: Node
    name: str
    meant: frozenset[str | None] = frozenset()

    @property
    def title(self) -> str:
        """The name of a mapping by what it is, where the schema says so: ``a task``."""
        return wording.titled(self.schema.get("title", ""), self.name)


def _fault(error: ValidationError, node: Node, name: str, held: dict[int, dict[str, Node]]) -> Fault:
    """An error in the data of ``node``, which ``name`` calls, with the node that it is about and its name. ``held``
    keeps what mappings hold by key: a large one with many errors is read once."""
    for step in error.absolute_path:
        if isinstance(node, Sequence):
            node = node.items[int(step)]
        else:
            assert isinstance(node, Mapping)
            if id(node) not in held:
                held[id(node)] = {str(key.value): value for key, value in reversed(node.entries)}
            node = held[id(node)][str(step)]
    steps = iter(list(error.absolute_schema_path)[:-1])
    for word in steps:
        if word == "properties":
            name = f"`{next(steps)}`"
        elif word == "items":
            name = f"an item of {name}"
        elif word == "additionalProperties":
            name = f"a value of {name}"
        elif word == "allOf":
            next(steps)
    return Fault(str(error.validator), error.validator_value, error.schema, node, name)


def _unknown_keys(fault: Fault) -> Iterator[Diagnostic]:
    assert isinstance(fault.node, Mapping)
    known = tuple(fault.schema.get("properties", ()))
    for key, value in fault.node.entries:
        if key.value not in known:
            under = sections_with(wording.inner_name(str(key.value)), fault.schema, _file)
            takes = partial(_takes, fault.schema, value)
            found = wording.unknown_key(fault.title, key, known, fault.node, under, takes)
            known_here = found.fix or "did you mean" in found.message or "belongs under" in found.help
            told = "" if known_here else _elsewhere(fault.title, str(key.value))
            yield found._replace(help=told) if told else found


def _elsewhere(title: str, name: str) -> str:
    """Where a key stands that the plan, a task or its defaults have not; empty for one that is known nowhere."""
    plan = _file(PLAN)
    keys = {"the plan": plan["properties"], "a task": plan["definitions"]["task"]["properties"]}
    keys["`defaults`"] = plan["definitions"]["defaults"]["properties"]
    if title not in keys:
        return ""
    places = [place for place, known in keys.items() if name in known]
    if places:
        return f"it is a key of {' and of '.join(places)}"
    return "it is a key of planrunner.yaml, for the whole project" if name in _file(PROJECT)["properties"] else ""


def _takes(schema: Schema, value: Node, key: str) -> bool:
    """Whether a value may stand under a key as it is, faults inside it aside."""
    errors = _ANYWHERE(schema["properties"][key]).iter_errors(to_json(value))
    return all(error.absolute_path for error in errors)


def _referred(_: object, target: str, instance: Json, __: object) -> Iterator[ValidationError]:
    """What a ``$ref`` demands; without a file the part is looked up in both schemas."""
    file, _, pointer = target.partition("#")
    for name in [file] if file else [PLAN, PROJECT]:
        if not file and pointer.split("/")[-1] not in _file(name).get("definitions", {}):
            continue
        yield from _part(f"{name}#{pointer}").iter_errors(instance)
        return


_ANYWHERE: Any = extend(Draft7Validator, {"$ref": _referred})


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
    "minProperties": lambda f: (wording.too_few(f.name, f.node, f.value, "key"),),
    "maxProperties": lambda f: (wording.too_many(f.title, f.node, f.value),),
    "required": _missing_keys,
    "additionalProperties": _unknown_keys,
    "anyOf": _none_of,
    "not": _excluded,
}
"""Each keyword that a published schema uses, with the findings of a fault against it."""
