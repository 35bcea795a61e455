"""Conditions as the machine asks about them; the evaluator is loaded with the first one, and many plans have none."""

from __future__ import annotations

from planrunner.plan.expressions.problem import EvaluationError as EvaluationError
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from planrunner.plan.expressions.values import Scope

    Tree = Any


def truth(tree: Tree, scope: Scope) -> bool:
    """Whether a condition holds; raises EvaluationError for one that has no value (``evaluate.truth``)."""
    from planrunner.plan.expressions import evaluate

    return evaluate.truth(tree, scope)


def explain(tree: Tree, scope: Scope) -> str:
    """Why a condition is false, with the values it read (``evaluate.explain``)."""
    from planrunner.plan.expressions import evaluate

    return evaluate.explain(tree, scope)
