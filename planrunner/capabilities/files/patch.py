"""Reads unified diffs, strictly in what they may do and leniently in how they count.

Text that people and models write has wrong line counts, headers without numbers and empty lines that lost their space;
all of that is understood. Modes, links, copies and binary parts are not: they are refused with their line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from planrunner.capabilities.contract import Failure

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
    """Where a hunk ends whose counts are wrong or missing: before whatever is no line of a hunk."""
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
