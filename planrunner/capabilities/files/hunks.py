"""Applies the hunks of a diff to a text: shifted as far as need be, but only where their context fits line by line.

A hunk that fits at several places and not where its header says is refused: a wrong place is worse than none. A text
to which the hunks have been applied already is recognised and comes back as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planrunner.capabilities.files.patch import Hunk


_NEAR = 2_000_000
"""Comparisons of lines that the search for the nearest place may take."""


class Misfit(Exception):
    """A part of an edit that fits nowhere, or not at one place alone; the message says what was expected and found."""


class _Text(NamedTuple):
    lines: list[str]
    ended: bool
    """Whether the last line has an end."""


def _split(text: str) -> _Text:
    lines = text.split("\n")
    if lines[-1] == "":
        return _Text(lines[:-1], True)
    return _Text(lines, False)


def _joined(text: _Text) -> str:
    return "\n".join(text.lines) + ("\n" if text.ended and text.lines else "")


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> str:
    """The text after the hunks. Raises Misfit, the first one told, when they neither fit nor were applied before."""
    try:
        return _hunk_applied(text, hunks, recognise=True)
    except Misfit:
        backward = [hunk.reversed() for hunk in hunks]
        try:
            before = _hunk_applied(text, backward, recognise=False)
            if _hunk_applied(before, hunks, recognise=False) == text:
                return text
        except Misfit:
            pass
        raise


def _hunk_applied(text: str, hunks: Sequence[Hunk], recognise: bool) -> str:
    """First to the letter; then, where only one side ends its lines with a carriage return, without regard to it."""
    try:
        return _joined(_laid(_split(text), hunks, recognise))
    except Misfit:
        theirs = any(line.endswith("\r") for hunk in hunks for line in (*hunk.old, *hunk.new))
        ours = "\r\n" in text
        if theirs == ours:
            raise
    if theirs:
        return _joined(_laid(_split(text), [_without_returns(hunk) for hunk in hunks], recognise))
    return _with_returns(_split(text), hunks, recognise)


def _without_returns(hunk: Hunk) -> Hunk:
    old, new = (tuple(line.removesuffix("\r") for line in side) for side in (hunk.old, hunk.new))
    return hunk._replace(old=old, new=new)


def _with_returns(text: _Text, hunks: Sequence[Hunk], recognise: bool) -> str:
    """Apply hunks without carriage returns to a text that has them: kept lines keep theirs, new ones get the usual."""
    marked = [line.endswith("\r") for line in text.lines]
    bare = _Text([line.removesuffix("\r") for line in text.lines], text.ended)
    pieces = _pieces(bare, hunks, recognise)
    usual = sum(marked) * 2 >= len(marked)
    lines: list[str] = []
    for old_at, line in pieces.lines:
        lines.append(text.lines[old_at] if old_at is not None else line + "\r" * usual)
    if not pieces.ended and lines:
        lines[-1] = lines[-1].removesuffix("\r")
    return _joined(_Text(lines, pieces.ended))


class _Pieces(NamedTuple):
    """The lines of the result, each with the number of the old line that it is; None for a new one."""

    lines: list[tuple[int | None, str]]
    ended: bool


def _laid(text: _Text, hunks: Sequence[Hunk], recognise: bool) -> _Text:
    pieces = _pieces(text, hunks, recognise)
    return _Text([line for _, line in pieces.lines], pieces.ended)


def _pieces(text: _Text, hunks: Sequence[Hunk], recognise: bool) -> _Pieces:
    lines: list[tuple[int | None, str]] = []
    at, shift, ended = 0, 0, text.ended
    for number, hunk in enumerate(hunks, 1):
        expected = None if hunk.start is None else max(hunk.start - (1 if hunk.old else 0), 0) + shift
        place, done = _find(text.lines, hunk, (at, expected, number), recognise)
        lines += enumerate(text.lines[at:place], at)
        at = place + len(hunk.new if done else hunk.old)
        if done:
            lines += enumerate(text.lines[place:at], place)
        else:
            lines += _sides(hunk, place)
        if expected is not None:
            shift += place - expected
        if at == len(text.lines) and hunk.bare is not None and not done:
            ended = not hunk.bare[1]
    lines += enumerate(text.lines[at:], at)
    return _Pieces(lines, ended)


def _sides(hunk: Hunk, place: int) -> list[tuple[int | None, str]]:
    """The new side, its lines that are context known by their place in the old one."""
    known = {new: place + old for old, new in hunk.same}
    return [(known.get(number), line) for number, line in enumerate(hunk.new)]


def _find(lines: list[str], hunk: Hunk, where: tuple[int, int | None, int], recognise: bool) -> tuple[int, bool]:
    """Where the old side stands, and whether the new one stands there already."""
    low, expected, number = where
    if not hunk.old and lines:
        raise Misfit(f"{_label(hunk, number)} has no context: nothing says where its lines belong")
    places = _places(lines, hunk.old, low)
    if recognise:
        done = {place: first for place in places for first in _covers(lines, hunk, place)}
        places = [place for place in places if place not in done]
        if not places and done:
            return min(done.values(), key=lambda place: abs(place - (expected or 0))), True
    if expected in places:
        return expected, False
    if len(places) == 1:
        return places[0], False
    if places:
        told = ", ".join(str(place + 1) for place in places[:4]) + (" …" if len(places) > 4 else "")
        raise Misfit(f"{_label(hunk, number)} fits at lines {told}, and not at the line it names: give more context")
    raise Misfit(f"{_label(hunk, number)} does not fit: {nearest(lines, hunk.old, expected)}")


def _places(lines: list[str], wanted: Sequence[str], low: int) -> list[int]:
    size = len(wanted)
    if not size:
        return [low]
    found: list[int] = []
    at, rest = low - 1, list(wanted)
    while True:
        try:
            at = lines.index(rest[0], at + 1)
        except ValueError:
            return found
        if lines[at : at + size] == rest:
            found.append(at)


def _covers(lines: list[str], hunk: Hunk, place: int) -> list[int]:
    """Where the new side begins of which this place of the old side is a part: for a hunk that only adds lines, before
    or after its context."""
    size, more = len(hunk.old), len(hunk.new) - len(hunk.old)
    if more <= 0:
        return []
    starts = [place] if hunk.new[:size] == hunk.old else []
    starts += [place - more] if hunk.new[more:] == hunk.old else []
    return [start for start in starts if start >= 0 and lines[start : start + len(hunk.new)] == list(hunk.new)]


def _label(hunk: Hunk, number: int) -> str:
    return f"hunk {number} (`{hunk.header[:60]}`)"


def nearest(lines: list[str], wanted: Sequence[str], expected: int | None) -> str:
    """Where most lines are as wanted, and the first that is not."""
    span = range(max(len(lines) - len(wanted) + 1, 1))
    if len(span) * len(wanted) > _NEAR:
        reach = _NEAR // (2 * len(wanted))
        span = range(max((expected or 0) - reach, 0), min((expected or 0) + reach, span.stop))
    best, score = 0, 0.0
    for at in span:
        found = sum(_alike(one, other) for one, other in zip(lines[at : at + len(wanted)], wanted, strict=False))
        if found > score or (found == score and score and abs(at - (expected or 0)) < abs(best - (expected or 0))):
            best, score = at, found
    if not score:
        return f"none of its lines is in the text, which has {len(lines)} lines"
    off = next(
        (i for i, line in enumerate(wanted) if best + i >= len(lines) or lines[best + i] != line), len(wanted) - 1
    )
    there = lines[best + off] if best + off < len(lines) else None
    told = "the text ends" if there is None else f"found {_shown(there)}"
    white = there is not None and there.split() == wanted[off].split() and there != wanted[off]
    return (
        f"nearest is line {best + 1}; expected {_shown(wanted[off])} at line {best + off + 1}, {told}"
        f"{' (they differ in white space alone)' if white else ''}"
    )


def _alike(one: str, other: str) -> float:
    if one == other:
        return 1.0 if one.strip() else 0.1
    return 0.5 if one.split() == other.split() else 0.0


def _shown(line: str) -> str:
    return f"`{line if len(line) <= 100 else line[:99] + '…'}`" if line.strip() else repr(line)
