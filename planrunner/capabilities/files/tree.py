"""Files, links and whole folders: found, copied, moved, deleted and made."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.files.inputs import check, permissions
from planrunner.capabilities.files.scope import scope_in
from planrunner.capabilities.files.verb import Plan, Verb, read, undone
from planrunner.files.beneath import APART, Beneath
from planrunner.files.changes import AS_IT_COMES, Change, Planned, ways
from planrunner.files.walk import Entry, FileState, Patterns, below, entries, state_in, state_of

Json = Any


class FoundPath(TypedDict, total=False):
    path: str
    kind: str
    size: Annotated[int, Doc("bytes", form="bytes")]
    sha256: str


class Found(NamedTuple):
    paths: Annotated[list[str], Doc("what was found, in order")]
    files: Annotated[list[FoundPath], Doc("for each its `path`, `kind`, `size` and, if asked for, `sha256`")]
    number: Annotated[int, Doc("how many were found")]
    size: Annotated[int, Doc("bytes of all of them together", form="bytes")]


@capability("files.glob", effect="read")
def glob(
    context: Context,
    patterns: Annotated[list[str] | str, Doc("what to look for, such as `src/**/*.py`")],
    exclude: Annotated[list[str] | str, Doc("what to leave out, folders with all that is in them")] = [],  # noqa: B006
    kind: Annotated[str, Doc("file, folder, link or any")] = "file",
    hidden: Annotated[bool, Doc("let `*` and `**` stand for names with a dot in front, too")] = False,
    sha256: Annotated[bool, Doc("give the SHA-256 of each file")] = False,
    limit: Annotated[int, Doc("fail where more than this is found")] = 10_000,
) -> Found:
    """Find files by pattern, with their sizes. Links are never followed; `.git` and `.planrunner` are left out."""
    check({"patterns": patterns, "exclude": exclude, "kind": kind, "hidden": hidden})
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise Failure("`limit` must be a number")
    if kind not in ("file", "folder", "link", "any"):
        raise Failure(f"`kind` must be file, folder, link or any, found {kind}")
    files: list[FoundPath] = []
    scope = scope_in(context)
    with Beneath(context.call.directory, cancelled=context.cancelled, scope=scope) as tree:
        for entry in matching(tree, [], (Patterns(names(patterns), hidden), Patterns(names(exclude), True))):
            sort = _kind(entry)
            if kind not in ("any", sort) or (scope is not None and not scope.allows("read", entry.path)):
                continue
            row: FoundPath = {"path": entry.path, "kind": sort, "size": 0}
            if sort == "file":
                row["size"] = entry.found.st_size
                if sha256:
                    state = state_in(entry.folder, entry.name, entry.path, tree.go_on)
                    row["size"], row["sha256"] = (state.size, state.sha256) if state else (0, "")
            files.append(row)
            if len(files) > limit:
                raise Failure(f"more than {limit} paths fit: narrow the patterns or raise `limit`")
    return Found([each["path"] for each in files], files, len(files), sum(each["size"] for each in files))


def names(value: list[str] | str) -> list[str]:
    """One pattern or several, as a list."""
    return [value] if isinstance(value, str) else list(value)


def matching(tree: Beneath, parts: list[str], wanted: tuple[Patterns, Patterns]) -> Iterator[Entry]:
    """What lies below a folder and fits the first patterns and not the second, which count from that folder. What is
    git's, planrunner's or only on its way to be a file is left out."""
    top = "/".join(parts)
    fits, leaves = wanted

    def relative(path: str) -> str:
        return path[len(top) + 1 :] if top else path

    def enters(path: str) -> bool:
        return not _set_apart(path) and fits.enters(relative(path)) and not leaves.fits(relative(path))

    for entry in entries(tree, parts, enters):
        path = relative(entry.path)
        if fits.fits(path) and not leaves.fits(path) and not _set_apart(path):
            yield entry


def _set_apart(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.casefold() in APART or (name.startswith(".") and name.endswith(".planrunner"))


def _kind(entry: Entry) -> str:
    mode = entry.found.st_mode
    if stat.S_ISLNK(mode):
        return "link"
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


Tree = dict[str, FileState]


class Placed(NamedTuple):
    path: Annotated[str, Doc("the new path as it was given")]
    changed: Annotated[bool, Doc("false where everything was as it should be already")]
    files: Annotated[int, Doc("files and links that stand at the new place")]


class Removed(NamedTuple):
    path: Annotated[str, Doc("the path as it was given")]
    changed: Annotated[bool, Doc("false where nothing was there")]
    removed: Annotated[int, Doc("files, links and folders that are gone")]


class Made(NamedTuple):
    path: Annotated[str, Doc("the path as it was given")]
    changed: Annotated[bool, Doc("false where it was there already")]


def _whole(tree: Beneath, parts: list[str], way: Literal["read", "write"] = "write") -> Tree:
    """What stands at a path and below it, by path; empty where there is nothing. ``way`` is what is done with it."""
    path, top = "/".join(parts), state_of(tree, parts)
    if top is None:
        return {}
    return {path: top, **(below(tree, parts, way) if top.kind == "folder" else {})}


def _transfer(move: bool, path: str, to: str, replace: bool = False, parents: bool = False) -> Plan:
    def plan(_: Context, tree: Beneath) -> Planned:
        way: Literal["read", "write"] = "write" if move else "read"
        start, end = tree.writable(path, way), tree.writable(to)
        if start == end[: len(start)] or end == start[: len(end)]:
            raise Failure(f"{to} and {path} lie in each other")
        old, present = _whole(tree, start, way), _whole(tree, end)
        if not old:
            if move and present:
                return Planned((), Placed(to, False, _files(present))._asdict())
            raise Failure(f"{path} is not there")
        wanted = {"/".join(end) + name[len("/".join(start)) :]: (name, state) for name, state in old.items()}
        same = {name: state for name, (_, state) in wanted.items()} == present
        if present and not replace and not (same and not move):
            raise Failure(f"{to} is there already; `replace: true` replaces it")
        changes = []
        for name, (origin, state) in wanted.items():
            source = partial(read, tree, origin) if state.kind == "file" else None
            changes.append(Change(name, present.get(name), state, source, origin=origin if move and source else ""))
        changes += [Change(name, state, None) for name, state in present.items() if name not in wanted]
        if move:
            changes += [Change(name, state, None) for name, state in old.items()]
        return Planned((*ways(tree, end, parents), *changes), Placed(to, move or not same, _files(old))._asdict())

    return plan


def _files(tree: Tree) -> int:
    return sum(state.kind != "folder" for state in tree.values())


_COPY = Verb("files.copy", lambda path, to, replace=False, parents=False: _transfer(False, path, to, replace, parents))
_MOVE = Verb("files.move", lambda path, to, replace=False, parents=False: _transfer(True, path, to, replace, parents))


@capability(
    "files.copy",
    effect="idempotent",
    risks=("with `replace`, replaces what stands there",),
    preview=_COPY.preview,
    capture=_COPY.capture,
    undo=undone,
    own=("*",),
    writes=("to",),
)
def copy(
    context: Context,
    path: Annotated[str, Doc("file, link or folder to copy, inside the working directory", form="file-read")],
    to: Annotated[str, Doc("the path of the copy itself, not of a folder to put it in", form="file-written")],
    replace: Annotated[bool, Doc("replace what stands there; a folder becomes the same as the one copied")] = False,
    parents: Annotated[bool, Doc("create missing folders")] = False,
) -> Placed:
    """Copy a file, a link or a folder with all that is in it, permissions included: all of it, or nothing.

    The same content already there is left alone (`changed` is false). Links are copied as links.
    """
    return Placed(**_COPY.act(context, path=path, to=to, replace=replace, parents=parents))


@capability(
    "files.move",
    effect="idempotent",
    risks=("with `replace`, replaces what stands there",),
    preview=_MOVE.preview,
    capture=_MOVE.capture,
    undo=undone,
    own=("*",),
    writes=("to",),
)
def move(
    context: Context,
    path: Annotated[str, Doc("file, link or folder to move, inside the working directory", form="file-written")],
    to: Annotated[str, Doc("its new path, not a folder to put it in", form="file-written")],
    replace: Annotated[bool, Doc("replace what stands there")] = False,
    parents: Annotated[bool, Doc("create missing folders")] = False,
) -> Placed:
    """Move a file, a link or a folder to another path: all of it, or nothing.

    What is gone from `path` and stands at `to` counts as moved already (`changed` is false).
    """
    return Placed(**_MOVE.act(context, path=path, to=to, replace=replace, parents=parents))


def _delete(path: str, recursive: bool = False) -> Plan:
    def plan(_: Context, tree: Beneath) -> Planned:
        found = _whole(tree, tree.writable(path))
        if len(found) > 1 and not recursive:
            raise Failure(f"{path} is a folder that holds something; `recursive: true` removes it with all of that")
        changes = tuple(Change(name, state, None) for name, state in found.items())
        return Planned(changes, Removed(path, bool(found), len(found))._asdict())

    return plan


_DELETE = Verb("files.delete", _delete)


@capability(
    "files.delete",
    effect="idempotent",
    risks=("removes files",),
    preview=_DELETE.preview,
    capture=_DELETE.capture,
    undo=undone,
)
def delete(
    context: Context,
    path: Annotated[str, Doc("file, link or folder to remove, inside the working directory", form="file-written")],
    recursive: Annotated[bool, Doc("remove a folder with all that is in it")] = False,
) -> Removed:
    """Remove a file, a link (never what it leads to) or a folder: all of it, or nothing.

    What is not there is not an error (`changed` is false). A folder that holds a `.git` or `.planrunner` is refused.
    """
    return Removed(**_DELETE.act(context, path=path, recursive=recursive))


def _mkdir(path: str, mode: str | int = "", parents: bool = False) -> Plan:
    def plan(_: Context, tree: Beneath) -> Planned:
        parts = tree.writable(path)
        before, wanted = state_of(tree, parts), permissions(mode)
        if before is not None and before.kind != "folder":
            raise Failure(f"{path} is there already, and is a {before.kind}")
        after = FileState("folder", AS_IT_COMES if wanted is None else wanted)
        changed = before is None or (wanted is not None and before.mode != wanted)
        change = Change("/".join(parts), before, after)
        return Planned((*ways(tree, parts, parents), change), Made(path, changed)._asdict())

    return plan


_MKDIR = Verb("files.mkdir", _mkdir)


@capability(
    "files.mkdir",
    effect="idempotent",
    risks=("makes folders",),
    preview=_MKDIR.preview,
    capture=_MKDIR.capture,
    undo=undone,
)
def mkdir(
    context: Context,
    path: Annotated[str, Doc("folder to make, inside the working directory", form="file-written")],
    mode: Annotated[str | int, Doc('permissions in octal, such as "0755"; default: those which the system gives')] = "",
    parents: Annotated[bool, Doc("create missing folders above it")] = False,
) -> Made:
    """Make a folder. One that is there is not an error (`changed` is false).

    Its undo removes it again, unless something else lies in it.
    """
    return Made(**_MKDIR.act(context, path=path, mode=mode, parents=parents))
