"""``files.snapshot`` and ``files.restore``: a tree kept in the store of artifacts, and put back exactly.

A snapshot is one artifact: a line of JSON that says which folder it is of and lists every path with its kind,
permissions and the digest of its content, then the contents, each once, at the offsets which that line gives. The same
tree in the same folder has the same snapshot.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.files import records
from planrunner.capabilities.files.inputs import check
from planrunner.capabilities.files.tree import matching, names
from planrunner.capabilities.files.verb import Plan, Verb, open_tree, read, undone
from planrunner.fileio import unnamed
from planrunner.files.beneath import Beneath
from planrunner.files.changes import Change, Planned, ways
from planrunner.files.walk import CHUNK, MOST, FileState, Patterns, state_in, state_of
from planrunner.jsontext import read_json, stable_json

Json = Any

_FORMAT = 2
_WITHOUT_FOLDER = 1
"""The format that did not say which folder it is of."""
_LONGEST = 256 << 20
"""Bytes of the line that lists a tree."""


class Kept(NamedTuple):
    snapshot: Annotated[str, Doc("the digest by which it is restored")]
    files: Annotated[int, Doc("how many files it holds")]
    size: Annotated[int, Doc("bytes of all of them together", form="bytes")]


class Restored(NamedTuple):
    changed: Annotated[bool, Doc("false where everything was as it was then")]
    written: Annotated[int, Doc("files, links and folders that were put there or changed")]
    removed: Annotated[int, Doc("files, links and folders that were taken away")]


class _Range(NamedTuple):
    """What of a folder a snapshot holds."""

    patterns: tuple[str, ...]
    exclude: tuple[str, ...]


def _tree(context: Context, tree: Beneath, parts: list[str], what: _Range) -> dict[str, FileState]:
    """Everything in range by its path from the folder on; the folder itself is the empty path."""
    top = state_of(tree, parts)
    if top is None:
        return {}
    if top.kind != "folder":
        raise Failure(f"{'/'.join(parts)} is a {top.kind}, and a folder is needed")
    found = {"": top} if parts else {}
    start = len("/".join(parts)) + 1 if parts else 0
    for entry in matching(tree, parts, (Patterns(what.patterns, True), Patterns(what.exclude, True))):
        if tree.is_own(entry.path.split("/")):
            continue
        if not (
            stat.S_ISREG(entry.found.st_mode) or stat.S_ISDIR(entry.found.st_mode) or stat.S_ISLNK(entry.found.st_mode)
        ):
            continue  # a pipe or a socket has no content
        state = state_in(entry.folder, entry.name, entry.path, tree.go_on)
        if state is not None:
            found[entry.path[start:]] = state
        if len(found) > MOST:
            raise Failure(f"more than {MOST} paths are in range: narrow `patterns`")
    return found


def _preview_snapshot(context: Context, path: str = ".", **_: Any) -> Preview:
    return Preview(f"{path} would be kept; nothing in it would change")


@capability("files.snapshot", effect="read", preview=_preview_snapshot)
def snapshot(
    context: Context,
    path: Annotated[str, Doc("folder to keep, inside the working directory", form="file-read")] = ".",
    patterns: Annotated[list[str] | str, Doc("keep only what fits, such as `src/**`")] = "**",
    exclude: Annotated[list[str] | str, Doc("what to leave out, folders with all that is in them")] = [],  # noqa: B006
) -> Kept:
    """Keep a folder as it is, to restore it later: contents, permissions, links.

    `.git` and `.planrunner` are left out, and so are pipes, sockets, owners and times.
    """
    check({"path": path, "patterns": patterns, "exclude": exclude})
    what = _Range(tuple(names(patterns)), tuple(names(exclude)))
    with open_tree(context) as tree:
        parts = [] if path == "." else tree.writable(path, "read")
        found = _tree(context, tree, parts, what)
        if tree.scope is not None:
            for name in filter(None, found):
                tree.scope.require("read", [*parts, *name.split("/")])
        if not found and parts:
            raise Failure(f"{path} is not there")
        record = _kept(context, tree, parts, (what, found))
    files = [state for state in found.values() if state.kind == "file"]
    return Kept(str(record["sha256"]), len(files), sum(file.size for file in files))


def _kept(
    context: Context, tree: Beneath, parts: list[str], taken: tuple[_Range, dict[str, FileState]]
) -> dict[str, Json]:
    """Write the snapshot into one file and keep that."""
    what, found = taken
    contents: dict[str, tuple[int, str]] = {}
    end = 0
    for name, state in sorted(found.items()):
        if state.kind == "file" and state.sha256 not in contents:
            contents[state.sha256] = (end, "/".join([*parts, name]))
            end += state.size
    rows = [[name, state.as_json()] for name, state in sorted(found.items())]
    offsets = {digest: offset for digest, (offset, _) in contents.items()}
    head = {"format": _FORMAT, "folder": _from_run(context, parts), "patterns": what.patterns, "exclude": what.exclude}
    head |= {"entries": rows, "offsets": offsets}
    folder = records.place(context)
    with records.storing(folder):
        opened = unnamed(folder)  # it is not searched for secrets yet
    with os.fdopen(opened, "w+b") as file:
        with records.storing(folder):
            file.write(stable_json(head).encode("ascii") + b"\n")
            for digest, (_, place) in contents.items():
                hashed = hashlib.sha256()
                for data in read(tree, place):
                    tree.go_on()
                    hashed.update(data)
                    file.write(data)
                if hashed.hexdigest() != digest:
                    raise Failure(f"{place}: its content has changed meanwhile", "transient")
            file.flush()
        return context.keep_open(file, "snapshot", "snapshot")


def _run_directory(context: Context) -> str:
    services = context.services
    return os.path.realpath(context.call.directory if services is None else services.directory())


def _from_run(context: Context, parts: list[str]) -> str:
    """The path of a folder from the working directory of the run on: tasks may differ in their ``cwd``."""
    folder = os.path.join(os.path.realpath(context.call.directory), *parts)
    return os.path.relpath(folder, _run_directory(context))


def _own_folder(context: Context, tree: Beneath, folder: str | None) -> list[str]:
    """The steps to the folder that a snapshot was taken of. Raises Failure where it does not say, policy where that
    lies outside the working directory of the task."""
    if folder is None:
        raise Failure("the snapshot does not say which folder it is of: `path` says where to put it")
    place = os.path.normpath(os.path.join(_run_directory(context), folder))
    path = os.path.relpath(place, os.path.realpath(context.call.directory))
    if path.split("/")[0] == "..":
        raise Failure(
            f"the snapshot is of {folder}, outside the working directory of this task: `path` says where to put it",
            rule="files.beneath",
        )
    return [] if path == "." else tree.writable(path)


class _Stored(NamedTuple):
    """A snapshot as it is kept; ``start`` is where its contents begin."""

    folder: str | None
    what: _Range
    entries: dict[str, FileState]
    offsets: dict[str, int]
    start: int


def _read(context: Context, digest: str) -> _Stored:
    with context.artifact(digest) as file:
        line = file.readline(_LONGEST)
    try:
        head = read_json(line.decode("ascii").rstrip("\n"))
        if head["format"] not in (_FORMAT, _WITHOUT_FOLDER):
            raise ValueError
        folder = None if head["format"] == _WITHOUT_FOLDER else str(head["folder"])
        entries = {name: FileState(**told) for name, told in head["entries"]}
        what = _Range(tuple(head["patterns"]), tuple(head["exclude"]))
        return _Stored(folder, what, entries, head["offsets"], len(line))
    except (ValueError, KeyError, TypeError):
        raise Failure(f"the artifact {digest} is not a snapshot that this version reads") from None


def stored_part(context: Context, digest: str, start: int, size: int) -> Iterator[bytes]:
    """A part of an artifact."""
    with context.artifact(digest) as file:
        file.seek(start)
        while size > 0 and (data := file.read(min(size, CHUNK))):
            size -= len(data)
            yield data


def _restore(snapshot: str, path: str = "") -> Plan:
    def plan(context: Context, tree: Beneath) -> Planned:
        parts = [] if path in ("", ".") else tree.writable(path)
        stored = _read(context, snapshot)
        if not path:
            parts = _own_folder(context, tree, stored.folder)
        wanted, present = stored.entries, _tree(context, tree, parts, stored.what)
        top = "/".join(parts)
        changes = []
        for name in sorted({*wanted, *present}):
            place = "/".join(part for part in (top, name) if part)
            if not place or present.get(name) == wanted.get(name):
                continue
            tree.writable(place)
            after = wanted.get(name)
            source = None
            if after is not None and after.kind == "file":
                start = stored.start + stored.offsets[after.sha256]
                source = partial(stored_part, context, snapshot, start, after.size)
            changes.append(Change(place, present.get(name), after, source))
        above = folders_above(tree, changes) if changes else []
        written = sum(change.after is not None for change in changes)
        outputs = Restored(bool(changes), written, len(changes) - written)
        return Planned((*above, *changes), outputs._asdict())

    return plan


def folders_above(tree: Beneath, changes: list[Change]) -> list[Change]:
    """Folders that the paths lie in and that the snapshot does not list: above its own, and where patterns left them
    out."""
    listed = {change.path for change in changes}
    above: dict[str, Change] = {}
    for change in changes:
        if change.after is not None:
            parts = change.path.split("/")  # as far as nothing on the way is going to be put there itself
            first = next((count for count in range(1, len(parts)) if "/".join(parts[:count]) in listed), len(parts))
            for way in ways(tree, parts[:first], True):
                above.setdefault(way.path, way)
    return [way for path, way in above.items() if path not in listed]


_RESTORE = Verb("files.restore", _restore)


@capability(
    "files.restore",
    effect="idempotent",
    risks=("replaces and removes files",),
    preview=_RESTORE.preview,
    capture=_RESTORE.capture,
    undo=undone,
)
def restore(
    context: Context,
    snapshot: Annotated[str, Doc("what `files.snapshot` gave")],
    path: Annotated[
        str, Doc("another folder to put it in, inside the working directory; else its own", form="file-written")
    ] = "",
) -> Restored:
    """Make a folder what it was when a snapshot was taken: contents, permissions, links, nothing that was not there.

    All of it, or nothing. What the snapshot left out is left as it is. Without `path` it is the folder that the
    snapshot was taken of, whatever `cwd` the two tasks have.
    """
    return Restored(**_RESTORE.act(context, snapshot=snapshot, path=path))
