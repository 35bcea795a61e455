"""Changes to a tree as a unified diff, in the form that git writes and reads."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence

from planrunner.escapes import quoted
from planrunner.files.changes import AS_IT_COMES, Change
from planrunner.files.walk import FileState

_LARGEST = 256 << 10
"""Bytes of a file of which the lines are compared."""
_MOST = 4 << 20
"""Characters of one diff."""


def unified(changes: Sequence[Change], read: Callable[[str], Iterable[bytes]]) -> tuple[str, str]:
    """The changes counted in a line, and as a diff; ``read`` gives the present content of a path."""
    if not changes:
        return "nothing would change", ""
    parts, length = [], 0
    for change in sorted(changes, key=lambda change: change.path):
        part = "".join(_lines(change, read))
        length += len(part)
        if length > _MOST:
            parts.append(f"… and more: the diff is longer than {_MOST:,} characters\n")
            break
        parts.append(part)
    return _summary(changes), "".join(parts)


def _summary(changes: Sequence[Change]) -> str:
    named = [change for change in changes if not change.way]
    new = sum(change.before is None for change in named)
    gone = sum(change.after is None for change in named)
    counts = ((new, "made"), (len(named) - new - gone, "changed"), (gone, "removed"))
    told = [f"{count} {what}" for count, what in counts if count]
    return (
        f"{', '.join(told)}: {', '.join(quoted(change.path) for change in named[:3])}{' …' if len(named) > 3 else ''}"
    )


def _lines(change: Change, read: Callable[[str], Iterable[bytes]]) -> Iterable[str]:
    path, before, after = change.path, change.before, change.after
    yield f"diff --git {quoted(path, 'a/')} {quoted(path, 'b/')}\n"
    if before is None or after is None:
        word, state = ("new", after) if before is None else ("deleted", before)
        yield f"{word} {_word(state)}\n"
    elif _word(before) != _word(after):
        yield f"old {_word(before)}\n"
        yield f"new {_word(after)}\n"
    old, new = _content(before, lambda: read(path)), _content(after, change.source)
    if old == new:
        return
    names = (
        "/dev/null" if before is None else quoted(path, "a/"),
        "/dev/null" if after is None else quoted(path, "b/"),
    )
    if old is None or new is None:
        yield f"Files {names[0]} and {names[1]} differ\n"  # too large to compare line by line
        return
    texts = _text(old), _text(new)
    if texts[0] is None or texts[1] is None:
        yield f"Binary files {names[0]} and {names[1]} differ\n"
        return
    for line in difflib.unified_diff(_split(texts[0]), _split(texts[1]), *names):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _word(state: FileState | None) -> str:
    """The words of git for what kind of file this is, and ours for a folder, which git does not know."""
    if state is None:
        return ""
    if state.kind == "link":
        return "file mode 120000"
    if state.kind == "folder":
        return "folder" if state.mode == AS_IT_COMES else f"folder mode {state.mode:04o}"
    return f"file mode 100{state.mode:03o}"


def _content(state: FileState | None, source: Callable[[], Iterable[bytes]] | None) -> bytes | None:
    if state is None or state.kind == "folder":
        return b""
    if state.kind == "link":
        return state.target.encode("utf-8", "surrogateescape")
    if state.size > _LARGEST or source is None:
        return None
    return b"".join(source())


def _text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _split(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one, as in every tool that reads a diff."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
