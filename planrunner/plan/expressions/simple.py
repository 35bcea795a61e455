"""The commonest expressions without the grammar, which costs more to load than the rest of a small plan.

Comparisons of names, numbers, quantities and quoted texts, joined by ``and``, ``or`` and ``not``: what is read here has
the very tree that the grammar gives it. Anything else, right or wrong, is for the grammar: arithmetic, calls, brackets,
``is``, and every mistake.
"""

from __future__ import annotations

import re
from typing import Any

from planrunner.plan.expressions.literals import CONSTANTS, LONGEST_NUMBER, unquoted
from planrunner.plan.expressions.quantities import parse_count, parse_quantity

Tree = Any

_RESERVED = r"(?:and|or|not|in|is|if|else|true|false|null|none|True|False|None)(?![A-Za-z0-9_])"
_NAMES = (
    rf"(?:(?:tasks|artifacts)\.[A-Za-z_][A-Za-z0-9_-]*|(?!{_RESERVED})[A-Za-z_][A-Za-z0-9_]*)"
    r"(?:\.[A-Za-z_][A-Za-z0-9_]*)*(?![A-Za-z0-9_.(\[-])"
)
_QUANTITY = (
    r"\$[0-9]+(?:\.[0-9]+)?[kM]?(?![A-Za-z0-9_])|(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhd]))+(?![A-Za-z0-9_])"
    r"|[0-9]+(?:\.[0-9]+)?(?:[kKMGT]?B|[KMGT]iB|[kM])(?![A-Za-z0-9_])|[0-9]+(?:\.[0-9]+)?%(?![A-Za-z0-9_(])"
)
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.])"
_STRING = r"\"(?:[^\"\\]|\\[\s\S])*\"|'(?:[^'\\]|\\[\s\S])*'"
_OPERAND = re.compile(
    rf"(?P<names>{_NAMES})|(?P<constant>(?:true|false|null|none|True|False|None)(?![A-Za-z0-9_]))"
    rf"|(?P<quantity>{_QUANTITY})|(?P<number>{_NUMBER})|(?P<string>{_STRING})"
)
_OPERATOR = re.compile(
    r"\s*(==|!=|<=|>=|<|>|(?:not\s+in|in|not\s+contains|contains|not\s+matches|matches)(?![A-Za-z0-9_]))\s*"
)
_NOT = re.compile(r"not(?![A-Za-z0-9_])\s*")
_JOINT = re.compile(r"\s*(?:(and|or)(?![A-Za-z0-9_])\s*|\Z)")
_WORDS = re.compile(
    r"\s*(?!not\s)[A-Za-z_][A-Za-z0-9_]*\s+"
    r"(?!(?:and|or|not|in|is|if|contains|matches)(?![A-Za-z0-9_]))[A-Za-z_]"
)


def parse_simple(text: str) -> Tree | None:
    """The tree of a simple expression, None for any other text."""
    at = len(text) - len(text.lstrip())
    alternatives: list[list[Tree]] = [[]]
    while True:
        item = _negation(text, at)
        if item is None:
            return None
        tree, at = item
        alternatives[-1].append(tree)
        joint = _JOINT.match(text, at)
        if joint is None:
            return None
        at = joint.end()
        if joint[1] is None:
            return _joined("or", [_joined("and", items) for items in alternatives])
        if joint[1] == "or":
            alternatives.append([])


def is_wording(text: str) -> bool:
    """Whether a text begins with two words that no expression has side by side: it is certain not to parse."""
    return _WORDS.match(text) is not None


def _joined(word: str, items: list[Tree]) -> Tree:
    return items[0] if len(items) == 1 else (word, items[0][1], items[-1][2], tuple(items))


def _negation(text: str, at: int) -> tuple[Tree, int] | None:
    """One comparison or one operand, perhaps with ``not`` before it, and where it ends."""
    negated = _NOT.match(text, at)
    found = _comparison(text, negated.end() if negated else at)
    if found is None or negated is None:
        return found
    tree, end = found
    return ("not", at, tree[2], tree), end


def _comparison(text: str, at: int) -> tuple[Tree, int] | None:
    left = _operand(text, at)
    if left is None:
        return None
    operator = _OPERATOR.match(text, left[2])
    if operator is None:
        return left, left[2]
    right = _operand(text, operator.end())
    if right is None:
        return None
    return ("compare", left[1], right[2], " ".join(operator[1].split()), left, right), right[2]


def _operand(text: str, at: int) -> Tree | None:
    match = _OPERAND.match(text, at)
    if match is None:
        return None
    token, end, kind = match[0], match.end(), match.lastgroup
    if kind == "names":
        return _path(token, at)
    if kind == "constant":
        return ("const", at, end, CONSTANTS[token])
    if kind == "string":
        return ("const", at, end, unquoted(token))
    return _number(token, at, end) if kind == "number" else _quantity(token, at, end)


def _path(token: str, at: int) -> Tree:
    first, *members = token.split(".")
    end = at + len(first)
    tree: Tree = ("name", at, end, first)
    for member in members:
        end += 1 + len(member)
        tree = ("attr", at, end, tree, member)
    return tree


def _number(token: str, at: int, end: int) -> Tree | None:
    if len(token) > LONGEST_NUMBER:
        return None
    value = int(token) if token.isdigit() else float(token)
    return None if value == float("inf") else ("const", at, end, value)


def _quantity(token: str, at: int, end: int) -> Tree | None:
    found = parse_quantity(token)
    if found is not None:
        return ("quantity", at, end, found.amount, found.dimension)
    count = parse_count(token)
    return None if count is None else ("const", at, end, count)
