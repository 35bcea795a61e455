"""The schema check: ``schemas/plan.schema.json`` compiled to functions that walk the node tree and keep exact places.

The published file is the authority; a keyword that this module does not know stops the loading of the file, so that the
two cannot drift apart. Property checks are compiled when a plan first uses the property, which keeps a short run short.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Table
from collections.abc import Sequence as Row
from typing import Any, NamedTuple, TypeAlias

from planrunner.diagnostics import Diagnostic
from planrunner.fileio import read_data
from planrunner.jsontext import read_json
from planrunner.plan import wording
from planrunner.plan.lower.declarations import GATE_KEYS
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

_ANNOTATIONS = frozenset(
    [
        "$schema",
        "title",
        "description",
        "markdownDescription",
        "default",
        "examples",
        "defaultSnippets",
        "definitions",
        "patternErrorMessage",
        "errorMessage",
        "markdownEnumDescriptions",
    ]
)
_KEYWORDS = frozenset(
    [
        "type",
        "enum",
        "const",
        "pattern",
        "minimum",
        "maximum",
        "required",
        "properties",
        "additionalProperties",
        "minProperties",
        "maxProperties",
        "items",
        "minItems",
        "allOf",
        "anyOf",
        "not",
        "if",
        "then",
        "$ref",
    ]
)
_OBJECT = ("required", "properties", "additionalProperties", "minProperties", "maxProperties")


def check(tree: Node) -> list[Diagnostic]:
    """Every fault of a plan's tree against the published schema, in the order of the walk."""
    return _faults(_plan_check(), tree)


def _faults(run: Check, node: Node) -> list[Diagnostic]:
    walk = Walk()
    try:
        run(node, walk)
    except Full:
        pass
    return walk.findings


def published() -> dict[str, Any]:
    """The published schema as data."""
    data: dict[str, Any] = read_json(read_data("schemas", "plan.schema.json"))
    return data


_compiled: list[Check] = []


def _plan_check() -> Check:
    if not _compiled:
        schema = published()
        _compiled.append(Compiler(schema).compile(schema, "the plan"))
    return _compiled[0]


_sections: dict[tuple[str, str], Check] = {}


def section_check(file: str, section: str, node: Node) -> list[Diagnostic]:
    """Every fault of one section of another file that has a published schema; a section that the schema does not know
    may hold anything."""
    if (file, section) not in _sections:
        schema = read_json(read_data("schemas", file))
        part = schema["properties"].get(section, {})
        _sections[file, section] = Compiler(schema).compile(part, f"`{section}`")
    return _faults(_sections[file, section], node)


class Compiler:
    """Turns the parts of one schema into checks. ``name`` is how messages call the value, such as ``a task``."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._references: dict[tuple[str, str], Check] = {}
        self._targets: dict[tuple[str, str], Check] = {}

    def compile(self, schema: Schema, name: str) -> Check:
        """The check of a schema; raises ValueError for a keyword it does not know."""
        unknown = schema.keys() - _KEYWORDS - _ANNOTATIONS
        if unknown:
            raise ValueError(f"the schema of {name} uses `{min(unknown)}`, which the checker does not know")
        if "$ref" in schema:
            return self._reference(schema["$ref"], name)
        return in_turn([*self._own(schema, name), *self._combined(schema, name)])

    def _reference(self, pointer: str, name: str) -> Check:
        """A check that finds its target when first used: schemas refer to themselves."""
        key = (pointer, name)
        if key not in self._references:

            def check_reference(node: Node, walk: Walk) -> None:
                target = self._targets.get(key) or self._target(pointer, name)
                target(node, walk)

            self._references[key] = check_reference
        return self._references[key]

    def _target(self, pointer: str, name: str) -> Check:
        key = (pointer, name)
        if key not in self._targets:
            file, _, inside = pointer.partition("#")
            owner = Compiler(read_json(read_data("schemas", file))) if file else self
            self._targets[key] = owner.compile(owner._resolve(f"#{inside}"), name)
        return self._targets[key]

    def compile_now(self, schema: Schema, name: str) -> Check:
        """Like ``compile``, for a value that is at hand: a reference is followed at once and costs no call later."""
        return self._target(schema["$ref"], name) if "$ref" in schema else self.compile(schema, name)

    def _resolve(self, pointer: str) -> Schema:
        found: Any = self._root
        for part in pointer.removeprefix("#/").split("/"):
            found = found[part]
        schema: Schema = found
        return schema

    def _own(self, schema: Schema, name: str) -> list[Check]:
        """What a schema says itself: one check that looks at the type first and then at what belongs to the type."""
        parts: dict[type, Check] = {}
        scalar = scalar_check(schema, name)
        if scalar is not None:
            parts[Scalar] = scalar
        if "items" in schema or "minItems" in schema:
            parts[Sequence] = self._sequence(schema, name)
        if any(key in schema for key in _OBJECT):
            parts[Mapping] = self._mapping(schema, name)
        if words := words_of(schema):
            parts[Sequence] = parts[Mapping] = enumerated(words, name)
        if "type" in schema:
            return [typed(types_of(schema), name, parts)]
        return [by_kind(parts)] if parts else []

    def _sequence(self, schema: Schema, name: str) -> Check:
        least = schema.get("minItems", 0)
        compiled: list[Check] = []

        def item_check() -> Check:
            if not compiled:
                compiled.append(self.compile_now(schema["items"], f"an item of {name}"))
            return compiled[0]

        def check_sequence(node: Node, walk: Walk) -> None:
            items = node.items  # type: ignore[union-attr]
            if len(items) < least:
                walk.findings.append(wording.too_few(name, node, least, "item"))
            if items and "items" in schema and _first_visit(node, walk, check_sequence):
                item = item_check()
                for each in items:
                    item(each, walk)

        return check_sequence

    def _mapping(self, schema: Schema, name: str) -> Check:
        return _MappingCheck(self, schema, name).run

    def _combined(self, schema: Schema, name: str) -> list[Check]:
        """``allOf``, ``anyOf``, ``not``, ``if``: choices by a constant and exclusions of keys become tables."""
        branches = [schema, *schema.get("allOf", ())]
        checks: list[Check] = [self.compile(part, name) for part in branches[1:] if not _special(part)]
        title = wording.titled(schema.get("title", ""), name)
        checks += [self._alternatives(part["anyOf"], title) for part in branches if "anyOf" in part]
        refused = [part["not"] for part in branches if "not" in part]
        if pairs := [tuple(part["required"]) for part in refused if "required" in part]:
            checks.append(exclusions(pairs))
        checks += [both_groups(part["allOf"]) for part in refused if "allOf" in part]
        conditions = [part for part in branches if "if" in part]
        choices = [part for part in conditions if _choice(part["if"])]
        if choices:
            checks.append(self._choices(choices, name))
        checks += [self._condition(part, name) for part in conditions if not _choice(part["if"])]
        return checks

    def _alternatives(self, branches: Row[Schema], name: str) -> Check:
        """``anyOf`` over required keys: one of several names must be there."""
        names = [branch["required"][0] for branch in branches if list(branch) == ["required"]]
        if len(names) != len(branches):
            raise ValueError(f"the schema of {name} uses `anyOf` for something else than required keys")

        def check_alternatives(node: Node, walk: Walk) -> None:
            if isinstance(node, Mapping) and not any(node.key(each) for each in names):
                walk.findings.append(wording.missing(name, node, names[0]))

        return check_alternatives

    def _choices(self, parts: Row[Schema], name: str) -> Check:
        table: dict[tuple[Any, Any], Check] = {}
        for part in parts:
            ((key, value),) = part["if"]["properties"].items()
            table[key, value["const"]] = self.compile(part["then"], name)
        keys = sorted({key for key, _ in table})

        def check_choices(node: Node, walk: Walk) -> None:
            if not isinstance(node, Mapping):
                return
            names = walk.names(node)
            for key in keys:
                if key in names:
                    value = node.entries[names.index(key)][1]
                    then = table.get((key, value.value)) if isinstance(value, Scalar) else None
                    if then is not None:
                        then(node, walk)

        return check_choices

    def _condition(self, part: Schema, name: str) -> Check:
        condition, then = self.compile(part["if"], name), self.compile(part["then"], name)

        def check_condition(node: Node, walk: Walk) -> None:
            trial = Walk()
            condition(node, trial)
            if not trial.findings:
                then(node, walk)

        return check_condition


class _MappingCheck:
    """The check of a mapping: known keys, required keys, number of keys. Property checks are compiled on first use."""

    __slots__ = ("_checks", "_compiler", "_counted", "_idle", "_keys", "_name", "_required", "_schema", "_title")

    def __init__(self, compiler: Compiler, schema: Schema, name: str) -> None:
        self._compiler = compiler
        self._schema = schema
        self._name = name
        self._title = wording.titled(schema.get("title", ""), name)
        self._required = tuple(schema.get("required", ()))
        self._keys = schema.get("properties", {})
        self._checks: dict[Any, Check] = {}
        self._counted: set[tuple[Any, ...]] = set()
        """The keys of mappings that have what they need: tasks of a plan are much alike."""
        self._idle: set[tuple[Any, ...]] = set()
        """Those of them whose values need no look at all."""

    def run(self, node: Node, walk: Walk) -> None:
        if not isinstance(node, Mapping) or (node.anchor and not _first_visit(node, walk, self)):
            return
        names = walk.names(node)
        if names in self._idle:
            return
        checks = self._checks
        merged, idle = bool(node.merged), True
        for key, value in node.entries:
            found = checks.get(key.value) or self._compile(key.value)
            if found is nothing:
                continue
            idle = False
            if found is _refuse:
                walk.findings.append(wording.unknown_key(self._title, key, tuple(self._keys), node))
            elif not merged or _first_visit(value, walk, found, merged=True):
                found(value, walk)
        if names not in self._counted:
            self._count(node, names, walk, idle)

    def _count(self, node: Mapping, names: tuple[Any, ...], walk: Walk, idle: bool) -> None:
        known = len(walk.findings)
        for name in self._required:
            if name not in names:
                walk.findings.append(wording.missing(self._title, node, name))
        least, most = self._schema.get("minProperties", 0), self._schema.get("maxProperties")
        if len(node.entries) < least:
            walk.findings.append(wording.too_few(self._name, node, least, "key"))
        if most is not None and len(node.entries) > most:
            walk.findings.append(wording.too_many(self._title, node, most))
        if len(walk.findings) == known and len(self._counted) < REMEMBERED:
            self._counted.add(names)
            if idle:
                self._idle.add(names)

    def _compile(self, key: Any) -> Check:
        rest = self._schema.get("additionalProperties", True)
        if key in self._keys:
            found = self._compiler.compile_now(self._keys[key], f"`{key}`")
        elif isinstance(rest, bool):
            found = nothing if rest else _refuse
        else:
            found = self._compiler.compile_now(rest, f"a value of {self._name}")
        self._checks[key] = found
        return found


def _refuse(node: Node, walk: Walk) -> None:
    """Stands in the table of a mapping for a key that it does not have; never called."""


def _first_visit(node: Node, walk: Walk, by: object, merged: bool = False) -> bool:
    """Whether a node that several places share (by an anchor or a merge key) is new to this check."""
    if not node.anchor and not merged:
        return True
    key = (id(node), id(by))
    if key in walk.seen:
        return False
    walk.seen.add(key)
    return True


def _special(part: Schema) -> bool:
    return "not" in part or "anyOf" in part or "if" in part


def _choice(condition: Schema) -> bool:
    """Whether an ``if`` asks only for one constant under one required key."""
    properties = condition.get("properties", {})
    return (
        condition.keys() == {"properties", "required"}
        and len(properties) == 1
        and all(value.keys() == {"const"} and isinstance(value["const"], str) for value in properties.values())
    )


Schema: TypeAlias = "Table[str, Any]"


REMEMBERED = 16384
"""How many values or shapes of mappings a check remembers as sound, for plans repeat themselves."""


MOST = 1000
"""Faults against the schema after which nobody looks for more: to word each costs far more than to find it."""


class Full(Exception):
    """Ends a check; never leaves this room."""


class _Faults(list):  # type: ignore[type-arg]
    """Findings up to ``MOST``; raises Full with one more."""

    def append(self, finding: Diagnostic) -> None:
        if len(self) == MOST:
            message = f"there are {MOST:,} faults before this one, and the rest is not looked at"
            super().append(Diagnostic("PLAN011", message, finding.span, help="mend those first"))
            raise Full
        super().append(finding)


class Walk:
    """The state of one check: what was found, and which shared nodes are done."""

    __slots__ = ("_named", "_names", "findings", "seen")

    def __init__(self) -> None:
        self.findings: list[Diagnostic] = _Faults()
        self.seen: set[tuple[int, int]] = set()
        self._named: Mapping | None = None
        self._names: tuple[Any, ...] = ()

    def names(self, node: Mapping) -> tuple[Any, ...]:
        """The keys of a mapping; several checks look at the same mapping one after the other."""
        if node is not self._named:
            self._named, self._names = node, tuple([key.value for key, _ in node.entries])
        return self._names


Check = Callable[[Node, Walk], None]


class _Range(NamedTuple):
    minimum: float | None
    maximum: float | None


def in_turn(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]
    if not checks:
        return nothing

    def check_all(node: Node, walk: Walk) -> None:
        for each in checks:
            each(node, walk)

    return check_all


def nothing(node: Node, walk: Walk) -> None:
    """Whatever the schema says nothing about."""


def types_of(schema: Schema) -> tuple[str, ...]:
    declared = schema["type"]
    return (declared,) if isinstance(declared, str) else tuple(declared)


_CLASSES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def typed(types: tuple[str, ...], name: str, parts: dict[type, Check]) -> Check:
    """The type first: of a value of the wrong type nothing else is said."""
    values = frozenset(kind for each in types for kind in _CLASSES.get(each, ()))
    whole_floats = "integer" in types and "number" not in types
    containers: dict[type, bool] = {Sequence: "array" in types, Mapping: "object" in types}
    scalar = parts.get(Scalar)
    sound: set[Any] = set()

    def check_type(node: Node, walk: Walk) -> None:
        kind = node.__class__
        if kind is Scalar:
            value = node.value  # type: ignore[union-attr]
            if value in sound:
                return
            if value.__class__ in values or (whole_floats and isinstance(value, float) and value.is_integer()):
                if scalar is not None:
                    known = len(walk.findings)
                    scalar(node, walk)
                    if value.__class__ is str and len(walk.findings) == known and len(sound) < REMEMBERED:
                        sound.add(value)  # text alone: a one is equal to a true
                return
        elif containers[kind]:
            part = parts.get(kind)
            if part is not None:
                part(node, walk)
            return
        walk.findings.append(wording.wrong_type(name, node, types))

    return check_type


def by_kind(parts: dict[type, Check]) -> Check:
    def check_kind(node: Node, walk: Walk) -> None:
        part = parts.get(node.__class__)
        if part is not None:
            part(node, walk)

    return check_kind


def scalar_check(schema: Schema, name: str) -> Check | None:
    """The limits on a leaf: enumerated words, a constant, a pattern for text, a range for numbers."""
    checks: list[Check] = []
    if words := words_of(schema):
        checks.append(enumerated(words, name))
    if "pattern" in schema:
        checks.append(_patterned(schema["pattern"], schema.get("patternErrorMessage", ""), name))
    if "minimum" in schema or "maximum" in schema:
        checks.append(_ranged(_Range(schema.get("minimum"), schema.get("maximum")), name))
    return in_turn(checks) if checks else None


def words_of(schema: Schema) -> tuple[Any, ...]:
    """The values of ``enum`` or ``const``: all of them leaves."""
    return tuple(schema["enum"]) if "enum" in schema else (schema["const"],) if "const" in schema else ()


def enumerated(words: tuple[Any, ...], name: str) -> Check:
    allowed = frozenset((isinstance(word, bool), word) for word in words)

    def check_words(node: Node, walk: Walk) -> None:
        if not isinstance(node, Scalar) or (isinstance(node.value, bool), node.value) not in allowed:
            walk.findings.append(wording.not_among(name, node, words))

    return check_words


def _patterned(pattern: str, message: str, name: str) -> Check:
    search = re.compile(pattern).search

    def check_pattern(node: Node, walk: Walk) -> None:
        value = node.value  # type: ignore[union-attr]
        if isinstance(value, str) and not search(value):
            walk.findings.append(wording.not_matching(name, node, message))

    return check_pattern


def _ranged(limits: _Range, name: str) -> Check:
    def check_range(node: Node, walk: Walk) -> None:
        value = node.value  # type: ignore[union-attr]
        if isinstance(value, str | bool | None):
            return
        if limits.minimum is not None and value < limits.minimum:
            walk.findings.append(wording.out_of_range(name, node, f"at least {limits.minimum}"))
        if limits.maximum is not None and value > limits.maximum:
            walk.findings.append(wording.out_of_range(name, node, f"at most {limits.maximum}"))

    return check_range


_STRONGER = (frozenset({"gate"}), GATE_KEYS)
"""The keys that say better than another key of a gate, or than ``kind: gate``, what is wrong: one finding is enough."""


def exclusions(pairs: list[tuple[Any, ...]]) -> Check:
    """``not`` over two required keys: each pair that stands together is a finding."""
    partners: dict[str, list[str]] = {}
    for first, second in pairs:
        partners.setdefault(second, []).append(first)
    harmless: set[tuple[Any, ...]] = set()

    def check_exclusions(node: Node, walk: Walk) -> None:
        if not isinstance(node, Mapping):
            return
        names = walk.names(node)
        if names in harmless:
            return
        known = len(walk.findings)
        report(node, {str(name) for name in names}, walk)
        if len(walk.findings) == known and len(harmless) < REMEMBERED:
            harmless.add(names)

    def report(node: Mapping, present: set[str], walk: Walk) -> None:
        for second in sorted(present & partners.keys()):
            for first in partners[second]:
                if first in present:
                    walk.findings.append(wording.conflict(node, first, second))

    return check_exclusions


def both_groups(groups: list[Schema]) -> Check:
    """``not`` over two groups of keys: those that make a task a gate, and those that say what it does."""
    gate, action = ([each["required"][0] for each in group["anyOf"]] for group in groups)
    harmless: set[tuple[Any, ...]] = set()

    def check_groups(node: Node, walk: Walk) -> None:
        if not isinstance(node, Mapping):
            return
        names = walk.names(node)
        if names in harmless:
            return
        key = next((each for each, _ in node.entries if each.value in gate), None)
        there = {str(each.value): each for each, _ in node.entries}
        acts = next((there[name] for name in action if name in there), None)
        if key is not None and acts is not None:
            what = f"`{key.value}`" if key.value != "kind" else "`kind: gate`"
            if there.keys().isdisjoint(_STRONGER[key.value == "kind"]):
                walk.findings.append(wording.makes_a_gate(what, key.span, str(acts.value), acts.span))
        elif len(harmless) < REMEMBERED:
            harmless.add(names)

    return check_groups
