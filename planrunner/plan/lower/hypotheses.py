"""Hypotheses that a plan declares, and what tasks say of them."""

from __future__ import annotations

from typing import NamedTuple

from planrunner.plan.lower import values
from planrunner.plan.lower.values import Lowering, condition
from planrunner.plan.model import BEST, HEAVIEST, RANKED, Evidence, Hypothesis
from planrunner.plan.nearest import nearest
from planrunner.plan.shapes import SHAPES
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

NAMES = frozenset({"hypotheses"})
"""The name that expressions of a plan with hypotheses may read."""

WEIGHTS = {"weak": 2.0, "moderate": 5.0, "strong": 20.0}
"""Likelihood ratios by their words."""

_LEAST = 0.001
"""The lowest prior; the highest lies as far from certainty."""


class _Declaration(NamedTuple):
    name: str
    span: Span
    body: Node | None


def declared(low: Lowering, node: Node) -> tuple[Hypothesis, ...]:
    """A list of names and declarations, or a mapping from names to declarations and statements."""
    first: dict[str, Hypothesis] = {}
    for name, span, body in _declarations(node):
        if name in first:
            low.report("PLAN006", f"two hypotheses are called `{name}`", span, "give each a name of its own")
        elif name in (BEST, RANKED):
            help_ = f"expressions read `hypotheses.{name}` of all hypotheses: give it another name"
            low.report("PLAN006", f"a hypothesis cannot be called `{name}`", span, help_)
        else:
            first[name] = _hypothesis(low, name, span, body)
    return tuple(first.values())


def _declarations(node: Node) -> list[_Declaration]:
    if isinstance(node, Mapping):
        return [_Declaration(str(key.value), key.span, value) for key, value in node.entries]
    items = node.items if isinstance(node, Sequence) else []
    named = [(item, item.get("id") if isinstance(item, Mapping) else item) for item in items]
    return [
        _Declaration(name, place.span, item if isinstance(item, Mapping) else None)
        for item, place in named
        if place is not None and (name := values.text(place))
    ]


def _hypothesis(low: Lowering, name: str, span: Span, body: Node | None) -> Hypothesis:
    if not isinstance(body, Mapping):
        return Hypothesis(name, values.text(body) if body is not None else "", span=span)
    parts = {str(key.value): value for key, value in body.entries}
    statement, prior = parts.get("statement"), parts.get("prior")
    notes = {key: values.data(value) for key, value in parts.items() if key not in ("id", "statement", "prior")}
    return Hypothesis(
        name,
        values.text(statement) if statement is not None else "",
        0.5 if prior is None else _prior(low, name, prior),
        notes or None,
        span,
    )


def _prior(low: Lowering, name: str, node: Node) -> float:
    """A fraction between the extremes, which no evidence could ever change."""
    fraction = values.fraction(low, node)
    if fraction is None:
        return 0.5
    if not _LEAST <= fraction <= 1 - _LEAST:
        message = f"the prior of `{name}` is {values.text(node)}: evidence could not change it"
        low.report("PLAN006", message, node.span, "write a prior from 0.1% to 99.9%")
        return 0.5
    return round(fraction, 6)


def divided(low: Lowering, node: Node) -> tuple[tuple[Evidence, ...], Node | None]:
    """What ``evidence`` of a task says of hypotheses, and the rest of it: what is shown or kept as proof."""
    items = node.items if isinstance(node, Sequence) else [node]
    pieces = [item for item in items if isinstance(item, Mapping) and item.get("hypothesis") is not None]
    if not pieces:
        return (), node
    read = tuple(each for item in pieces if (each := _evidence(low, item)) is not None)
    rest = [item for item in items if item not in pieces]
    return read, Sequence(rest, node.start, node.end) if rest else None


_KEYS = tuple(row.name for row in SHAPES["evidence"].keys)


def _evidence(low: Lowering, node: Mapping) -> Evidence | None:
    parts = {str(key.value): value for key, value in node.entries}
    name, meant = values.text(parts["hypothesis"]), set[str | None]()
    for key, _ in node.entries:
        if str(key.value) not in _KEYS:
            near = nearest(str(key.value), _KEYS)
            meant.add(near)
            help_ = f"did you mean `{near}`?" if near else f"it has {', '.join(f'`{each}`' for each in _KEYS)}"
            low.report("PLAN003", f"evidence for a hypothesis has no key `{key.value}`", key.span, help_)
    if not {"supports", "refutes"} & (parts.keys() | meant):
        help_ = "say when the result speaks for it: `supports: exit_code == 0`"
        low.report("PLAN004", f"evidence for `{name}` needs `supports` or `refutes`", node.span, help_)
        return None
    supports = condition(low, parts["supports"]) if "supports" in parts else None
    refutes = condition(low, parts["refutes"]) if "refutes" in parts else None
    weight = _weight(low, parts["weight"]) if "weight" in parts else WEIGHTS["moderate"]
    if supports is None and refutes is None and not meant:
        return None
    return Evidence(name, supports, refutes, weight, parts["hypothesis"].span)


def _weight(low: Lowering, node: Node) -> float:
    """A word, or how many times more likely the result is if the hypothesis holds than if it does not."""
    word = values.text(node)
    number = node.value if isinstance(node, Scalar) else None
    if word in WEIGHTS:
        return WEIGHTS[word]
    if isinstance(number, int | float) and not isinstance(number, bool) and 1 < number <= HEAVIEST:
        return round(float(number), 3)
    near = nearest(word, WEIGHTS)
    help_ = f"did you mean `{near}`?" if near else "write weak, moderate, strong, or a ratio such as 8"
    low.report("PLAN006", f"`{word or values.data(node)}` is not a weight of evidence", node.span, help_)
    return WEIGHTS["moderate"]
