"""What may come of a condition of which only some names are known: whether it may be true, be false, or have no value.

A scope raises Undecided for what is not known, and MissingName for what is known to be missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.problem import EvaluationError, Undecided
from planrunner.plan.expressions.values import Scope

Tree = Any


class Possible(NamedTuple):
    """Which ends the evaluation of a condition may have."""

    true: bool
    false: bool
    fails: bool


def possible(tree: Tree, scope: Scope, may_fail: Callable[[Tree], bool] = lambda tree: False) -> Possible:
    """The possible ends of a condition. ``may_fail`` says of a part whose value is not known whether it may have
    none. The right side of ``and`` and ``or`` counts only where it may be read."""
    operation = tree[0]
    if operation == "not":
        inner = possible(tree[3], scope, may_fail)
        return Possible(inner.false, inner.true, inner.fails)
    if operation in ("and", "or"):
        return _joined(operation == "or", [possible(item, scope, may_fail) for item in tree[3]])
    if operation == "if":
        return _chosen(*(possible(part, scope, may_fail) for part in tree[3:6]))
    try:
        found = truth(tree, scope)
    except Undecided:
        return Possible(True, True, may_fail(tree))
    except EvaluationError:
        return Possible(False, False, True)
    return Possible(found, not found, False)


def _joined(deciding: bool, items: list[Possible]) -> Possible:
    """``and`` is decided by a part that is false, ``or`` by one that is true; the parts after it are not read."""
    decided = fails = False
    goes_on = True
    for item in items:
        if not goes_on:
            break
        decided = decided or (item.true if deciding else item.false)
        fails = fails or item.fails
        goes_on = item.false if deciding else item.true
    return Possible(decided, goes_on, fails) if deciding else Possible(goes_on, decided, fails)


def _chosen(condition: Possible, one: Possible, other: Possible) -> Possible:
    read = [branch for branch, taken in ((one, condition.true), (other, condition.false)) if taken]
    return Possible(
        any(branch.true for branch in read),
        any(branch.false for branch in read),
        condition.fails or any(branch.fails for branch in read),
    )
