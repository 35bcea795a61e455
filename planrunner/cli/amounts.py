"""Amounts that are added to limits, as people write them: ``cost=$2``, ``time=10m``, ``tokens=50k``."""

from __future__ import annotations

from planrunner.plan.expressions.quantities import parse_count, parse_duration, parse_money

ADDABLE = ("time", "cost", "tokens", "calls", "attempts", "iterations")


def parse_amount(what: str, text: str) -> float | None:
    """Seconds, dollars or a count; None for what is no such amount, or nothing."""
    if what not in ADDABLE:
        return None
    parse = {"time": parse_duration, "cost": parse_money}.get(what, parse_count)
    more = parse(text)
    if more is None and what == "cost":
        more = parse_count(text)
    return more or None


def parse_amounts(values: tuple[str, ...]) -> dict[str, float]:
    """The values of ``--add``. Raises ValueError with the first that is none."""
    found = {}
    for value in values:
        what, _, text = value.partition("=")
        more = parse_amount(what, text)
        if more is None:
            raise ValueError(f"`{value}` is not 'cost=$2', time=10m, tokens=50k or the like")
        found[what] = more
    return found
