"""The file scopes of a policy, for files that git itself reads and writes: they are listed before it does."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.scope import scope_in
from planrunner.capabilities.files.verb import open_tree
from planrunner.capabilities.git.command import Git
from planrunner.capabilities.git.repository import Repository


def require(context: Context, way: Literal["read", "write"], top: str, paths: Iterable[str]) -> None:
    """Raises Failure (policy) for the first of the paths below ``top``, a folder by its full name without links, that
    may not be read, or written. Nothing is asked of ``paths`` where no policy says anything about files."""
    scope = scope_in(context)
    if scope is not None:
        here = os.path.realpath(context.call.directory)
        scope = scope._replace(grounds=scope.grounds[-1:])  # git follows no link, so its paths have one name each
        for path in paths:
            scope.require(way, (os.path.relpath(os.path.join(top, path), here),))


def require_moved(repository: Repository, paths: Collection[str]) -> None:
    """Raises Failure (policy) for the first of the paths below the top of a working tree that may not be replaced, by a
    file scope or because it rules over plans."""
    context = repository.git.context
    with open_tree(context, looks=context.call.dry, directory=repository.top) as tree:
        tree.scope = None  # its paths start at the top, those of a policy at the working directory
        for path in paths:
            try:
                tree.writable(path)
            except Failure as failure:
                said = f"{failure}; the commits differ in it, so a person has to move HEAD there"
                raise Failure(said, failure.failure, rule=failure.rule) from None
    require(context, "write", repository.top, paths)


def require_named(context: Context, paths: Sequence[str]) -> None:
    """Raises Failure (policy) for the first path, from the working directory, that may not be read; that directory
    itself is judged by what git takes of it."""
    scope = scope_in(context)
    if scope is not None:
        for path in paths:
            if os.path.normpath(path) != ".":
                scope.require("read", (path,))


def require_committed(repository: Repository, commit: str, place: str) -> None:
    """Raises Failure (policy) where one of the files of a commit may not be written below the folder ``place``."""
    require(
        repository.git.context,
        "write",
        place,
        _listed(repository.git, "ls-tree", "-r", "--full-tree", "--name-only", "-z", commit),
    )


def require_kept(repository: Repository) -> None:
    """Raises Failure (policy) where one of the files that git knows in a working tree may not be written."""
    require(repository.git.context, "write", repository.top, _listed(repository.git, "ls-files", "--full-name", "-z"))


def require_changed(repository: Repository, index: str, paths: Sequence[str], unknown: Sequence[str] = ()) -> None:
    """Raises Failure (policy) where one of the files below the paths that would be taken over into an index may not be
    read: those that differ, and those that git does not know, which ``unknown`` has git list."""
    asked = ("ls-files", "-z", "--full-name", "--modified", *unknown, "--", *paths)
    require(repository.git.context, "read", repository.top, _listed(repository.git, *asked, index=index))


def _listed(git: Git, *asked: str, index: str = "") -> Iterator[str]:
    """What git lists, asked only when it is read."""
    yield from git.items(*asked, index=index)
