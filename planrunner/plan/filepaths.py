"""Paths as a plan names them: what they lead to by their words alone, whatever links there are.

The same functions place a path that is read off a plan and one that is about to be opened.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence


def steps(directory: str, path: str) -> list[str] | None:
    """The names from a directory, an absolute path, down to a path that stands in a call made there; none for the
    directory itself. None for a path that leaves it."""
    relative = posixpath.relpath(path, directory) if path.startswith("/") else path
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    return None if ".." in parts else parts


def without_parents(directory: str, path: str) -> str:
    """A path that goes up and comes back, written without ``..``; empty for one that leaves the directory. Links may
    make the two differ, so only a person puts one for the other."""
    plain = posixpath.relpath(posixpath.join(directory, path), directory)
    return "" if plain.split("/", 1)[0] == ".." else plain


def placed(root: str, directory: str, parts: Sequence[str]) -> str:
    """Where steps from a directory lead: from ``root`` on, or absolute where that lies outside; both are absolute. This
    is what the patterns of a policy are held against."""
    whole = posixpath.normpath(posixpath.join(directory, *parts))
    relative = posixpath.relpath(whole, root)
    return whole if relative.split("/", 1)[0] == ".." else relative
