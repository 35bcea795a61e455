"""What there is below a directory, without following a link: files, links and folders, but for what is not the
project's: the state of planrunner, the insides of git, and what git ignores."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from planrunner.engine import repository
from planrunner.engine.patterns import Refused, _join, inside, matching

_KINDS = (stat.S_ISREG, stat.S_ISLNK, stat.S_ISDIR)


class Listing(NamedTuple):
    """What was found, by path; ``unread`` are paths that could not be looked at or into, with the reason,
    and ``ignored`` what git ignores, a folder standing for all that it holds."""

    found: dict[str, os.stat_result]
    unread: dict[str, str]
    ignored: frozenset[str]

    def is_ignored(self, path: str) -> bool:
        """Whether git ignores a path or a folder around it."""
        parts = path.split("/")
        return bool(self.ignored) and any("/".join(parts[:at]) in self.ignored for at in range(1, len(parts) + 1))


def listing(root: str, state_dir: str, patterns: Sequence[str], most: int) -> Listing:
    """Everything below ``root``, or what fits ``patterns`` (which git does not limit). Raises Refused for more than
    ``most`` files, for a pattern that leads out, and where ``root`` cannot be read."""
    walk = _Walk(os.path.realpath(root), os.path.realpath(state_dir), most)
    if not patterns:
        walk.folder("", repository.in_repository(walk.root))
    for pattern in patterns:
        for path in matching(walk.root, inside(walk.root, walk.root, pattern)):
            if not walk.is_own(path):
                walk.see(path)
    return Listing(walk.found, walk.unread, frozenset(walk.ignored))


class _Walk:
    def __init__(self, root: str, state_dir: str, most: int) -> None:
        self.root = root
        self.found: dict[str, os.stat_result] = {}
        self.unread: dict[str, str] = {}
        self._own = os.path.relpath(state_dir, root)
        self._most = most
        self.ignored: set[str] = set()

    def is_own(self, path: str) -> bool:
        """What planrunner and git keep for themselves."""
        return path == self._own or path.startswith(self._own + "/") or ".git" in path.split("/")

    def see(self, path: str) -> bool:
        """Take in one path; True for a folder."""
        try:
            found = os.lstat(os.path.join(self.root, path))
        except (FileNotFoundError, NotADirectoryError):
            return False  # gone since it was listed
        except OSError as error:
            self.unread[path] = error.strerror or str(error)
            return False
        if not any(is_kind(found.st_mode) for is_kind in _KINDS):
            return False  # sockets, pipes and devices hold nothing to keep
        self.found[path] = found
        if len(self.found) > self._most:
            raise Refused(f"there are more than {self._most:,} files: name those to keep with `paths`")
        return stat.S_ISDIR(found.st_mode)

    def folder(self, at: str, asks_git: bool) -> None:
        """Take in all that a folder holds. ``asks_git``: it is the top of what git is asked about."""
        whole = os.path.join(self.root, at)
        if asks_git:
            self.ignored |= {_join(at, name) for name in repository.git_ignored(whole) or ()}
        try:
            names = sorted(os.listdir(whole))
        except OSError as error:
            if not at:
                raise Refused(f"{self.root} cannot be read: {error.strerror}") from None
            self.unread[at] = error.strerror or str(error)
            return
        for path in self._project(at, names):
            if self.see(path):
                self.folder(path, os.path.lexists(os.path.join(self.root, path, ".git")))

    def _project(self, at: str, names: Sequence[str]) -> Iterator[str]:
        for name in names:
            path = _join(at, name)
            if path not in self.ignored and not self.is_own(path):
                yield path
