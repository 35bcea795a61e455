"""``files.glob``: which files there are."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, capability
from planrunner.capabilities.files.beneath import APART, Beneath, scope_in
from planrunner.capabilities.files.inputs import check
from planrunner.capabilities.files.patterns import Patterns
from planrunner.capabilities.files.standing import Entry, entries, look_in

Json = Any


class Found(NamedTuple):
    paths: Annotated[list[str], Doc("what was found, in order")]
    files: Annotated[list[dict[str, Any]], Doc("for each its `path`, `kind`, `size` and, if asked for, `sha256`")]
    number: Annotated[int, Doc("how many were found")]
    size: Annotated[int, Doc("bytes of all of them together")]


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
    files = []
    scope = scope_in(context)
    with Beneath(context.call.directory, cancelled=context.cancelled, scope=scope) as tree:
        for entry in matching(tree, [], (Patterns(names(patterns), hidden), Patterns(names(exclude), True))):
            sort = _kind(entry)
            if kind not in ("any", sort) or (scope is not None and not scope.allows("read", entry.path)):
                continue
            files.append(_described(tree, entry, sort, sha256))
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


def _described(tree: Beneath, entry: Entry, kind: str, hashed: bool) -> dict[str, Json]:
    told: dict[str, Json] = {"path": entry.path, "kind": kind, "size": entry.found.st_size if kind == "file" else 0}
    if hashed and kind == "file":
        standing = look_in(entry.folder, entry.name, entry.path, tree.go_on)
        told |= {"sha256": standing.sha256 if standing else "", "size": standing.size if standing else 0}
    return told
