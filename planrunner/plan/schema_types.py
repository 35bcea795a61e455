"""The parts of the schema check that look at one value: its type, its words, its pattern, its range."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Table
from typing import Any, NamedTuple, TypeAlias

from planrunner.diagnostics import Diagnostic
from planrunner.plan import wording
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

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
