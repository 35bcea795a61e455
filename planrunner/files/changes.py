"""Changes to a tree as data: planned, merged, and as steps with a place for what is prepared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from planrunner.failures import Failure
from planrunner.files.beneath import Beneath
from planrunner.files.walk import FileState, state_at, state_of
from planrunner.records import Struct

Json = Any
Source = Callable[[], Iterable[bytes]]

AS_IT_COMES = -1
"""Permissions of a folder that the plan does not name: those which the system gives."""
WAY = FileState("folder", AS_IT_COMES)


class Change(Struct):
    """``path`` is relative to the working directory. ``source`` gives the bytes of a file that is to stand there;
    ``origin`` is the path of one that may move there as it is. ``way``: a folder that is made for what it will hold;
    undo leaves it where something else lies in it."""

    path: str
    before: FileState | None
    after: FileState | None
    source: Source | None = None
    way: bool = False
    origin: str = ""


class Planned(Struct):
    """What a capability is going to do, and what it will answer."""

    changes: tuple[Change, ...]
    outputs: dict[str, Json]


class Step(NamedTuple):
    """A change on its way. What is to stand there is made as ``aside`` in the folder ``place``, on the same file
    system; what stood there lies under that name afterwards, until all changes are done."""

    change: Change
    place: str
    aside: str


def fits(now: FileState | None, wanted: FileState | None) -> bool:
    """Whether this is what was wanted."""
    if now is None or wanted is None:
        return now is wanted
    return now == wanted or (now.kind == wanted.kind == "folder" and wanted.mode == AS_IT_COMES)


def ways(tree: Beneath, parts: list[str], create: bool) -> list[Change]:
    """The folders that have to be made for what is to stand at the end of the steps. Raises Failure where they are
    missing and may not be made, policy where a link or a file is in the way."""
    missing: list[Change] = []
    for count in range(len(parts) - 1, 0, -1):
        path = "/".join(parts[:count])
        now = state_of(tree, parts[:count])
        if now is not None:
            if now.kind != "folder":
                raise Failure(
                    f"{'/'.join(parts)} leads through `{parts[count - 1]}`, which is a {now.kind}", rule="files.link"
                )
            break
        missing.insert(0, Change(path, None, WAY, way=True))
    if missing and not create:
        folder = "/".join(parts[:-1])
        raise Failure(f"folder `{folder}` does not exist for {'/'.join(parts)}; `parents: true` makes it")
    return missing


def merged(changes: Iterable[Change]) -> tuple[Change, ...]:
    """One change a path, those that change nothing left out. Raises Failure for two that do not agree."""
    result: dict[str, Change] = {}
    for change in changes:
        if fits(change.before, change.after):
            continue
        known = result.setdefault(change.path, change)
        if known.after != change.after:
            raise Failure(f"{change.path} would be changed in two ways at once")
    return tuple(result.values())


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
        now = state_at(tree, parent) if parent and parent not in leaving else None
        stays = not parent or (now is not None and now.kind == "folder")
        known[parent] = parent if stays else _place(tree, parent, leaving, known)
    return known[parent]
