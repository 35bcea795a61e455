"""Unified diffs, and blocks of search and replace: read strictly, applied where their context fits."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from planrunner.failures import Failure
from planrunner.records import Struct

_NOTHING = "/dev/null"
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


class Hunk(Struct):
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
            raise Failure(f"line {number} of the diff {what}, which an edit does not: `{line}`", rule="files.patch")
    word, _, rest = line.rpartition(" ")
    if word in ("new file mode", "deleted file mode"):
        if rest != "100644" and not (word == "deleted file mode" and rest == "100755"):
            raise Failure(
                f"line {number} of the diff sets a mode, which an edit does not: `{line}`", rule="files.patch"
            )
        section.made, section.removed = word == "new file mode", word != "new file mode"
    elif line.startswith(("rename from ", "rename to ")):
        _, side, path = line.split(" ", 2)
        section.renamed[side] = _unquoted(path)
    elif line.startswith("index "):
        if rest in ("120000", "160000"):
            raise Failure(f"line {number} of the diff is about a link or a submodule: `{line}`", rule="files.patch")
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
        end = _counted(lines, at + 1, int(numbers[2] or 1), int(numbers[4] or 1))
    if end is None:
        end = _uncounted(lines, at + 1)
    if end == at + 1:
        raise Failure(f"line {at + 1} of the diff is a hunk without lines")
    start, new_start = (int(numbers[1]), int(numbers[3])) if numbers else (None, None)
    section.hunks.append(_hunk(header, start, new_start, lines[at + 1 : end]))
    return end


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
    line, renamed = section.line, section.renamed
    half = len(section.names) // 2
    if section.old is not None and section.new is not None:
        old, new = section.old, section.new
    elif section.names[:2] == "a/" and section.names[half : half + 3] == " b/":
        old, new = section.names[:half], section.names[half + 1 :]
    elif renamed:
        old = new = ""
    else:
        raise Failure(f"line {line} of the diff names no file that could be told: `{section.names}`")
    for first, second in _PREFIXES:
        if (old == _NOTHING or old.startswith(first)) and (new == _NOTHING or new.startswith(second)):
            old, new = (side if side == _NOTHING else side[2:] for side in (old, new))
            break
    if old == new == _NOTHING:
        raise Failure("the diff names no file: both sides are /dev/null")
    old, new = ("" if side == _NOTHING else side for side in (old, new))
    if renamed:
        if set(renamed) != {"from", "to"}:
            raise Failure(f"line {line} of the diff: a rename needs `rename from` and `rename to`")
        old, new = renamed["from"], renamed["to"]
    elif old and new and old != new:
        raise Failure(f"line {line} of the diff names two files, `{old}` and `{new}`")
    if section.old is not None and not section.hunks and not renamed:
        raise Failure(f"line {line} of the diff: `{new or old}` has no hunk")
    return FilePatch("" if section.made else old, "" if section.removed else new, tuple(section.hunks))


_NEAR = 2_000_000
"""Comparisons of lines that the search for the nearest place may take."""


_Part = TypeVar("_Part")


class Misfit(Exception):
    """A part of an edit that fits nowhere, or not at one place alone; the message says what was expected and found."""


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> str:
    """The text after the hunks. Raises Misfit, the first one told, when they neither fit nor were applied before."""
    return _applied_once(_hunks_applied, text, hunks, [hunk.reversed() for hunk in hunks])


def _applied_once(
    apply: Callable[[str, Sequence[_Part], bool], str], text: str, parts: Sequence[_Part], backward: Sequence[_Part]
) -> str:
    """The text after the parts; unchanged where taking them back and applying them again gives it."""
    try:
        return apply(text, parts, True)
    except Misfit:
        with contextlib.suppress(Misfit):
            if apply(apply(text, backward, False), parts, False) == text:
                return text
        raise


def _hunks_applied(text: str, hunks: Sequence[Hunk], recognise: bool) -> str:
    """First to the letter; then, where only one side ends its lines with a carriage return, without regard to it: lines
    that are kept keep theirs, new ones get the usual."""
    lines = text.split("\n")
    ended = lines[-1] == ""
    if ended:
        lines.pop()
    try:
        pieces, ends = _pieces(lines, ended, hunks, recognise)
        after = [line for _, line in pieces]
    except Misfit:
        ours = "\r\n" in text
        if ours == any(line.endswith("\r") for hunk in hunks for line in (*hunk.old, *hunk.new)):
            raise
        old, bare = lines, [line.removesuffix("\r") if ours else line for line in lines]
        sides = (([line.removesuffix("\r") for line in side] for side in (hunk.old, hunk.new)) for hunk in hunks)
        plain = [hunk._replace(old=tuple(was), new=tuple(now)) for hunk, (was, now) in zip(hunks, sides, strict=True)]
        pieces, ends = _pieces(bare, ended, plain, recognise)
        usual = "\r" if ours and 2 * sum(line.endswith("\r") for line in old) >= len(old) else ""
        after = [old[number] if number is not None else line + usual for number, line in pieces]
        if ours and not ends and after:
            after[-1] = after[-1].removesuffix("\r")
    return "\n".join(after) + ("\n" if ends and after else "")


def _pieces(
    lines: list[str], ended: bool, hunks: Sequence[Hunk], recognise: bool
) -> tuple[list[tuple[int | None, str]], bool]:
    """The lines of the result, each with the number of the old line that it is (None for a new one), and whether the
    last one has an end."""
    pieces: list[tuple[int | None, str]] = []
    at = shift = 0
    for number, hunk in enumerate(hunks, 1):
        expected = None if hunk.start is None else max(hunk.start - (1 if hunk.old else 0), 0) + shift
        place, applied = _find(lines, hunk, (at, expected, number), recognise)
        pieces += enumerate(lines[at:place], at)
        at = place + len(hunk.new if applied else hunk.old)
        if applied:
            pieces += enumerate(lines[place:at], place)
        else:
            kept = {new: place + old for old, new in hunk.same}
            pieces += [(kept.get(index), line) for index, line in enumerate(hunk.new)]
        if expected is not None:
            shift += place - expected
        if at == len(lines) and hunk.bare is not None and not applied:
            ended = not hunk.bare[1]
    return [*pieces, *enumerate(lines[at:], at)], ended


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
    """Where the lines stand one after the other, from ``low`` on."""
    if not wanted:
        return [low]
    first, *_ = whole = list(wanted)
    starts = (at for at in range(low, len(lines) - len(whole) + 1) if lines[at] == first)
    return [at for at in starts if lines[at : at + len(whole)] == whole]


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
        total = 0.0
        for one, other in zip(lines[at : at + len(wanted)], wanted, strict=False):
            same = 1.0 if one.strip() else 0.1
            total += same if one == other else 0.5 if one.split() == other.split() else 0.0
        if total > score or (total == score and score and abs(at - (expected or 0)) < abs(best - (expected or 0))):
            best, score = at, total
    if not score:
        return f"none of its lines is in the text, which has {len(lines)} lines"
    off = next(
        (i for i, line in enumerate(wanted) if best + i >= len(lines) or lines[best + i] != line), len(wanted) - 1
    )
    present = lines[best + off] if best + off < len(lines) else None
    actual = "the text ends" if present is None else f"found {_shown(present)}"
    white = present is not None and present.split() == wanted[off].split() and present != wanted[off]
    return (
        f"nearest is line {best + 1}; expected {_shown(wanted[off])} at line {best + off + 1}, {actual}"
        f"{' (they differ in white space alone)' if white else ''}"
    )


def _shown(line: str) -> str:
    return f"`{line if len(line) <= 100 else line[:99] + '…'}`" if line.strip() else repr(line)


class Replacement(Struct):
    """One block: what to look for, what takes its place, whether wherever it stands; ``number`` names it."""

    search: str
    replace: str
    everywhere: bool
    number: int


def apply_replacements(text: str, blocks: Sequence[Replacement]) -> str:
    """The text after the blocks, one after the other. Raises Misfit when one fits nowhere, or at several places, and
    they were not applied before."""
    backward = [block._replace(search=block.replace, replace=block.search) for block in reversed(blocks)]
    return _applied_once(_blocks_applied, text, blocks, backward)


def _blocks_applied(text: str, blocks: Sequence[Replacement], recognise: bool) -> str:
    for block in blocks:
        text = _replaced(text, block, recognise)
    return text


def _replaced(text: str, block: Replacement, recognise: bool) -> str:
    if "\r\n" in text and "\r" not in block.search + block.replace and not _starts(text, block.search):
        search, replace = (part.replace("\n", "\r\n") for part in (block.search, block.replace))
        block = block._replace(search=search, replace=replace)
    if not block.search:
        raise Misfit(f"block {block.number} searches for nothing, which only a new file has")
    applied = _starts(text, block.replace) if block.replace and recognise else []
    covered = [(at, at + len(block.replace)) for at in applied] if block.search in block.replace else []
    places = [
        at
        for at in _starts(text, block.search)
        if not any(low <= at and at + len(block.search) <= high for low, high in covered)
    ]
    if not places:
        if applied:
            return text
        raise Misfit(
            f"block {block.number} is not there: {nearest(text.split(chr(10)), block.search.split(chr(10)), None)}"
        )
    if len(places) > 1 and not block.everywhere:
        numbers = ", ".join(str(text.count("\n", 0, at) + 1) for at in places[:4]) + (" …" if len(places) > 4 else "")
        raise Misfit(
            f"block {block.number} stands {len(places)} times, at lines {numbers}: give more context, or `all: true`"
        )
    parts, at = [], 0
    for place in places:
        parts += [text[at:place], block.replace]
        at = place + len(block.search)
    return "".join([*parts, text[at:]])


def _starts(text: str, wanted: str) -> list[int]:
    """Where it stands, counted without overlaps."""
    return [match.start() for match in re.finditer(re.escape(wanted), text)] if wanted else []
