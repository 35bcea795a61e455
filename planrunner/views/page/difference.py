"""Two texts line by line: what the page shows of a change, with the changed part of a line marked."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from planrunner.records import Struct

_AROUND = 3
"""Lines that are shown around a change."""
_MOST = 4_000
"""Lines of a text that are compared."""


class Line(Struct):
    """A line of a difference. ``kind`` is add, del, cut (lines that are left out, counted in ``text``) or empty for a
    line that did not change; ``number`` is its place in the text it comes from. ``marked`` is the part of ``text`` that
    changed, between ``text`` before and ``rest`` after it."""

    kind: str
    number: int
    text: str
    marked: str = ""
    rest: str = ""

    @property
    def sign(self) -> str:
        return {"add": "+", "del": "−"}.get(self.kind, " ")


def difference(before: str, after: str) -> tuple[Line, ...]:
    """What changed between two texts; empty where nothing did."""
    old, new = before.splitlines()[:_MOST], after.splitlines()[:_MOST]
    if old == new:
        return ()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    lines: list[Line] = []
    end = 0
    for group in matcher.get_grouped_opcodes(_AROUND):
        start = group[0][3]
        if start > end:
            lines.append(Line("cut", 0, f"{start - end} unchanged lines"))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [Line("", at + 1, new[at]) for at in range(j1, j2)]
            else:
                lines += _changed(old[i1:i2], i1, new[j1:j2], j1)
        end = group[-1][4]
    if len(new) > end:
        lines.append(Line("cut", 0, f"{len(new) - end} unchanged lines"))
    return tuple(lines)


def _changed(old: Sequence[str], old_at: int, new: Sequence[str], new_at: int) -> Iterator[Line]:
    pairs = len(old) == len(new)
    for at, line in enumerate(old):
        yield Line("del", old_at + at + 1, line)
    for at, line in enumerate(new):
        parts = _marked(old[at], line) if pairs else (line, "", "")
        yield Line("add", new_at + at + 1, *parts)


def _marked(old: str, new: str) -> tuple[str, str, str]:
    """The parts of a new line: as before, changed, as before. Nothing is marked where the lines have little in
    common."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if start + end < len(new) // 3:
        return new, "", ""
    return new[:start], new[start : len(new) - end], new[len(new) - end :]


def patch_lines(text: str) -> tuple[Line, ...]:
    """The lines of a unified diff that was made elsewhere, such as by git."""
    kinds = {"+": "add", "-": "del", "@": "cut"}
    lines: list[Line] = []
    for number, line in enumerate(text.splitlines(), 1):
        heading = line.startswith(("+++", "---", "diff ", "index "))
        kind = "cut" if heading else kinds.get(line[:1], "")
        lines.append(Line(kind, 0 if kind == "cut" else number, line if kind == "cut" else line[1:]))
    return tuple(lines)


def counted(lines: Sequence[Line]) -> str:
    """``2 lines added, 1 removed``."""
    added, removed = (sum(line.kind == kind for line in lines) for kind in ("add", "del"))
    if added == removed:
        return f"{added} line{'s' * (added != 1)} changed"
    parts = [f"{count} {word}" for count, word in ((added, "added"), (removed, "removed")) if count]
    return f"lines: {', '.join(parts)}"
