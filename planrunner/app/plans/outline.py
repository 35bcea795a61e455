"""What a plan's text shows of its tasks and keys line by line, so that a text that does not parse can be completed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from planrunner.records import Struct

_KEY = re.compile(r"^( *)((?:- +)*)([A-Za-z_][\w-]*) *:(?= |$)(.*)$")
_ITEM = re.compile(r"^( *)- ?(.*)$")
_NAMED = re.compile(r"^ *(?:- +)(?:\{ *)?(?:id|task) *: *[\"']?([\w*.-]+)", re.MULTILINE)
_NAMED_LATER = re.compile(r"^ +(?:id|task) *: *[\"']?([\w*.-]+)", re.MULTILINE)
_NAMED_IN_TEXT = re.compile(r"^ *(?:task|gate|loop|agent) +([\w*.-]+)", re.MULTILINE)
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?\s*(?:#.*)?$")


class Line(Struct):
    """One line of a text. ``column`` is where its key begins, ``dash`` where the item begins that it opens, -1 for
    none; ``key`` is empty for a line without one, and ``value`` is what follows."""

    number: int
    column: int
    dash: int
    key: str
    value: str


class Place(NamedTuple):
    """Where a cursor stands: the ``keys`` that lead there from the root of the plan, the ``siblings`` beside it in the
    same mapping with their values, and whether it is ``inside`` a text that runs over several lines."""

    keys: tuple[str, ...]
    siblings: dict[str, str]
    inside: bool


def line_of(number: int, text: str) -> Line | None:
    """A line by its parts; None for one that is empty or a comment."""
    bare = text.strip()
    if not bare or bare.startswith("#"):
        return None
    if found := _KEY.match(text):
        indent, dashes, key, value = found.groups()
        return Line(number, len(indent) + len(dashes), len(indent) if dashes else -1, key, value.strip())
    if found := _ITEM.match(text):
        return Line(number, len(found[1]) + 2, len(found[1]), "", found[2].strip())
    return Line(number, len(text) - len(text.lstrip()), -1, "", bare)


def place_of(lines: list[str], row: int, column: int) -> Place:
    """Where the character ``column`` of line ``row`` (both from 0) stands in a YAML plan."""
    here = line_of(row, lines[row]) if row < len(lines) else None
    at = column if here is None else here.column
    keys: list[str] = []
    inside = False
    edge = at if here is None or here.dash < 0 else here.dash + 1
    for above in _above(lines, row):
        if above.key and above.column < edge:
            inside = inside or bool(_BLOCK.search(above.value))
            keys.append(above.key)
            edge = above.column
        if 0 <= above.dash < edge <= above.column:
            edge = above.dash + 1
    return Place(tuple(reversed(keys)), _siblings(lines, row, at), inside)


def _above(lines: list[str], row: int) -> Iterator[Line]:
    for number in range(min(row, len(lines)) - 1, -1, -1):
        if (line := line_of(number, lines[number])) is not None:
            yield line


def _siblings(lines: list[str], row: int, column: int) -> dict[str, str]:
    """The other keys of the mapping that a line belongs to, whose keys begin at ``column``."""
    found: dict[str, str] = {}
    own = line_of(row, lines[row]) if row < len(lines) else None
    if own is None or own.dash < 0:
        for above in _above(lines, row):
            if above.column < column and not 0 <= above.dash < column <= above.column:
                break
            if above.key and above.column == column:
                found[above.key] = above.value
            if 0 <= above.dash < column <= above.column:
                break
    for number in range(row + 1, len(lines)):
        below = line_of(number, lines[number])
        if below is None:
            continue
        if below.column < column or 0 <= below.dash < column:
            break
        if below.key and below.column == column:
            found[below.key] = below.value
    return found


def task_names(text: str) -> list[str]:
    """The ids of the tasks of a text, in its order, whatever notation it is in."""
    found = [*_NAMED.finditer(text), *_NAMED_LATER.finditer(text), *_NAMED_IN_TEXT.finditer(text)]
    return list(dict.fromkeys(each[1] for each in sorted(found, key=lambda each: each.start())))


def names_under(lines: list[str], key: str) -> list[str]:
    """The keys directly under a key at the beginning of a line, such as the parameters of a plan."""
    names: list[str] = []
    begun, column = False, -1
    for number, text in enumerate(lines):
        line = line_of(number, text)
        if line is None:
            continue
        if begun and line.column == 0:
            break
        if begun and line.key and column in (-1, line.column):
            column = line.column
            names.append(line.key)
        begun = begun or (line.column == 0 and line.key == key)
    return names


def fields_of(lines: list[str], task: str) -> dict[str, str]:
    """The keys of a task with their values; empty for one that is not there."""
    for number, text in enumerate(lines):
        line = line_of(number, text)
        if line is not None and line.key in ("id", "task") and line.value.strip("\"'") == task:
            return {line.key: line.value, **_siblings(lines, number, line.column)}
    return {}


def outputs_of(lines: list[str], task: str) -> list[str]:
    """The names of the outputs that a task declares in the text."""
    declared = fields_of(lines, task).get("outputs", "")
    if declared.startswith("{"):
        return re.findall(r"([\w-]+) *:", declared)
    for number, text in enumerate(lines):
        line = line_of(number, text)
        if line is None or line.key != "outputs" or line.value:
            continue
        owner = _siblings(lines, number, line.column).get("id", "").strip("\"'")
        if owner == task:
            return _keys_below(lines, number, line.column)
    return []


def _keys_below(lines: list[str], row: int, column: int) -> list[str]:
    names, inner = [], -1
    for number in range(row + 1, len(lines)):
        line = line_of(number, lines[number])
        if line is None:
            continue
        if line.column <= column:
            break
        inner = line.column if inner < 0 else inner
        if line.key and line.column == inner:
            names.append(line.key)
    return names
