"""Conditions as the machine asks about them; the evaluator is loaded with the first one, and many plans have none."""

from __future__ import annotations

from typing import Any

from planrunner.plan.expressions import evaluate
from planrunner.plan.expressions.problem import EvaluationError as EvaluationError
from planrunner.plan.expressions.values import Scope

Tree = Any


def truth(tree: Tree, scope: Scope) -> bool:
    """Whether a condition holds; raises EvaluationError for one that has no value (``evaluate.truth``)."""
    return evaluate.truth(tree, scope)


def explain(tree: Tree, scope: Scope) -> str:
    """Why a condition is false, with the values it read (``evaluate.explain``)."""
    return evaluate.explain(tree, scope)
