"""Conditions over tasks some of which have not ended: true, false, or not decided yet."""

from __future__ import annotations

from typing import Any

from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.paths import path_of
from planrunner.plan.expressions.problem import EvaluationError, Undecided
from planrunner.plan.expressions.values import Scope

Tree = Any


def decided(tree: Tree, scope: Scope) -> bool | None:
    """Whether a condition holds, whatever becomes of the tasks that have not ended; None where that depends on them.

    Under ``and``, ``or`` and ``not`` a flag of such a task (``a.ok``) leaves the others to decide; anything else that
    is read of it is waited for. Raises EvaluationError where the condition has no value.
    """
    try:
        return _decided(tree, scope)
    except Undecided:
        return None


def _decided(tree: Tree, scope: Scope) -> bool | None:
    if tree[0] == "not":
        inner = _decided(tree[3], scope)
        return None if inner is None else not inner
    if tree[0] in ("and", "or"):
        return _joined(tree, scope)
    try:
        return truth(tree, scope)
    except Undecided as error:
        if error.flag and path_of(tree) is not None:
            return None
        raise


def _joined(tree: Tree, scope: Scope) -> bool | None:
    deciding = tree[0] == "or"
    is_open = False
    for item in tree[3]:
        try:
            found = _decided(item, scope)
        except Undecided:
            raise
        except EvaluationError as error:
            if is_open:  # whether this is read at all depends on what stands before it
                raise Undecided(error.message) from error
            raise
        if found is deciding:
            return deciding
        is_open = is_open or found is None
    return None if is_open else not deciding
