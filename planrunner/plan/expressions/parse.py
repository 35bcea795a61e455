"""Text to ``Expression``, by the grammar ``grammar/expr.lark``; criteria to an expression or to plain words.

A tree is nested tuples ``(operation, start, end, …)`` with offsets into the text, as ``evaluate.py`` reads them.
Parsing has no bound but the two limits below, and needs no stack: the parser is a table, trees are built bottom up.
A text is parsed once in a process, and those of a plan that was compiled before not at all (``remember``).
A criterion is an expression, plain words, or an expression gone wrong: a mistyped condition must never become words
that are not checked.
"""

from __future__ import annotations

import re
from typing import Any

from planrunner.plan.expressions.evaluate import elsewhere
from planrunner.plan.expressions.functions import CALLED, METHODS
from planrunner.plan.expressions.tree import children, paths_of
from planrunner.plan.expressions.values import DEEPEST, SPLIT, TOO_DEEP, ExpressionError
from planrunner.plan.model import Expression
from planrunner.plan.nearest import nearest
from planrunner.source import Span

Tree = Any
Paths = tuple[tuple[str, ...], ...]

LONGEST = 8_192
"""Characters of one expression."""
_MOST_KNOWN = 1 << 16
_known: dict[str, tuple[Tree, Paths]] = {}
"""Tree and paths of the texts parsed so far."""


def parse(text: str, start: int = 0) -> Expression:
    """The expression that ``text`` is; ``start`` is where the text begins in its file. Raises ExpressionError."""
    known = _known.get(text)
    if known is None:
        tree = _parsed(text)
        known = (tree, paths_of(tree))
        remember(text, *known)
    return Expression(text, *known, Span(start, start + len(text)))


def remember(text: str, tree: Tree, paths: Paths) -> None:
    """Keep what ``parse`` gave for a text, in this process or, in a compiled plan, in an earlier one."""
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known[text] = (tree, paths)


def _parsed(text: str) -> Tree:
    if len(text) > LONGEST:
        message = f"the expression has {len(text):,} characters, {LONGEST:,} are allowed"
        raise ExpressionError(message, LONGEST, len(text), "compute the value in a task and read its output")
    if not text.strip():
        raise ExpressionError("the expression is empty", 0, len(text))
    from planrunner.plan.expressions.grammar import parse_by_grammar  # with its tables, which no compiled plan needs

    tree = parse_by_grammar(text)
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            _, start, end, *_ = level[0]
            raise ExpressionError(TOO_DEEP, start, end, SPLIT)
        level = [child for node in level for child in children(node)]
    return tree


WAYS_OUT = "fix the expression, or mark plain words: `- judge: …`"

GROUPS = frozenset(
    [
        *("params", "env", "plan", "run", "tasks", "outputs", "artifacts", "memory", "disk", "network", "host"),
        *("loop", "carry", "matrix", "rework", "retry", "now", "uuid", "hypotheses"),
    ]
)
"""Names that are only read through a member: where an expression begins with one, a dot or a bracket follows."""

_PATH = r"[A-Za-z_][A-Za-z0-9_.-]*(?:\([^()]*\)|\[[^\[\]]*\])*"
_WHOLE = rf"(?<![A-Za-z0-9_.-])[0-9.-]*{_PATH}"
"""From where a word begins: a search that may begin at each letter of a long one takes the square of its length."""
_COMPARED = rf"{_WHOLE}(?:\s*(?:===?|!=|<=|>=|=~)\s*|\s+[<>]\s+|[<>])[\w\"'\[({{$.+-]"
_ASSIGNED = rf"\s*{_PATH}\s*=\s*(?:[\w.+$%-]+|\"[^\"]*\"|'[^']*')\s*"
_HEADLESS = r"\s*(?:==|!=|<=|>=|<|>)\s*(?:[$0-9][\w.%]*|\"[^\"]*\"|'[^']*')\s*"
_CALL = r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?=\()|[A-Za-z_]\w*(?=\((?:\)|[\"'])))\([^()]*\)"
_CALLED = rf"\s*(?:not\s+)?{_CALL}(?:\s+(?:and|or)\s+(?:not\s+)?{_CALL})*\s*"
_TAG = r"</?[A-Za-z][\w-]*>"
_FIRST = r"\s*(?:not\s+|\(\s*)*([A-Za-z_][A-Za-z0-9_]*)(\s*[.\[(])?"
_WORDS = r"\s*(?!not\s)[A-Za-z_][A-Za-z0-9_]*\s+(?!(?:and|or|not|in|is|if|contains|matches)(?![A-Za-z0-9_]))[A-Za-z_]"


def is_wording(text: str) -> bool:
    """Whether a text begins with two words that no expression has side by side: it is certain not to parse."""
    return re.match(_WORDS, text) is not None


def classify(text: str, known: frozenset[str], start: int = 0) -> Expression | str | ExpressionError:
    """What a criterion is; ``known`` are the names that exist at its place (first names of paths, as ``tasks``).

    An Expression where the text parses and its names exist. An ExpressionError (returned, not raised) where it only
    looks like one: it begins with a known name or holds ``name operator value``. Its ``code`` is PLAN207 (syntax),
    PLAN201 (name) or PLAN208 (function), its help names both ways out. The text itself where it is plain words.
    """
    if call := _no_function(text, start):
        return call
    alike = _looks_alike(text, known)
    if is_wording(text) and not alike:
        return text
    try:
        expression = parse(text, start)
    except ExpressionError as error:
        way_out = f"{error.help}; or mark plain words: `- judge: …`" if error.help else WAYS_OUT
        return ExpressionError(error.message, error.start, error.end, way_out, error.code) if alike else text
    unresolved = _unresolved(expression, known)
    if unresolved is not None:
        return unresolved if alike or _is_certain(expression, known) else text
    is_quoted_text = expression.tree[0] == "const" and isinstance(expression.tree[3], str)
    return text if is_quoted_text else expression


def _no_function(text: str, start: int) -> ExpressionError | None:
    """What is wrong with a text of calls alone, of names that are not functions, such as ``file.exists('x')``."""
    if "(" not in text or not re.fullmatch(_CALLED, text):
        return None
    for found in re.finditer(_CALL, text):
        name = found[1]
        if name not in CALLED and ("." not in name or name.rpartition(".")[2] not in METHODS):
            meant = nearest(name.rpartition(".")[2], CALLED)
            node = ("call", start + found.start(1), start + found.end(1), name)
            return _unknown("PLAN208", f"unknown function `{name}`", node, meant)
    return None


def _looks_alike(text: str, known: frozenset[str]) -> bool:
    bare = re.sub(_TAG, "", text)
    if re.search(_COMPARED, bare) or re.fullmatch(_ASSIGNED, text) or re.fullmatch(_HEADLESS, text):
        return True
    first = re.match(_FIRST, text)
    if first is None:
        return False
    name, follows = first[1], (first[2] or "")
    if follows == "(" and name in CALLED:
        return True
    if name in GROUPS:
        return name in known and follows.strip() in (".", "[")
    return name in known


def _unresolved(expression: Expression, known: frozenset[str]) -> ExpressionError | None:
    """What the first name or function is that does not exist, if there is one."""
    waiting = [expression.tree]
    while waiting:
        node = waiting.pop()
        if node[0] == "name" and node[3] not in known:
            near = nearest(node[3], sorted(known)) if not elsewhere(node[3]) else None
            if node[3] == "output" and "stdout" in known:
                near = "stdout"  # what a task printed, which others call its output
            return _unknown("PLAN201", f"`{node[3]}` is not defined here", node, near)
        if node[0] == "call" and node[3] not in CALLED:
            meant = nearest(node[3], CALLED)
            return _unknown("PLAN208", f"unknown function `{node[3]}`", node, meant)
        waiting.extend(reversed(children(node)))
    return None


def _unknown(code: str, message: str, node: tuple[str, int, int, str], meant: str | None) -> ExpressionError:
    way_out = f"did you mean `{meant}`?" if meant else f"{elsewhere(node[3])};" if elsewhere(node[3]) else ""
    way_out = f"{way_out} or mark plain words: `- judge: …`" if way_out else WAYS_OUT
    return ExpressionError(message, node[1], node[1] + len(node[3]), way_out, code)


_LITERALS = frozenset({"const", "quantity", "list", "map"})


def _is_certain(expression: Expression, known: frozenset[str]) -> bool:
    """Whether a text that parses, with names that do not exist, can hardly be a sentence: an operator with a literal
    beside it, or a dotted name whose beginning is nearly a known one."""
    waiting = [expression.tree]
    while waiting:
        node = waiting.pop()
        if node[0] in ("empty", "kind", "index"):
            return True
        if node[0] in ("compare", "binary") and any(side[0] in _LITERALS for side in node[4:6]):
            return True
        if node[0] == "attr" and node[3][0] == "name" and nearest(node[3][3], known):
            return True
        waiting.extend(children(node))
    return False
