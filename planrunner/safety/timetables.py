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
    """What is wrong with a time table, in words; empty where nothing is. The clock goes by this too: what passes here
    has times."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"a time table has five fields (minute, hour, day, month, day of the week), not {len(fields)}"
    for text_of, field in zip(fields, _FIELDS, strict=True):
        for part in text_of.split(","):
            if wrong := _part_fault(part, field):
                return wrong
    return _day_fault(fields)


def _part_fault(part: str, field: tuple[str, int, int, tuple[str, ...]]) -> str:
    what, least, most, names = field
    span, slash, step = part.partition("/")
    nth = "1"
    if names is _DAYS and "#" in part:
        span, _, nth = part.partition("#")
        slash = ""
    first, dash, last = span.partition("-")
    is_whole = span == "*" or (span.upper() == "L" and what == "day of the month")
    numbers = [] if is_whole else [_number(end, names) for end in (first, *([last] if dash else []))]
    misfits = any(not least <= each <= most for each in numbers)
    if misfits or (slash and not _number(step, ()) > 0) or nth not in tuple("12345") or (dash and "#" in part):
        kind = f"an {what}" if what == "hour" else f"a {what}"
        return f"`{part}` is not {kind}: write a number from {least} to {most}, `*`, `1-5`, `*/2` or a list"
    if dash and numbers[0] > numbers[1]:
        begin = 1 if names is _DAYS else least
        rest = {-1: "", 0: f",{last}"}.get(numbers[1] - begin, f",{begin}-{last}")
        return f"`{part}` ends before it begins: write `{first}-{most}{rest}`"
    return ""


_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of the months."""


def _day_fault(fields: list[str]) -> str:
    """Whether no month has the days: they count with the weekdays where one of the two begins with ``*``, else the
    weekdays do alone."""
    _, _, days, months, weekdays = fields
    if "l" in days.lower() or not (days.startswith("*") or weekdays.startswith("*")):
        return ""
    first = min(known := _members(days, _FIELDS[2]))
    if "#" in weekdays and all("#" in part for part in weekdays.split(",")):
        numbers = [int(part.partition("#")[2]) for part in weekdays.split(",")]
        if not known & {day for nth in numbers for day in range(7 * nth - 6, 7 * nth + 1)}:
            return f"`{' '.join(fields)}` never comes: `{weekdays}` is never a day of `{days}`"
    if first <= max(_LONGEST[month - 1] for month in _members(months, _FIELDS[3])):
        return ""
    return f"`{' '.join(fields)}` never comes: no month of `{months}` has a day {first}"


def _members(text: str, field: tuple[str, int, int, tuple[str, ...]]) -> set[int]:
    """The numbers that a sound field stands for."""
    _, least, most, names = field
    numbers: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        begin = least if span == "*" else _number(first, names)
        end = _number(last, names) if dash else most if slash or span == "*" else begin
        numbers.update(range(begin, end + 1, int(step) if slash else 1))
    return numbers


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
