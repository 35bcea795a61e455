"""What the result of a task says of hypotheses: pieces of evidence, each with the factor that it multiplies odds by."""

from __future__ import annotations

from typing import Literal, NamedTuple

from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.values import EvaluationError, Scope
from planrunner.plan.model import Evidence, Expression, Task

Said = Literal["supports", "refutes", "neutral"]

Ratio = tuple[int, int]
"""Odds, or a factor of them: numerator and denominator."""


class Piece(NamedTuple):
    """One piece of evidence: ``said`` by the result of a task about a hypothesis. ``why`` is the condition that held,
    or why none did; the odds are multiplied by ``factor``."""

    hypothesis: str
    said: Said
    factor: Ratio
    why: str


Pieces = tuple[Piece, ...]


def weigh(task: Task, scope: Scope) -> Pieces:
    """What the result of a task, whose names ``scope`` knows, says of the hypotheses of its plan."""
    return tuple(_piece(evidence, scope) for evidence in task.evidence)


def _piece(evidence: Evidence, scope: Scope) -> Piece:
    weight = (round(evidence.weight * 1000), 1000)
    held: dict[Said, str] = {}
    problem = ""
    conditions: dict[Said, Expression | None] = {"supports": evidence.supports, "refutes": evidence.refutes}
    for said, condition in conditions.items():
        if condition is None:
            continue
        try:
            if truth(condition.tree, scope):
                held[said] = f"`{condition.text.strip()}`"
        except EvaluationError as error:
            problem = f"`{condition.text.strip()}` has no value: {error}"
    if len(held) != 1:
        why = " and ".join(held.values()) + " speak against each other" if held else problem or "no condition held"
        return Piece(evidence.hypothesis, "neutral", (1, 1), why)
    said, why = next(iter(held.items()))
    return Piece(evidence.hypothesis, said, weight if said == "supports" else weight[::-1], why)
