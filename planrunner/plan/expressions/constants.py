"""Conditions that do not depend on anything."""

from __future__ import annotations

from typing import Any

from planrunner.plan.expressions.evaluate import EvaluationError, Names, truth
from planrunner.plan.expressions.paths import paths_of
from planrunner.plan.model import Expression

Tree = Any


def constant(expression: Expression) -> bool | None:
    """True or False for a condition that is always so, None for one that depends on a name or has no value."""
    return _fold(expression.tree)


def _fold(tree: Tree) -> bool | None:
    operation = tree[0]
    if operation == "not":
        inner = _fold(tree[3])
        return None if inner is None else not inner
    if operation in ("and", "or"):
        return _joined([_fold(item) for item in tree[3]], operation == "or")
    if operation == "compare" and paths_of(tree) and _alike(tree[4], tree[5]):
        return {"==": True, "<=": True, ">=": True, "!=": False, "<": False, ">": False}.get(tree[3])
    if paths_of(tree):
        return None
    try:
        return truth(tree, Names({}))
    except EvaluationError:
        return None


def _joined(parts: list[bool | None], decisive: bool) -> bool | None:
    """``or`` is decided by one true part, ``and`` by one false part, each otherwise only by all parts."""
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


def _alike(left: Tree, right: Tree) -> bool:
    """Whether two trees are the same but for their places."""
    return bool(_bare(left) == _bare(right))


def _bare(tree: Tree) -> Any:
    if isinstance(tree, (tuple, list)):
        if len(tree) > 3 and isinstance(tree[0], str) and isinstance(tree[1], int) and isinstance(tree[2], int):
            return (tree[0], *(_bare(part) for part in tree[3:]))
        return tuple(_bare(part) for part in tree)
    return (type(tree).__name__, tree)
