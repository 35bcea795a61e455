"""Where in the file a part of an expression or of a text with templates stands."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, NamedTuple

from planrunner.plan.model import Task
from planrunner.plan.rules.reading import Site, Text
from planrunner.plan.rules.view import PlanView, find_text, region_of, span_of
from planrunner.source import Span
from planrunner.syntax.quoted import BadEscape, unquote


def place_of(view: PlanView, place: Site | Text, start: int, end: int) -> Span:
    """The place in the file of a part of an expression or a text."""
    if isinstance(place, Site):
        return _place_in(view, place.expression.text, place.expression.span, start, end)
    if place.here < 0 or place.outside:
        region = Span(0, len(view.source.text))
    else:
        region = region_of(view, view.plan.tasks[place.here], place.key)
    return _place_in(view, place.text, region, start, end)


def _place_in(view: PlanView, text: str, within: Span, start: int, end: int) -> Span:
    """Where a part of a text stands: exactly where the text stands as it is, line by line where it is indented.

    A text with escapes does not stand anywhere as it is; then the part itself is looked for, and failing that the whole
    place is given.
    """
    source = view.source.text
    at = within.start if source.startswith(text, within.start) else source.find(text, within.start, within.end)
    if at >= 0:
        return Span(at + start, at + max(end, start + 1))
    quoted = _in_quotes(source, within, text, start, end)
    if quoted is not None:
        return quoted
    first = text.rfind("\n", 0, start) + 1
    line = text[first : _end_of_line(text, first)]
    at = _line_of(source, within, line, text[:first].splitlines()) if end <= first + len(line) else -1
    if at >= 0:
        offset = start - first - (len(line) - len(line.lstrip()))
        return Span(at + offset, at + offset + max(end - start, 1))
    part = text[start:end].strip()
    return find_text(view, part, within, text.count(part, 0, start)) if part else within


_QUOTES = r"\"(?:[^\"\\\n]|\\[^\n])*\"|'(?:[^'\n]|'')*'"
_CHARACTER = r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|."


def _in_quotes(source: str, within: Span, text: str, start: int, end: int) -> Span | None:
    """Where a part of a text stands that is quoted with escapes in one line; None where no such text stands there."""
    for found in re.compile(_QUOTES).finditer(source, within.start, within.end):
        quote, inner = found[0][0], found[0][1:-1]
        each = list(re.finditer(_CHARACTER if quote == '"' else "''|.", inner))
        try:
            said = [unquote(quote + match[0] + quote) for match in each]
        except BadEscape:
            continue
        at = "".join(said).find(text)
        if at < 0 or max(map(len, said), default=0) != 1:
            continue
        first = found.start() + 1
        last = max(end, start + 1) - 1
        return Span(first + each[at + start].start(), first + each[at + last].end())
    return None


def _line_of(source: str, within: Span, line: str, before: list[str]) -> int:
    """Where a line of an indented text begins in the file, behind its indentation; -1 where no line is like it."""
    wanted = line.strip()
    left = sum(other.strip() == wanted for other in before)
    at = within.start
    while wanted and at < within.end:
        end = _end_of_line(source, at)
        if source[at:end].strip() == wanted:
            if not left:
                return source.index(wanted, at)
            left -= 1
        at = end + 1
    return -1


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


class Within(NamedTuple):
    """Data that stands under a key of a task."""

    task: Task
    key: str
    data: Any


def value_place(view: PlanView, whole: Within, path: tuple[str | int, ...], key: bool = False) -> tuple[Span, bool]:
    """The place of a value inside data of a task, or of the last key that leads to it; whether a word stands there and
    nothing else. With ``key`` the last name of the path itself is meant."""
    source, within = view.source.text, region_of(view, whole.task, whole.key)
    value = whole.data
    before: list[Any] = []
    found = span_of(whole.task, whole.key, "uses")
    for number, name in enumerate(path):
        around, value = value, value[name]
        if isinstance(name, int):
            before = around[:name]
            continue
        sign = re.compile(rf"(?<![\w.-])[\"']?({re.escape(name)})[\"']?\s*[:=][ \t]*")
        passed = sum(isinstance(each, dict) and name in each for each in before)  # by the items of a list before this
        match = next(islice(sign.finditer(source, within.start, within.end), passed, None), None)
        if match is None:
            break
        before = []
        found, within = Span(*match.span(1)), Span(match.end(), within.end)
        if key and number == len(path) - 1:
            return found, True
    if isinstance(value, str) and (at := source.find(value, within.start, within.end)) >= 0 and value:
        return Span(at, at + len(value)), True
    if isinstance(value, (list, dict)) and source[within.start : within.start + 1] in ("[", "{"):
        return Span(within.start, _closed(source, within)), False
    plain = re.compile(r"[^\s,\[\]{}()]+").match(source, within.start, within.end)
    return (Span(*plain.span()), False) if plain and not isinstance(value, (list, dict)) else (found, False)


def _closed(source: str, within: Span) -> int:
    """Where the brackets that open at the start of a place are closed, or the end of the line."""
    depth = 0
    for at in range(within.start, _end_of_line(source, within.start)):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(source[at], 0)
        if not depth:
            return at + 1
    return _end_of_line(source, within.start)
