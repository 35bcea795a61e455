"""Conditions and criteria: text of the tree to expressions, or to plain words where nothing claims to be one."""

from __future__ import annotations

import re

from planrunner.diagnostics import Diagnostic
from planrunner.plan.expressions.classify import classify
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.problem import ExpressionError
from planrunner.plan.lower_values import Lowering
from planrunner.plan.model import Criterion, Expression
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

RUN = frozenset({"params", "env", "plan", "run", "tasks", "rework"})
"""Names that every expression may read."""
ATTEMPT = frozenset({"now", "uuid", "retry"})
"""Names of the attempt that is under way or, before it, of the one that is to begin."""
OUTCOME = RUN | ATTEMPT | {"exit_code", "duration", "stdout", "stderr", "outputs", "attempt", "artifacts"}
"""Names of a task's own result: criteria, postconditions, conditions of its edges."""
DETECT = OUTCOME | {"failure", "message"}
"""Names for recognising a failure."""
FACTS = RUN | ATTEMPT | {"memory", "disk", "network", "host"}
"""Names for preconditions: facts of the world."""
CHECKS = RUN | ATTEMPT | {"artifacts", "outputs"}
"""Names for the checks of a gate."""

_new = tuple.__new__
"""Makes a NamedTuple in half the time of its constructor; plans have more criteria than tasks."""

_WHOLE_TEMPLATE = r"(?s:\s*\{\{(.*)\}\}\s*)"


def place(node: Scalar, content: str) -> int | None:
    """The offset in the file where ``content`` stands as it is; None where escapes or indentation lie between."""
    raw = node.raw
    if raw == content:
        return node.start
    at = raw.find(content)
    if at < 0 or raw.find(content, at + 1) >= 0:
        return None
    return node.start + at


def condition(low: Lowering, node: Node) -> Expression | None:
    """What must be an expression: ``when``, ``until``, ``foreach``, conditions of edges; ``{{ }}`` around may stay."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str | bool):
        return None
    if isinstance(node.value, bool):
        return _parsed(low, node, "true" if node.value else "false")
    content = node.value.strip()
    wrapped = re.fullmatch(_WHOLE_TEMPLATE, content) if "{{" in content else None
    if wrapped and "{{" not in wrapped[1]:
        content = wrapped[1].strip()
    return _parsed(low, node, content)


def _parsed(low: Lowering, node: Scalar, content: str) -> Expression | None:
    at = place(node, content)
    try:
        parsed = parse(content, at or 0)
    except ExpressionError as error:
        low.findings.append(_finding(error, node, at))
        return None
    return parsed if at is not None else parsed._replace(span=node.span)


def criteria(low: Lowering, node: Node, known: frozenset[str]) -> tuple[Criterion, ...]:
    """One criterion or a list of them."""
    items = node.items if isinstance(node, Sequence) else [node]
    found = (criterion(low, item, known) for item in items)
    return tuple(each for each in found if each is not None)


def criterion(low: Lowering, node: Node, known: frozenset[str]) -> Criterion | None:
    """``judge:`` is always words, ``check:`` always an expression; bare text is what it looks like."""
    if isinstance(node, Mapping):
        return _explicit(low, node)
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.value.strip():
        return None
    content = node.value.strip()
    at = place(node, content)
    cached = low.classified.get((content, id(known)))
    if cached is None:
        cached = low.classified[content, id(known)] = (known, classify(content, known))
    found = cached[1]
    if isinstance(found, str):
        return Criterion(content, None, node.span)
    if isinstance(found, ExpressionError):
        low.findings.append(_finding(found, node, at))
        return None
    whole = _new(Span, (node.start, node.end))
    span = whole if at is None else _new(Span, (at, at + len(content)))
    return _new(Criterion, (content, _new(Expression, (content, found.tree, found.paths, span)), whole))


def _explicit(low: Lowering, node: Mapping) -> Criterion | None:
    for key, value in node.entries:
        if not isinstance(value, Scalar) or not isinstance(value.value, str):
            return None
        if key.value == "judge":
            return Criterion(value.value.strip(), None, value.span)
        if key.value == "check":
            parsed = condition(low, value)
            return Criterion(value.value.strip(), parsed, value.span) if parsed else None
    return None


def _finding(error: ExpressionError, node: Scalar, at: int | None) -> Diagnostic:
    """Exact inside the text where it stands as it is, else the whole value."""
    span = node.span if at is None else Span(at + error.start, at + max(error.end, error.start))
    return Diagnostic(error.code, error.message, span, help=error.help)
