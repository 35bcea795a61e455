"""A directory as a value: what two looks at it have to agree on."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence

Tree = dict[str, tuple[str, int, str]]
"""Path to kind, permissions, and digest or target of a link."""


def tree(directory: str, ignore: Sequence[str] = ()) -> Tree:
    """Everything below a directory but what fits a glob of ``ignore``."""
    found: Tree = {}
    for path in _paths(directory, ""):
        if not any(fnmatch.fnmatch(path, pattern) or fnmatch.fnmatch(path, f"{pattern}/*") for pattern in ignore):
            found[path] = _entry(os.path.join(directory, path))
    return found


def difference(before: Tree, after: Tree) -> str:
    """What is not the same, in words; empty where everything is."""
    lines = [f"{path} was added" for path in after.keys() - before.keys()]
    lines += [f"{path} is gone" for path in before.keys() - after.keys()]
    for path in before.keys() & after.keys():
        if before[path] != after[path]:
            kinds = [name for name, a, b in zip(("kind", "mode", "content"), before[path], after[path]) if a != b]
            lines.append(f"{path} has another {' and '.join(kinds)}")
    return ", ".join(sorted(lines))


def _paths(directory: str, below: str) -> Iterator[str]:
    with os.scandir(os.path.join(directory, below)) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            path = os.path.join(below, entry.name)
            yield path
            if entry.is_dir(follow_symlinks=False):
                yield from _paths(directory, path)


def _entry(path: str) -> tuple[str, int, str]:
    about = os.lstat(path)
    mode = stat.S_IMODE(about.st_mode)
    if stat.S_ISLNK(about.st_mode):
        return "link", mode, os.readlink(path)
    if stat.S_ISREG(about.st_mode):
        with open(path, "rb") as file:
            return "file", mode, hashlib.file_digest(file, "sha256").hexdigest()
    return ("directory" if stat.S_ISDIR(about.st_mode) else "other"), mode, ""
