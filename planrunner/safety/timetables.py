"""Time tables of five fields, as cron reads them, and time zones: what is wrong with one."""

from __future__ import annotations

from zoneinfo import ZoneInfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)


def cron_fault(text: str) -> str:
    """What is wrong with a time table, in words; empty where nothing is."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"a time table has five fields (minute, hour, day, month, day of the week), not {len(fields)}"
    for field, (what, least, most, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            span, slash, step = part.partition("/")
            first, dash, last = span.partition("-")
            is_whole = span == "*" or (span == "L" and what == "day of the month")
            ends = [] if is_whole else [first, *([last] if dash else [])]
            numbers = [_number(end.partition("#")[0] if names is _DAYS else end, names) for end in ends]
            if (slash and not (step.isdigit() and int(step))) or any(not least <= each <= most for each in numbers):
                kind = f"an {what}" if what == "hour" else f"a {what}"
                return f"`{part}` is not {kind}: write a number from {least} to {most}, `*`, `1-5`, `*/2` or a list"
    return ""


def _number(text: str, names: tuple[str, ...]) -> int:
    """The number that a part of a field stands for, -1 for any other text."""
    if text.lower() in names:
        return names.index(text.lower()) + (names is _MONTHS)
    return int(text) if text.isdigit() and text.isascii() and len(text) < 4 else -1


def zone_fault(name: str) -> str:
    """What is wrong with the name of a time zone; empty where nothing is."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return f"`{name}` is not a time zone: write one such as `Europe/Berlin` or `UTC`"
    return ""
