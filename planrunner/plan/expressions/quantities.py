"""Amounts with a unit, as people write them: ``10m``, ``50MB``, ``$2``, ``80%``, and plain counts such as ``200k``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

Dimension = Literal["time", "size", "money", "percent"]


class Quantity(NamedTuple):
    """An amount in its base unit: seconds, bytes, US dollars, or for percent the fraction (``80%`` is 0.8)."""

    amount: float
    dimension: Dimension

    def __str__(self) -> str:
        if self.amount - self.amount != 0:
            return f"{self.amount} ({self.dimension})"
        return _FORMATS[self.dimension](self.amount)


SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
    "kB": 1000,
}
COUNTS = {"": 1, "k": 1000, "M": 1_000_000}

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_TIME_PART = rf"({_NUMBER})(ms|[smhd])"
_TIME = rf"(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m(?!s))?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?"
_SIZE = rf"({_NUMBER})([kKMGT]?B|[KMGT]iB)"
_MONEY = rf"\$({_NUMBER})([kM]?)"
_COUNT = rf"({_NUMBER})([kM]?)"
_PERCENT = rf"({_NUMBER})%"


_UNIT_WORDS = {
    word: unit
    for unit, words in {
        "ms": "ms msec msecs millisecond milliseconds",
        "s": "s sec secs second seconds",
        "m": "m min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "d day days",
        "B": "b byte bytes",
        "%": "% percent",
        **{f"{letter}B": f"{letter.lower()}b" for letter in "KMGT"},
        **{f"{letter}iB": f"{letter.lower()}ib" for letter in "KMGT"},
    }.items()
    for word in words.split()
}


def meant_quantity(text: str) -> str | None:
    """A quantity with its unit as it is to be written: ``10m`` for ``10 minutes``, ``1MB`` for ``1mb``. None where the
    unit is not known, and for a quantity that is one already."""
    match = re.fullmatch(rf"({_NUMBER})\s*([A-Za-z]+|%)", text.strip())
    unit = _UNIT_WORDS.get(match[2].lower()) if match else None
    return f"{match[1]}{unit}" if match and unit and parse_quantity(text) is None else None


def parse_duration(text: str) -> float | None:
    """Seconds of ``500ms``, ``10s``, ``5m``, ``2h``, ``1d`` or ``1h30m`` (larger units first); None for anything else.

    A number without a unit gives None as well: what it counts would be a guess.
    """
    text = text.strip()
    if not text or not re.fullmatch(_TIME, text):
        return None
    return sum(float(number) * SECONDS[unit] for number, unit in re.findall(_TIME_PART, text))


def parse_size(text: str) -> int | None:
    """Bytes of ``10B``, ``5KB`` (1000 each) or ``2GiB`` (1024 each); None for anything else."""
    match = re.fullmatch(_SIZE, text.strip())
    return round(float(match[1]) * BYTES[match[2]]) if match else None


def parse_money(text: str) -> float | None:
    """US dollars of ``$2``, ``$0.50`` or ``$3k``; None for anything else."""
    match = re.fullmatch(_MONEY, text.strip())
    return float(match[1]) * COUNTS[match[2]] if match else None


def parse_count(text: str) -> int | None:
    """The whole number of ``200``, ``200k`` or ``1.5M``; None for anything else, also where a fraction is left."""
    match = re.fullmatch(_COUNT, text.strip())
    if not match:
        return None
    if match[1].isdigit():
        return int(match[1]) * COUNTS[match[2]]
    count = round(float(match[1]) * COUNTS[match[2]], 6)
    return int(count) if count == int(count) else None


def parse_percent(text: str) -> float | None:
    """The fraction of ``80%`` (0.8); None for anything else."""
    match = re.fullmatch(_PERCENT, text.strip())
    return float(match[1]) / 100 if match else None


def amount(value: object, parse: Callable[[str], float | None]) -> float | None:
    """A number, or a text that is one or that ``parse`` reads, as an amount; None for anything else, and for what is
    negative or endless."""
    found: float | None = None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        found = float(value)
    elif isinstance(value, str):
        found = parse(value)
        if found is None:
            found = _plain(value)
    return found if found is not None and 0 <= found < float("inf") else None


def _plain(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def parse_quantity(text: str) -> Quantity | None:
    """A quantity of any dimension; None for anything else, plain counts included."""
    for dimension, parser in _PARSERS.items():
        amount = parser(text)
        if amount is not None:
            return Quantity(amount, dimension)
    return None


def format_duration(seconds: float) -> str:
    """``600`` as ``10m``, ``5400`` as ``1h30m``, ``0.5`` as ``500ms``; rounded to milliseconds."""
    rest = round(abs(seconds) * 1000)
    if not rest:
        return "0s"
    sign = "-" if seconds < 0 else ""
    if rest < 1000:
        return f"{sign}{rest}ms"
    parts = []
    for unit in ("d", "h", "m"):
        whole, rest = divmod(rest, int(SECONDS[unit] * 1000))
        parts.append(f"{whole}{unit}" if whole else "")
    parts.append(f"{_digits(rest / 1000)}s" if rest else "")
    return sign + "".join(parts)


def duration_text(seconds: float) -> str:
    """A duration for people: ``250ms``, ``12.3s``, ``4m05s``, ``2h03m``, ``3d04h``."""
    if seconds < 0.9995:
        return f"{max(0, round(seconds * 1000))}ms"  # an imagined clock may be a hair behind
    if seconds < 59.95:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"


def format_size(size: float) -> str:
    """``50000000`` as ``50MB``, ``2147483648`` as ``2GiB``; a size that no larger unit gives exactly stays in bytes."""
    units = sorted(BYTES.items(), key=lambda unit: -unit[1])
    for unit, factor in units:
        tenths = size * 10 / factor
        if unit != "kB" and tenths == int(tenths) and abs(size) >= factor:
            return f"{_digits(size / factor)}{unit}"
    return f"{_digits(size)}B"


def format_money(dollars: float) -> str:
    """``2`` as ``$2``, ``0.5`` as ``$0.50``, ``0.00031`` as ``$0.00031``."""
    sign = "-" if dollars < 0 else ""
    dollars = abs(dollars)
    if dollars == int(dollars):
        return f"{sign}${int(dollars)}"
    return f"{sign}${dollars:.2f}" if round(dollars, 2) == round(dollars, 6) else f"{sign}${_digits(dollars)}"


def format_percent(fraction: float) -> str:
    """``0.8`` as ``80%``."""
    return f"{_digits(fraction * 100)}%"


def _digits(number: float) -> str:
    """A number without exponent and without trailing zeros, to six decimals."""
    text = f"{number:.6f}".rstrip("0").rstrip(".")
    return "0" if text in ("", "-0") else text


_FORMATS = {"time": format_duration, "size": format_size, "money": format_money, "percent": format_percent}
_PARSERS: dict[Dimension, Callable[[str], float | None]] = {
    "time": parse_duration,
    "size": parse_size,
    "money": parse_money,
    "percent": parse_percent,
}


ADDABLE = ("time", "cost", "tokens", "calls", "attempts", "iterations")
"""What may be added to a budget."""


def parse_amount(what: str, text: str) -> float | None:
    """What is added to a budget: seconds, dollars or a count; None for any other text, or 0."""
    if what not in ADDABLE:
        return None
    parse = {"time": parse_duration, "cost": parse_money}.get(what, parse_count)
    more = parse(text)
    if more is None and what == "cost":
        more = parse_count(text)
    return more or None
