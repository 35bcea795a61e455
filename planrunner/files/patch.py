"""Unified diffs, and blocks of search and replace: read strictly, applied where their context fits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from planrunner.failures import Failure

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))?")
_PREFIXES = (("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/"))
_REFUSED = {
    "old mode ": "changes permissions",
    "new mode ": "changes permissions",
    "copy from ": "copies a file",
    "copy to ": "copies a file",
    "GIT binary patch": "is binary",
    "Binary files ": "is binary",
    "Files ": "is binary",
    "Subproject commit": "changes a submodule",
}
_QUOTED = re.compile(r'\\([0-7]{3}|[abfnrtv"\\])')
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


class Hunk(NamedTuple):
    """``old`` and ``new`` are its two sides in lines without their ends; ``same`` pairs those that are context, by
    their numbers on either side. ``start`` is the first old line, from 1, and ``new_start`` the first new one; None
    where the header tells no number. ``bare`` says of each side that its last line has no end, None where the diff does
    not tell."""

    header: str
    start: int | None
    new_start: int | None
    old: tuple[str, ...]
    new: tuple[str, ...]
    same: tuple[tuple[int, int], ...]
    bare: tuple[bool, bool] | None = None

    def reversed(self) -> Hunk:
        """The hunk that takes it back."""
        bare = None if self.bare is None else (self.bare[1], self.bare[0])
        same = tuple((new, old) for old, new in self.same)
        return Hunk(self.header, self.new_start, self.start, self.new, self.old, same, bare)


class FilePatch(NamedTuple):
    """What happens to one file. ``old`` is empty for a new file, ``new`` for one that is deleted."""

    old: str
    new: str
    hunks: tuple[Hunk, ...]


class _Section:
    """One file's part of a diff while it is read."""

    __slots__ = ("hunks", "line", "made", "names", "new", "old", "removed", "renamed")

    def __init__(self, line: int, names: str) -> None:
        self.line = line
        self.names = names
        self.old: str | None = None
        self.new: str | None = None
        self.made = self.removed = False
        self.renamed: dict[str, str] = {}
        self.hunks: list[Hunk] = []


def parse_diff(diff: str) -> tuple[FilePatch, ...]:
    """The files of a diff. Raises Failure that names the line; the class is ``policy`` for what is refused."""
    lines = diff.removesuffix("\n").split("\n")
    sections: list[_Section] = []
    at = 0
    while at < len(lines):
        line = lines[at].rstrip("\r")
        if line.startswith("diff --git "):
            sections.append(_Section(at + 1, line[11:]))
        elif _is_header(lines, at):
            if not sections or sections[-1].old is not None:
                sections.append(_Section(at + 1, ""))
            sections[-1].old, sections[-1].new = _name(line[4:]), _name(lines[at + 1].rstrip("\r")[4:])
            at += 1
        elif line.startswith("@@") and sections:
            at = _read_hunk(lines, at, sections[-1])
            continue
        elif sections and _is_over(lines, at):
            pass
        elif sections:
            _read_extension(line, at + 1, sections[-1])
        at += 1
    if not sections:
        raise Failure("the diff names no file: expected a line `--- a/path` and a line `+++ b/path`")
    return tuple(_file_patch(section) for section in sections)


def _is_header(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _is_over(lines: Sequence[str], at: int) -> bool:
    """Whether nothing of a hunk is here: the end, an empty line, a fence, or the signature under a mailed diff."""
    line = lines[at].strip()
    return line in ("", "--") or line.startswith("```") or (at > 0 and lines[at - 1].strip() == "--")


def _read_extension(line: str, number: int, section: _Section) -> None:
    for start, what in _REFUSED.items():
        if line.startswith(start):
            raise Failure(
                f"line {number} of the diff {what}, which an edit does not: `{line}`", "policy", rule="files.patch"
            )
    word, _, rest = line.rpartition(" ")
    if word in ("new file mode", "deleted file mode"):
        if rest != "100644" and not (word == "deleted file mode" and rest == "100755"):
            raise Failure(
                f"line {number} of the diff sets a mode, which an edit does not: `{line}`", "policy", rule="files.patch"
            )
        section.made, section.removed = word == "new file mode", word != "new file mode"
    elif line.startswith(("rename from ", "rename to ")):
        _, side, path = line.split(" ", 2)
        section.renamed[side] = _unquoted(path)
    elif line.startswith("index "):
        if rest in ("120000", "160000"):
            raise Failure(
                f"line {number} of the diff is about a link or a submodule: `{line}`", "policy", rule="files.patch"
            )
    elif not line.startswith(("similarity index ", "dissimilarity index ", "Index: ", "======")):
        if section.old is not None and not section.hunks and line[:1] in (" ", "+", "-"):
            raise Failure(f"line {number} of the diff stands under no head of a hunk: expected a line `@@` above it")
        if section.old is not None or not section.names:
            raise Failure(
                f"line {number} of the diff begins with {line[:1]!r}: expected a space, + or -, or the head of a hunk"
            )
        raise Failure(f"line {number} of the diff is not understood: `{line[:80]}`")


def _read_hunk(lines: Sequence[str], at: int, section: _Section) -> int:
    """Read the hunk whose header is at this line. Gives the number of the line after it."""
    header = lines[at].rstrip("\r")
    if header.startswith("@@@"):
        raise Failure(f"line {at + 1} of the diff is about a merge, which has no single state before it")
    if section.old is None and not section.names:
        raise Failure(f"line {at + 1} of the diff is a hunk of no file")
    numbers = _HUNK.match(header)
    end = None
    if numbers:
        end = _counted(lines, at + 1, _count(numbers[2]), _count(numbers[4]))
    if end is None:
        end = _uncounted(lines, at + 1)
    if end == at + 1:
        raise Failure(f"line {at + 1} of the diff is a hunk without lines")
    start, new_start = (int(numbers[1]), int(numbers[3])) if numbers else (None, None)
    section.hunks.append(_hunk(header, start, new_start, lines[at + 1 : end]))
    return end


def _count(text: str | None) -> int:
    return 1 if text is None else int(text)


def _counted(lines: Sequence[str], at: int, old: int, new: int) -> int | None:
    """Where a hunk of so many lines ends; None when the counts do not lead to an end."""
    while (old > 0 or new > 0) and at < len(lines):
        sign = lines[at][:1]
        if sign not in ("", " ", "\r", "-", "+", "\\"):
            return None
        old -= sign in ("", " ", "\r", "-")
        new -= sign in ("", " ", "\r", "+")
        at += 1
    if old or new:
        return None
    if at < len(lines) and lines[at].startswith("\\"):
        at += 1
    after = at
    while after < len(lines) and not lines[after].strip():
        after += 1
    ended = after == len(lines) or _begins(lines, after) or _is_over(lines, after)
    return at if ended else None


def _begins(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith(("@@", "diff --git ", "Index: ")) or _is_header(lines, at)


def _uncounted(lines: Sequence[str], at: int) -> int:
    """Where a hunk ends whose counts are wrong or missing: before the first line that does not belong to one."""
    start = at
    while at < len(lines) and not _begins(lines, at) and (lines[at][:1] in ("", " ", "-", "+", "\\", "\r")):
        if lines[at].rstrip() == "--" and _is_over(lines, at + 1 if at + 1 < len(lines) else at):
            break
        at += 1
    while at > start and not lines[at - 1].strip("\r"):
        at -= 1  # empty lines at the end divide, they belong to no hunk
    return at


def _hunk(header: str, start: int | None, new_start: int | None, lines: Sequence[str]) -> Hunk:
    old: list[str] = []
    new: list[str] = []
    same: list[tuple[int, int]] = []
    bare: list[bool] | None = None
    last = ""
    for line in lines:
        sign, text = line[:1], line[1:]
        if sign == "\\":
            bare = bare or [False, False]
            bare[0] |= last != "+"
            bare[1] |= last != "-"
            continue
        if sign in ("", "\r"):
            sign, text = " ", line
        if sign == " ":
            same.append((len(old), len(new)))
        if sign != "+":
            old.append(text)
        if sign != "-":
            new.append(text)
        last = sign
    ends = (bare[0], bare[1]) if bare else None
    return Hunk(header, start, new_start, tuple(old), tuple(new), tuple(same), ends)


def _name(text: str) -> str:
    """A path as a header line has it: without the time after it, out of its quotes."""
    return _unquoted(text.split("\t", maxsplit=1)[0].rstrip() if not text.startswith('"') else text)


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    body = text[1 : text.rfind('"')] if text.rfind('"') > 0 else text[1:]
    data = bytearray()
    at = 0
    for found in _QUOTED.finditer(body):
        data += body[at : found.start()].encode("utf-8", "surrogateescape")
        data.append(_ESCAPES[found[1]] if found[1] in _ESCAPES else int(found[1], 8) & 0xFF)
        at = found.end()
    data += body[at:].encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "surrogateescape")


def _file_patch(section: _Section) -> FilePatch:
    old, new = _stripped(*_named(section))
    if section.renamed:
        if set(section.renamed) != {"from", "to"}:
            raise Failure(f"line {section.line} of the diff: a rename needs `rename from` and `rename to`")
        old, new = section.renamed["from"], section.renamed["to"]
    elif old and new and old != new:
        raise Failure(f"line {section.line} of the diff names two files, `{old}` and `{new}`")
    if section.old is not None and not section.hunks and not section.renamed:
        raise Failure(f"line {section.line} of the diff: `{new or old}` has no hunk")
    return FilePatch("" if section.made else old, "" if section.removed else new, tuple(section.hunks))


def _named(section: _Section) -> tuple[str, str]:
    if section.old is not None and section.new is not None:
        return section.old, section.new
    names = section.names
    half = len(names) // 2
    if names.startswith('"') or names[:2] != "a/" or names[half : half + 3] != " b/":
        if section.renamed:
            return "", ""
        raise Failure(f"line {section.line} of the diff names no file that could be told: `{names}`")
    return names[:half], names[half + 1 :]


def _stripped(old: str, new: str) -> tuple[str, str]:
    """The two paths without the letters before them; empty for ``/dev/null``."""
    nothing = "/dev/null"
    for first, second in _PREFIXES:
        if (old == nothing or old.startswith(first)) and (new == nothing or new.startswith(second)):
            old, new = (old if old == nothing else old[2:]), (new if new == nothing else new[2:])
            break
    if old == new == nothing:
        raise Failure("the diff names no file: both sides are /dev/null")
    return "" if old == nothing else old, "" if new == nothing else new


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


class Replacement(NamedTuple):
    """One block: what to look for, what takes its place, whether wherever it stands; ``number`` names it."""

    search: str
    replace: str
    everywhere: bool
    number: int


def apply_replacements(text: str, blocks: Sequence[Replacement]) -> str:
    """The text after the blocks, one after the other. Raises Misfit when one fits nowhere, or at several places, and
    they were not applied before."""
    try:
        return _block_applied(text, blocks, recognise=True)
    except Misfit:
        turned = [block._replace(search=block.replace, replace=block.search) for block in reversed(blocks)]
        try:
            before = _block_applied(text, turned, recognise=False)
            if _block_applied(before, blocks, recognise=False) == text:
                return text
        except Misfit:
            pass
        raise


def _block_applied(text: str, blocks: Sequence[Replacement], recognise: bool) -> str:
    for block in blocks:
        text = _replaced(text, block, recognise)
    return text


def _replaced(text: str, block: Replacement, recognise: bool) -> str:
    if "\r\n" in text and "\r" not in block.search + block.replace and not _starts(text, block.search):
        search, replace = (part.replace("\n", "\r\n") for part in (block.search, block.replace))
        block = block._replace(search=search, replace=replace)
    if not block.search:
        raise Misfit(f"block {block.number} searches for nothing, which only a new file has")
    done = _starts(text, block.replace) if block.replace and recognise else []
    inside = block.replace.find(block.search) >= 0
    covered = [(at, at + len(block.replace)) for at in done] if inside else []
    places = [
        at
        for at in _starts(text, block.search)
        if not any(low <= at and at + len(block.search) <= high for low, high in covered)
    ]
    if not places:
        if done:
            return text
        lines = text.split("\n")
        raise Misfit(f"block {block.number} is not there: {nearest(lines, block.search.split(chr(10)), None)}")
    if len(places) > 1 and not block.everywhere:
        told = ", ".join(str(text.count("\n", 0, at) + 1) for at in places[:4]) + (" …" if len(places) > 4 else "")
        raise Misfit(
            f"block {block.number} stands {len(places)} times, at lines {told}: give more context, or `all: true`"
        )
    return _spliced(text, places, block)


def _spliced(text: str, places: Sequence[int], block: Replacement) -> str:
    parts, at = [], 0
    for place in places:
        parts += [text[at:place], block.replace]
        at = place + len(block.search)
    return "".join([*parts, text[at:]])


def _starts(text: str, wanted: str) -> list[int]:
    """Where it stands, counted without overlaps."""
    found: list[int] = []
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + len(wanted))
    return found
