"""Text to ``Expression``: the grammar is ``grammar/expr.lark``, the wording of errors is ours.

A tree is nested tuples ``(operation, start, end, …)`` with offsets into the text, as ``evaluate.py`` reads them.
Parsing has no bound but the two limits below, and needs no stack: the parser is a table, trees are built bottom up.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from planrunner.plan.expressions.building import Building
from planrunner.plan.expressions.paths import children, paths_of
from planrunner.plan.expressions.problem import ExpressionError
from planrunner.plan.expressions.quantities import parse_count, parse_quantity
from planrunner.plan.expressions.simple import parse_simple
from planrunner.plan.model import Expression
from planrunner.resources import read_data
from planrunner.source import Span

if TYPE_CHECKING:
    from lark import Lark, UnexpectedInput


__all__ = ["ExpressionError", "parse"]

Tree = Any

LONGEST = 8_192
"""Characters of one expression."""
DEEPEST = 64
"""Levels of one expression, counted in operations inside operations."""


_TOO_DEEP = f"the expression is nested more than {DEEPEST} levels deep"
_SPLIT = "split it: compute a part in a task and read its output"


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
        tree = parse_by_grammar(text)
    _check_depth(tree)
    return tree, paths_of(tree)


def parse_by_grammar(text: str) -> Tree:
    """The tree of any expression; ``parse_simple`` gives the same one wherever it gives one. Raises ExpressionError."""
    from lark import UnexpectedInput  # late: most plans only have expressions that need no grammar

    try:
        return _grammar().parse(text)
    except UnexpectedInput as error:
        raise _unexpected(text, error) from None
    except RecursionError:
        raise ExpressionError(_TOO_DEEP, 0, len(text), _SPLIT) from None


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    from lark import Lark

    return Lark(
        read_data("grammar", "expr.lark"),
        parser="lalr",
        lexer="contextual",
        transformer=Building(),
        maybe_placeholders=False,
    )


def _check_depth(tree: Tree) -> None:
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            _, start, end, *_ = level[0]
            raise ExpressionError(_TOO_DEEP, start, end, _SPLIT)
        level = [child for node in level for child in children(node)]


_WRITE_INSTEAD = {
    "&&": "and",
    "||": "or",
    "===": "==",
    "=~": "matches",
    "=": "==",
    "!": "not",
    "<>": "!=",
    "**": "",
}
_TOKEN = re.compile(r"===|=~|&&|\|\||<>|\*\*|//|[A-Za-z_][A-Za-z0-9_]*|\$?[0-9][A-Za-z0-9_.%]*|\S|$")


def _unexpected(text: str, error: UnexpectedInput) -> ExpressionError:
    """Our own words for what the parser stumbled over."""
    at: int = getattr(error, "pos_in_stream", None) or 0
    if getattr(getattr(error, "token", None), "type", "") == "$END":
        return _unfinished(text)
    at = _operator_start(text, at)
    token = _TOKEN.match(text, at)
    word = token[0] if token else text[at]
    end = at + len(word)
    if word[0] in "\"'":
        return _quote(text, at)
    if word in _WRITE_INSTEAD:
        instead = _WRITE_INSTEAD[word]
        return ExpressionError(f"`{word}` is not an operator", at, end, f"write `{instead}`" if instead else "")
    if word[0].isdigit() or word[0] == "$":
        return _number(word, at)
    return ExpressionError(f"`{word}` is not expected here", at, end, _hint(text, word, at))


def _operator_start(text: str, at: int) -> int:
    """Where an operator that the language does not have begins: of ``===`` the first two signs were read already."""
    for start in range(max(0, at - 2), at):
        token = _TOKEN.match(text, start)
        if token and token[0] in _WRITE_INSTEAD and token.end() > at:
            return start
    return at


def _unfinished(text: str) -> ExpressionError:
    end = len(text.rstrip())
    opened = _open_bracket(text)
    if opened >= 0:
        return ExpressionError(f"`{text[opened]}` is never closed", opened, opened + 1)
    last = re.search(r"\S+$", text[:end])
    word = last[0] if last else text
    return ExpressionError(f"something is missing after `{word[-40:]}`", max(0, end - len(word)), end)


def _open_bracket(text: str) -> int:
    """The offset of the innermost bracket that is still open at the end, or -1."""
    stack: list[int] = []
    for match in re.finditer(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[\[\](){}]", text, re.DOTALL):
        if match[0] in "([{":
            stack.append(match.start())
        elif match[0] in ")]}" and stack:
            stack.pop()
    return stack[-1] if stack else -1


def _quote(text: str, at: int) -> ExpressionError:
    quote = text[at]
    closed = re.compile(rf"{quote}(?:[^{quote}\\]|\\.)*{quote}", re.DOTALL).match(text, at)
    if closed:
        return ExpressionError("quoted text is not expected here", at, closed.end(), "an operator is missing before it")
    return ExpressionError(f"text that begins with {quote} has no end", at, len(text), f"close it with {quote}")


def _number(word: str, at: int) -> ExpressionError:
    end = at + len(word)
    if parse_quantity(word) is not None or parse_count(word) is not None:
        return ExpressionError(f"`{word}` is not expected here", at, end, "an operator is missing before it")
    return ExpressionError(
        f"`{word}` is neither a number nor a quantity",
        at,
        end,
        "quantities look like `10m`, `1h30m`, `50MB`, `$2`, `80%`, `200k`",
    )


def _hint(text: str, word: str, at: int) -> str:
    if word in (")", "]", "}"):
        return "nothing is open that it could close" if _open_bracket(text[:at]) < 0 else "a value is missing before it"
    if word in ("{", "`"):
        return "an expression is written without {{ }}" if "{{" in text[max(0, at - 1) : at + 2] else ""
    if word == "%":
        return "put spaces around `%` to compute a remainder"
    if word[0].isalpha() and at and text[:at].rstrip()[-1:].isalnum():
        return f"an operator is missing before `{word}`; text stands in quotes"
    return ""
