"""Changes to a tree as data, and as a unified diff in the form that git writes and reads."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Failure, Preview
from planrunner.capabilities.files.beneath import Beneath
from planrunner.capabilities.files.walk import Standing, at, look
from planrunner.plan.escapes import quoted

Json = Any
Source = Callable[[], Iterable[bytes]]

AS_IT_COMES = -1
"""Permissions of a folder that the plan does not name: those which the system gives."""
WAY = Standing("folder", AS_IT_COMES)


class Change(NamedTuple):
    """``path`` is relative to the working directory. ``source`` gives the bytes of a file that is to stand there;
    ``origin`` is the path of one that may move there as it is. ``way``: a folder that is made for what it will hold;
    undo leaves it where something else lies in it."""

    path: str
    before: Standing | None
    after: Standing | None
    source: Source | None = None
    way: bool = False
    origin: str = ""


class Planned(NamedTuple):
    """What a capability is going to do, and what it will answer."""

    changes: tuple[Change, ...]
    outputs: dict[str, Json]


class Step(NamedTuple):
    """A change on its way. What is to stand there is made as ``aside`` in the folder ``place``, on the same file
    system; what stood there lies under that name afterwards, until all changes are done."""

    change: Change
    place: str
    aside: str


def fits(now: Standing | None, wanted: Standing | None) -> bool:
    """Whether this is what was wanted."""
    if now is None or wanted is None:
        return now is wanted
    return now == wanted or (now.kind == wanted.kind == "folder" and wanted.mode == AS_IT_COMES)


def ways(tree: Beneath, parts: list[str], create: bool, hint: str = "`parents: true` makes it") -> list[Change]:
    """The folders that have to be made for what is to stand at the end of the steps. Raises Failure where they are
    missing and may not be made, policy where a link or a file is in the way."""
    missing: list[Change] = []
    for count in range(len(parts) - 1, 0, -1):
        path = "/".join(parts[:count])
        now = look(tree, parts[:count])
        if now is not None:
            if now.kind != "folder":
                raise Failure(
                    f"{'/'.join(parts)} leads through `{parts[count - 1]}`, which is a {now.kind}",
                    "policy",
                    rule="files.link",
                )
            break
        missing.insert(0, Change(path, None, WAY, way=True))
    if missing and not create:
        raise Failure(f"{'/'.join(parts)} cannot be written: folder `{'/'.join(parts[:-1])}` does not exist; {hint}")
    return missing


def merged(changes: Iterable[Change]) -> tuple[Change, ...]:
    """One change a path, those that change nothing left out. Raises Failure for two that do not agree."""
    found: dict[str, Change] = {}
    for change in changes:
        if fits(change.before, change.after):
            continue
        known = found.setdefault(change.path, change)
        if known.after != change.after:
            raise Failure(f"{change.path} would be changed in two ways at once")
    return tuple(found.values())


def stepped(tree: Beneath, changes: Sequence[Change], mark: str) -> tuple[Step, ...]:
    """The changes with a place for each to be prepared at: the nearest folder above it that is there and stays."""
    leaving = {
        change.path
        for change in changes
        if change.before and (not change.after or change.after.kind != change.before.kind)
    }
    known: dict[str, str] = {}
    return tuple(
        Step(change, _place(tree, change.path, leaving, known), f".{mark}.{number}.planrunner")
        for number, change in enumerate(changes)
    )


def _place(tree: Beneath, path: str, leaving: set[str], known: dict[str, str]) -> str:
    parent = path.rpartition("/")[0]
    if parent not in known:
        now = at(tree, parent) if parent and parent not in leaving else None
        stays = not parent or (now is not None and now.kind == "folder")
        known[parent] = parent if stays else _place(tree, parent, leaving, known)
    return known[parent]


_LARGEST = 256 << 10
"""Bytes of a file of which the lines are compared."""
_MOST = 4 << 20
"""Characters of one diff."""


def preview(changes: Sequence[Change], read: Callable[[str], Iterable[bytes]]) -> Preview:
    """What the changes come to; ``read`` gives the present content of a path."""
    if not changes:
        return Preview("nothing would change")
    parts, length = [], 0
    for change in sorted(changes, key=lambda change: change.path):
        part = "".join(_lines(change, read))
        length += len(part)
        if length > _MOST:
            parts.append(f"… and more: the diff is longer than {_MOST:,} characters\n")
            break
        parts.append(part)
    return Preview(_summary(changes), "".join(parts))


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
        word, standing = ("new", after) if before is None else ("deleted", before)
        yield f"{word} {_word(standing)}\n"
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


def _word(standing: Standing | None) -> str:
    """The words of git for what kind of file this is, and ours for a folder, which git does not know."""
    if standing is None:
        return ""
    if standing.kind == "link":
        return "file mode 120000"
    if standing.kind == "folder":
        return "folder" if standing.mode == AS_IT_COMES else f"folder mode {standing.mode:04o}"
    return f"file mode 100{standing.mode:03o}"


def _content(standing: Standing | None, source: Callable[[], Iterable[bytes]] | None) -> bytes | None:
    if standing is None or standing.kind == "folder":
        return b""
    if standing.kind == "link":
        return standing.target.encode("utf-8", "surrogateescape")
    if standing.size > _LARGEST or source is None:
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
