"""The faults of plans and settings against their published schemas, by ``jsonschema``; its errors become findings.

``WORDINGS`` has the wording of every keyword; the place is the node that the path of the error leads to. A container
behind a ``$ref`` is a part of its own, checked once for each shape: a plan of 10,000 similar tasks costs little more
than one of ten, and the depth of the stack is bounded by the schema, not by the plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

from jsonschema import Draft7Validator, ValidationError
from jsonschema.validators import extend

from planrunner.diagnostics import Diagnostic
from planrunner.fileio import read_data
from planrunner.jsontext import read_json
from planrunner.plan import wording
from planrunner.plan.lower.declarations import GATE_KEYS
from planrunner.syntax.tree import Json, Mapping, Node, Scalar, Sequence

Schema: TypeAlias = "dict[str, Any]"

MOST = 1000
"""Faults after which the check ends: to word each costs far more than to find it."""

_STRONGER = (frozenset({"gate"}), GATE_KEYS)
"""The keys that say better than another key of a gate, or than ``kind: gate``, what is wrong: one finding is enough."""


def faults(file: str, pointer: str, name: str, node: Node) -> list[Diagnostic]:
    """Every fault of a tree against a part of a published schema, in the order of the text; ``name`` is what messages
    call the tree."""
    return _file(file).faults(pointer, node, name)


class Part(NamedTuple):
    """A schema that a ``$ref`` leads to, and the file that it is in."""

    file: File
    validator: Draft7Validator


class Constraints(NamedTuple):
    """What schemas ask of texts: the searches of their patterns, the words of ``enum`` and ``const``, and the keys that
    they name. A text that differs in none of it is the same to every keyword."""

    searches: tuple[Callable[[str], object], ...]
    words: frozenset[str]
    keys: frozenset[str]


class File:
    """A file of schemas, with a validator for each part that is referred to."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._parts: dict[str, Part] = {}
        self._kind = extend(Draft7Validator, {"$ref": self._reference})

    def faults(self, pointer: str, node: Node, name: str) -> list[Diagnostic]:
        """Every fault of a tree against a part of this file, in the order of the text."""
        return _Check(self).run(self.part(pointer), node, name)

    def part(self, pointer: str) -> Part:
        """The part that a ``$ref`` leads to, ``#/definitions/task`` or ``plan.schema.json#/definitions/policy``."""
        if pointer not in self._parts:
            name, _, inside = pointer.partition("#")
            if name:
                self._parts[pointer] = _file(name).part(f"#{inside}")
            else:
                schema: Any = self.schema
                for step in filter(None, inside.split("/")):
                    schema = schema[step]
                self._parts[pointer] = Part(self, self._kind(schema))
        return self._parts[pointer]

    @cached_property
    def constraints(self) -> Constraints:
        """Those of all schemas of this file and of the files that it refers to."""
        patterns: dict[str, None] = {}
        words: set[str] = set()
        keys: set[str] = set()
        files, waiting = {self}, list[Any]([self.schema])
        while waiting:
            here = waiting.pop()
            if isinstance(here, list):
                waiting += here
            elif isinstance(here, dict):
                waiting += here.values()
                if isinstance(here.get("pattern"), str):
                    patterns[here["pattern"]] = None
                listed = here.get("enum")
                accepted = [*(listed if isinstance(listed, list) else ()), here.get("const")]
                words |= {word for word in accepted if isinstance(word, str)}
                for word in ("properties", "required"):
                    named = here.get(word)
                    keys.update(named if isinstance(named, (dict, list)) else ())
                pointer = here.get("$ref")
                if isinstance(pointer, str) and not pointer.startswith("#"):
                    other = _file(pointer.partition("#")[0])
                    if other not in files:
                        files.add(other)
                        waiting.append(other.schema)
        return Constraints(tuple(re.compile(each).search for each in patterns), frozenset(words), frozenset(keys))

    def _reference(self, _: object, pointer: str, instance: Json, __: object) -> Iterator[ValidationError]:
        """Leaves are checked at once; a container whose shape is not known to be sound is left, by an error in name
        only, to a check of its own."""
        validator = self.part(pointer).validator
        if not isinstance(instance, (_Object, _Array)):
            yield from validator.iter_errors(instance)
        elif (id(validator), instance.shape) not in instance.sound:
            yield ValidationError("a part of its own")


@lru_cache(maxsize=8)
def _file(name: str) -> File:
    return File(read_json(read_data("schemas", name)))


class _Object(dict[str, Json]):
    """The data of a mapping: ``nodes`` has the node of each value, ``sound`` the parts, each with a shape that is sound
    in it."""

    __slots__ = ("nodes", "shape", "sound")
    nodes: dict[str, Node]
    shape: int
    sound: set[tuple[int, int]]


class _Array(list[Json]):
    """The data of a sequence, with the same."""

    __slots__ = ("nodes", "shape", "sound")
    nodes: list[Node]
    shape: int
    sound: set[tuple[int, int]]


class Fault(NamedTuple):
    """An error of the validator at its place in the text: the failing keyword with its value, the schema around it,
    and the node; ``name`` is what messages call the node."""

    keyword: str
    value: Any
    schema: Schema
    node: Node
    name: str

    @property
    def title(self) -> str:
        """The name of a mapping by what it is, where the schema says so: ``a task``."""
        return wording.titled(self.schema.get("title", ""), self.name)


class _Full(Exception):
    """Ends a check; never leaves this module."""


class _Check:
    """One check of one document."""

    __slots__ = ("_asked", "_findings", "_known", "_shapes", "_sound", "_texts", "_trees")

    def __init__(self, file: File) -> None:
        self._findings: dict[Diagnostic, None] = {}
        self._asked = file.constraints
        self._shapes: dict[Any, int] = {}
        """The number of each shape: what differs between two data of one shape matters to no keyword."""
        self._texts: dict[str, int] = {}
        self._trees: dict[int, tuple[Json, int]] = {}
        """Data and shape of containers by their node; aliases share nodes."""
        self._sound: set[tuple[int, int]] = set()
        """Parts, each with a shape that is sound in it."""
        self._known: dict[tuple[int, int], bool] = {}
        """Whether a node is sound in a part: a node that aliases share is reported once."""

    def run(self, part: Part, node: Node, name: str) -> list[Diagnostic]:
        try:
            self._is_sound(part, node, name)
        except _Full:
            pass
        return sorted(self._findings, key=lambda finding: (finding.span, finding.message))

    def _is_sound(self, part: Part, node: Node, name: str) -> bool:
        data, shape = self._data(node)
        if (id(part.validator), shape) in self._sound:
            return True
        visit = (id(part.validator), id(node))
        if visit in self._known:
            return self._known[visit]
        is_sound = True
        faults = []
        for error in part.validator.iter_errors(data):
            fault = _fault(error, data, node, name)
            if error.validator == "$ref":  # at once: the next one of this shape may be known to be sound then
                is_sound = self._is_sound(part.file.part(fault.value), fault.node, fault.name) and is_sound
            else:
                faults.append(fault)
        mistyped = {id(fault.node) for fault in faults if fault.keyword == "type"}
        for fault in faults:
            if fault.keyword == "type" or id(fault.node) not in mistyped:
                for finding in WORDINGS[fault.keyword](fault):
                    self._report(finding)
        self._known[visit] = is_sound = is_sound and not faults
        if is_sound:
            self._sound.add((id(part.validator), shape))
        return is_sound

    def _report(self, finding: Diagnostic) -> None:
        if finding not in self._findings and len(self._findings) == MOST:
            message = f"more than {MOST:,} faults, the rest is not checked"
            self._findings[Diagnostic("PLAN011", message, finding.span, help="fix those first")] = None
            raise _Full
        self._findings[finding] = None

    def _data(self, node: Node) -> tuple[Json, int]:
        if isinstance(node, Scalar):
            return node.value, self._leaf(node.value)
        known = self._trees.get(id(node))
        if known is None:
            data: _Object | _Array
            shape: tuple[Any, ...]
            if isinstance(node, Sequence):
                items = [self._data(item) for item in node.items]
                data, shape = _Array([item for item, _ in items]), (None, *[shape for _, shape in items])
                data.nodes = node.items
            else:
                named = self._asked.keys
                nodes = {str(key.value): value for key, value in node.entries}
                values = [self._data(value) for value in nodes.values()]
                data = _Object(zip(nodes, [value for value, _ in values], strict=True))
                data.nodes = nodes
                shape = (tuple([key if key in named else "" for key in nodes]), *[shape for _, shape in values])
            data.shape, data.sound = self._shapes.setdefault(shape, len(self._shapes)), self._sound
            known = self._trees[id(node)] = data, data.shape
        return known

    def _leaf(self, value: Json) -> int:
        if not isinstance(value, str):
            return self._shapes.setdefault((type(value), value), len(self._shapes))
        number = self._texts.get(value)
        if number is None:
            word = value if value in self._asked.words else None
            shape = (str, word, *[test(value) is not None for test in self._asked.searches])
            number = self._texts[value] = self._shapes.setdefault(shape, len(self._shapes))
        return number


def _fault(error: ValidationError, data: Any, node: Node, name: str) -> Fault:
    """An error in ``data``, which ``node`` has and ``name`` calls, with the node that it is about and what that is
    called."""
    for step in error.relative_path:
        data, node = data[step], data.nodes[step]
    steps = list(error.relative_schema_path)
    rest = iter(steps if error.validator == "$ref" else steps[:-1])
    for word in rest:
        if word == "properties":
            name = f"`{next(rest)}`"
        elif word == "items":
            name = f"an item of {name}"
        elif word == "additionalProperties":
            name = f"a value of {name}"
        elif word == "allOf":
            next(rest)
    return Fault(str(error.validator), error.validator_value, error.schema, node, name)


def _unknown_keys(fault: Fault) -> Iterator[Diagnostic]:
    assert isinstance(fault.node, Mapping)
    known = tuple(fault.schema.get("properties", ()))
    for key, _ in fault.node.entries:
        if key.value not in known:
            yield wording.unknown_key(fault.title, key, known, fault.node)


def _missing_keys(fault: Fault) -> Iterator[Diagnostic]:
    assert isinstance(fault.node, Mapping)
    for name in fault.value:
        if fault.node.key(name) is None:
            yield wording.missing(fault.title, fault.node, name)


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


WORDINGS: dict[str, Callable[[Fault], Iterator[Diagnostic] | tuple[Diagnostic, ...]]] = {
    "type": lambda f: (wording.wrong_type(f.name, f.node, (f.value,) if isinstance(f.value, str) else tuple(f.value)),),
    "enum": lambda f: (wording.not_among(f.name, f.node, tuple(f.value)),),
    "const": lambda f: (wording.not_among(f.name, f.node, (f.value,)),),
    "pattern": lambda f: (wording.not_matching(f.name, f.node, f.schema.get("patternErrorMessage", "")),),
    "minimum": lambda f: (wording.out_of_range(f.name, f.node, f"at least {f.value}"),),
    "maximum": lambda f: (wording.out_of_range(f.name, f.node, f"at most {f.value}"),),
    "minItems": lambda f: (wording.too_few(f.name, f.node, f.value, "item"),),
    "minProperties": lambda f: (wording.too_few(f.name, f.node, f.value, "key"),),
    "maxProperties": lambda f: (wording.too_many(f.title, f.node, f.value),),
    "required": _missing_keys,
    "additionalProperties": _unknown_keys,
    "anyOf": lambda f: (wording.missing(f.title, f.node, f.value[0]["required"][0]),),
    "not": _excluded,
}
"""Each keyword that a published schema uses, with the findings of a fault against it."""
