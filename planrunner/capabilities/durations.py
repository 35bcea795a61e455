"""Durations, sizes, money and percentages as capabilities get them: amounts already, or text with a unit."""

from __future__ import annotations

from collections.abc import Callable

from planrunner.jsontext import shown
from planrunner.plan.expressions.quantities import amount, parse_duration, parse_money, parse_percent, parse_size


def seconds(value: object) -> float:
    """``10``, ``"10s"``, ``"1h30m"``, ``"12.5"`` as seconds; raises ValueError for anything else or a negative one."""
    return _amount(value, parse_duration, "a duration such as 10s")


def size(value: object) -> int:
    """``1024``, ``"50MB"``, ``"2GiB"`` as bytes; raises ValueError for anything else or a negative one."""
    return int(_amount(value, parse_size, "a size such as 50MB"))


def money(value: object) -> float:
    """``0.5``, ``"$2"`` as US dollars; raises ValueError for anything else or a negative one."""
    return _amount(value, parse_money, "an amount of money such as $0.50")


def percent(value: object) -> float:
    """``0.25``, ``"25%"`` as a fraction; raises ValueError for anything else or a negative one."""
    return _amount(value, parse_percent, "a percentage such as 25%")


def _amount(value: object, parse: Callable[[str], float | None], wanted: str) -> float:
    found = amount(value, parse)
    if found is None:
        raise ValueError(f"expected {wanted}, found {shown(value)}")
    return found
