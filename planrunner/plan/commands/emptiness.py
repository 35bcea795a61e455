"""``top10 is empty`` in the criteria of a command: a result is a map, and what people ask about is the list in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planrunner.plan.expressions.paths import paths_of
from planrunner.plan.model import Criterion, Expression, Task

Tree = Any


def about_lists(task: Task, lists: Mapping[str, str]) -> Task:
    """The task with its own criteria asking whether the first list of a result is empty where they ask it of the whole
    result; ``lists`` names that output for each result that has one."""
    if not lists:
        return task
    return task._replace(
        expect=_each(task.expect, lists),
        postconditions=_each(task.postconditions, lists),
        failure_modes=tuple(
            mode if mode.detect is None else mode._replace(detect=_criterion(mode.detect, lists))
            for mode in task.failure_modes
        ),
        edges=tuple(
            edge if edge.condition is None else edge._replace(condition=_expression(edge.condition, lists))
            for edge in task.edges
        ),
    )


def _each(criteria: tuple[Criterion, ...], lists: Mapping[str, str]) -> tuple[Criterion, ...]:
    return tuple(_criterion(criterion, lists) for criterion in criteria)


def _criterion(criterion: Criterion, lists: Mapping[str, str]) -> Criterion:
    if criterion.expression is None:
        return criterion
    return criterion._replace(expression=_expression(criterion.expression, lists))


def _expression(expression: Expression, lists: Mapping[str, str]) -> Expression:
    tree = _tree(expression.tree, lists)
    return expression if tree == expression.tree else expression._replace(tree=tree, paths=paths_of(tree))


def _tree(tree: Tree, lists: Mapping[str, str]) -> Tree:
    if not isinstance(tree, tuple):
        return tree
    if tree and tree[0] == "empty":
        operand = tree[3]
        name = _result(operand)
        if name in lists:
            return (*tree[:3], ("attr", operand[1], operand[2], operand, lists[name]), *tree[4:])
    return tuple(_tree(part, lists) for part in tree)


def _result(tree: Tree) -> str:
    """The result that a tree is the name of: ``top10`` or ``outputs.top10``."""
    if tree[0] == "name":
        return str(tree[3])
    if tree[0] == "attr" and tree[3][0] == "name" and tree[3][3] == "outputs":
        return str(tree[4])
    return ""
