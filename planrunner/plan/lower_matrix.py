"""The values of a matrix as they are written: entries that fit none of its combinations, numbers that lose a digit."""

from __future__ import annotations

import re
from typing import Any

from planrunner.diagnostics import Diagnostic, Edit, Fix
from planrunner.plan import lower_values as values
from planrunner.plan.expressions.values import shown
from planrunner.plan.lower_values import Lowering
from planrunner.plan.nearest import nearest
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

Json = Any

_ENDS_IN_ZERO = re.compile(r"[-+]?[0-9]*\.[0-9]*0")
_KINDS = {bool: "boolean", int: "number", float: "number", str: "text"}
_SHOWN = 8


def check_numbers(low: Lowering, node: Node) -> None:
    """Numbers that lose the last digit of their text: ``3.10`` is a version and reads as 3.1."""
    waiting: list[Node] = [node]
    for each in waiting:
        if isinstance(each, Mapping):
            waiting += [value for _, value in each.entries]
        elif isinstance(each, Sequence):
            waiting += each.items
        elif _loses_a_digit(each):
            fix = Fix("quote it", (Edit(each.span, f'"{each.raw}"'),), safe=False)
            message = f"`{each.raw}` reads as the number {each.value}"
            help_ = f'quote it, "{each.raw}", or write {each.value}'
            low.findings.append(Diagnostic("PLAN010", message, each.span, help=help_, fix=fix))


def _loses_a_digit(node: Scalar) -> bool:
    found = isinstance(node.value, float) and _ENDS_IN_ZERO.fullmatch(node.raw) is not None
    return found and str(node.value) != node.raw


def check_patterns(low: Lowering, matrix: Node | None) -> None:
    """Entries of ``exclude`` and ``include`` that are meant to fit combinations and fit none."""
    if not isinstance(matrix, Mapping):
        return
    axes = {str(key.value): value for key, value in matrix.entries if key.value not in ("include", "exclude")}
    for name in ("exclude", "include"):
        entries = matrix.get(name)
        for item in entries.items if isinstance(entries, Sequence) else ():
            for key, value in item.entries if isinstance(item, Mapping) else ():
                axis = str(key.value)
                if axis in axes:
                    _check_value(low, (name, axis), value, axes[axis])
                elif name == "exclude":
                    message = f"this entry leaves nothing out: the matrix has no axis `{axis}`"
                    listed = ", ".join(sorted(axes)[:_SHOWN])
                    low.report("PLAN006", message, key.span, f"its axes are {listed}" if axes else "")


def _check_value(low: Lowering, place: tuple[str, str], node: Node, axis: Node) -> None:
    """A value that its axis, where that is written out, does not have. An entry of ``include`` may bring a value of its
    own, but not one that only differs in its kind."""
    wanted, listed = values.data(node), values.data(axis)
    if not isinstance(listed, list) or _is_open(listed) or _is_open(wanted) or wanted in listed:
        return
    key, name = place
    twin = next((each for each in listed if _kind(each) != _kind(wanted) and str(each) == str(wanted)), None)
    effect = "leaves nothing out" if key == "exclude" else "adds to no combination"
    if twin is not None:
        message = (
            f"this entry {effect}: the axis `{name}` has the {_kind(twin)} {shown(twin)}, "
            f"not the {_kind(wanted)} {shown(wanted)}"
        )
        low.report("PLAN006", message, node.span, f"write {shown(twin)}")
    elif key == "exclude":
        near = nearest(wanted, [each for each in listed if isinstance(each, str)]) if isinstance(wanted, str) else None
        way = f", did you mean `{near}`?" if near else ""
        message = f"this entry {effect}: the axis `{name}` has no value {shown(wanted)}{way}"
        low.report("PLAN006", message, node.span, f"it has {', '.join(map(shown, listed[:_SHOWN]))}" if listed else "")


def _kind(value: Json) -> str:
    return _KINDS.get(type(value), "")


def _is_open(value: Json) -> bool:
    """Whether a template in it is filled in only when the run is there."""
    if isinstance(value, dict):
        return any(map(_is_open, value.values()))
    if isinstance(value, list):
        return any(map(_is_open, value))
    return isinstance(value, str) and ("{{" in value or "{%" in value)
