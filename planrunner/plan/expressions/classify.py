"""Criteria: which texts are expressions, which are plain words, and which are expressions gone wrong.

The third kind matters most: a mistyped condition must never become words that nobody checks.
"""

from __future__ import annotations

import re

from planrunner.plan.expressions.idioms import CALLED, METHODS
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.paths import children
from planrunner.plan.expressions.problem import ExpressionError
from planrunner.plan.expressions.simple import is_wording
from planrunner.plan.model import Expression
from planrunner.plan.nearest import nearest

WAYS_OUT = "mend the expression, or mark plain words: `- judge: …`"

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
    """What a criterion is; ``known`` are the names that exist where it stands (first names of paths, as ``tasks``).

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
    """What is wrong with a text that is nothing but calls, such as ``file.exists('x')``, of what is no function."""
    if "(" not in text or not _CALLED.fullmatch(text):
        return None
    for found in re.finditer(_CALL, text):
        name = found[1]
        if name not in CALLED and ("." not in name or name.rpartition(".")[2] not in METHODS):
            meant = nearest(name.rpartition(".")[2], CALLED)
            node = ("call", start + found.start(1), start + found.end(1), name)
            return _unknown("PLAN208", f"there is no function `{name}`", node, meant)
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
            return _unknown("PLAN201", f"nothing is called `{node[3]}` here", node, nearest(node[3], sorted(known)))
        if node[0] == "call" and node[3] not in CALLED:
            meant = nearest(node[3], CALLED)
            return _unknown("PLAN208", f"there is no function `{node[3]}`", node, meant)
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
