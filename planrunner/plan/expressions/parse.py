"""Text to ``Expression``: simple ones directly, all others by the grammar ``grammar/expr.lark``; criteria to either.

A tree is nested tuples ``(operation, start, end, …)`` with offsets into the text, as ``evaluate.py`` reads them.
Parsing has no bound but the two limits below, and needs no stack: the parser is a table, trees are built bottom up.
A criterion is an expression, plain words, or an expression gone wrong: a mistyped condition must never become words
that are not checked.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from planrunner.plan.expressions.functions import CALLED, METHODS
from planrunner.plan.expressions.quantities import parse_count, parse_quantity
from planrunner.plan.expressions.tree import CONSTANTS, LONGEST_NUMBER, children, paths_of, unquoted
from planrunner.plan.expressions.values import DEEPEST, SPLIT, TOO_DEEP, ExpressionError
from planrunner.plan.model import Expression
from planrunner.plan.nearest import nearest
from planrunner.source import Span

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


WAYS_OUT = "fix the expression, or mark plain words: `- judge: …`"

GROUPS = frozenset(
    [
        *("params", "env", "plan", "run", "tasks", "outputs", "artifacts", "memory", "disk", "network", "host"),
        *("loop", "carry", "matrix", "rework", "retry", "now", "uuid"),
    ]
)
"""Names that are only read through a member: where an expression begins with one, a dot or a bracket follows."""

_PATH = r"[A-Za-z_][A-Za-z0-9_.-]*(?:\([^()]*\)|\[[^\[\]]*\])*"
_WHOLE = rf"(?<![A-Za-z0-9_.-])[0-9.-]*{_PATH}"
"""From where a word begins: a search that may begin at each letter of a long one takes the square of its length."""
_COMPARED = re.compile(rf"{_WHOLE}(?:\s*(?:===?|!=|<=|>=|=~)\s*|\s+[<>]\s+|[<>])[\w\"'\[({{$.+-]")
_ASSIGNED = re.compile(rf"\s*{_PATH}\s*=\s*(?:[\w.+$%-]+|\"[^\"]*\"|'[^']*')\s*")
_HEADLESS = re.compile(r"\s*(?:==|!=|<=|>=|<|>)\s*(?:[$0-9][\w.%]*|\"[^\"]*\"|'[^']*')\s*")
_CALL = r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?=\()|[A-Za-z_]\w*(?=\((?:\)|[\"'])))\([^()]*\)"
_CALLED = re.compile(rf"\s*(?:not\s+)?{_CALL}(?:\s+(?:and|or)\s+(?:not\s+)?{_CALL})*\s*")
_TAG = re.compile(r"</?[A-Za-z][\w-]*>")
_FIRST = re.compile(r"\s*(?:not\s+|\(\s*)*([A-Za-z_][A-Za-z0-9_]*)(\s*[.\[(])?")


def classify(text: str, known: frozenset[str], start: int = 0) -> Expression | str | ExpressionError:
    """What a criterion is; ``known`` are the names that exist at its place (first names of paths, as ``tasks``).

    An Expression where the text parses and its names exist. An ExpressionError (returned, not raised) where it only
    looks like one: it begins with a known name or holds ``name operator value``. Its ``code`` is PLAN207 (syntax),
    PLAN201 (name) or PLAN208 (function), its help names both ways out. The text itself where it is plain words.
    """
    if call := _no_function(text, start):
        return call
    if is_wording(text) and not _looks_alike(text, known):
        return text
    try:
        expression = parse(text, start)
    except ExpressionError as error:
        return _with_ways_out(error) if _looks_alike(text, known) else text
    unresolved = _unresolved(expression, known)
    if unresolved is None:
        return text if _is_quoted_text(expression) else expression
    return unresolved if _looks_alike(text, known) or _is_certain(expression, known) else text


def _no_function(text: str, start: int) -> ExpressionError | None:
    """What is wrong with a text of calls alone, of names that are not functions, such as ``file.exists('x')``."""
    if "(" not in text or not _CALLED.fullmatch(text):
        return None
    for found in re.finditer(_CALL, text):
        name = found[1]
        if name not in CALLED and ("." not in name or name.rpartition(".")[2] not in METHODS):
            meant = nearest(name.rpartition(".")[2], CALLED)
            node = ("call", start + found.start(1), start + found.end(1), name)
            return _unknown("PLAN208", f"unknown function `{name}`", node, meant)
    return None


def _with_ways_out(error: ExpressionError) -> ExpressionError:
    way_out = f"{error.help}; or mark plain words: `- judge: …`" if error.help else WAYS_OUT
    return ExpressionError(error.message, error.start, error.end, way_out, error.code)


def _looks_alike(text: str, known: frozenset[str]) -> bool:
    bare = _TAG.sub("", text)
    if _COMPARED.search(bare) or _ASSIGNED.fullmatch(text) or _HEADLESS.fullmatch(text):
        return True
    first = _FIRST.match(text)
    if first is None:
        return False
    name, follows = first[1], (first[2] or "")
    if follows == "(" and name in CALLED:
        return True
    if name in GROUPS:
        return name in known and follows.strip() in (".", "[")
    return name in known


def _is_quoted_text(expression: Expression) -> bool:
    return expression.tree[0] == "const" and isinstance(expression.tree[3], str)


def _unresolved(expression: Expression, known: frozenset[str]) -> ExpressionError | None:
    """What the first name or function is that does not exist, if there is one."""
    waiting = [expression.tree]
    while waiting:
        node = waiting.pop()
        if node[0] == "name" and node[3] not in known:
            return _unknown("PLAN201", f"`{node[3]}` is not defined here", node, nearest(node[3], sorted(known)))
        if node[0] == "call" and node[3] not in CALLED:
            meant = nearest(node[3], CALLED)
            return _unknown("PLAN208", f"unknown function `{node[3]}`", node, meant)
        waiting.extend(reversed(children(node)))
    return None


def _unknown(code: str, message: str, node: tuple[str, int, int, str], meant: str | None) -> ExpressionError:
    way_out = f"did you mean `{meant}`? or mark plain words: `- judge: …`" if meant else WAYS_OUT
    return ExpressionError(message, node[1], node[1] + len(node[3]), way_out, code)


def _is_certain(expression: Expression, known: frozenset[str]) -> bool:
    """Whether a text that parses, with names that do not exist, can hardly be a sentence: an operator with a literal
    beside it, or a dotted name whose beginning is nearly a known one."""
    waiting = [expression.tree]
    while waiting:
        node = waiting.pop()
        if node[0] in ("empty", "kind", "index"):
            return True
        if node[0] in ("compare", "binary") and any(_is_literal(side) for side in node[4:6]):
            return True
        if node[0] == "attr" and node[3][0] == "name" and nearest(node[3][3], known):
            return True
        waiting.extend(children(node))
    return False


def _is_literal(tree: tuple[object, ...]) -> bool:
    return tree[0] in ("const", "quantity", "list", "map")
