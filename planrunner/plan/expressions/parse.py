"""Text to ``Expression``: simple ones directly, all others by the grammar ``grammar/expr.lark``.

A tree is nested tuples ``(operation, start, end, …)`` with offsets into the text, as ``evaluate.py`` reads them.
Parsing has no bound but the two limits below, and needs no stack: the parser is a table, trees are built bottom up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from planrunner.plan.expressions.paths import children, paths_of
from planrunner.plan.expressions.problem import DEEPEST, SPLIT, TOO_DEEP, ExpressionError
from planrunner.plan.expressions.simple import parse_simple
from planrunner.plan.model import Expression
from planrunner.source import Span

__all__ = ["ExpressionError", "parse"]

Tree = Any

LONGEST = 8_192
"""Characters of one expression."""


def parse(text: str, start: int = 0) -> Expression:
    """The expression that ``text`` is; ``start`` is where the text begins in its file. Raises ExpressionError."""
    tree, paths = _parsed(text)
    return Expression(text, tree, paths, Span(start, start + len(text)))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Tree, tuple[tuple[str, ...], ...]]:
    if len(text) > LONGEST:
        raise ExpressionError(
            f"the expression has {len(text):,} characters, {LONGEST:,} are allowed",
            LONGEST,
            len(text),
            "compute the value in a task and read its output",
        )
    if not text.strip():
        raise ExpressionError("the expression is empty", 0, len(text))
    tree = parse_simple(text)
    if tree is None:
        from planrunner.plan.expressions.grammar import parse_by_grammar  # with Lark, which few plans need

        tree = parse_by_grammar(text)
    _check_depth(tree)
    return tree, paths_of(tree)


def _check_depth(tree: Tree) -> None:
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            _, start, end, *_ = level[0]
            raise ExpressionError(TOO_DEEP, start, end, SPLIT)
        level = [child for node in level for child in children(node)]
