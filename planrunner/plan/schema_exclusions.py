"""The part of the schema check that knows which keys may not stand together."""

from __future__ import annotations

from typing import Any

from planrunner.plan import wording
from planrunner.plan.lower_gate import GATE_KEYS
from planrunner.plan.schema_types import REMEMBERED, Check, Schema, Walk
from planrunner.syntax.tree import Mapping, Node

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
