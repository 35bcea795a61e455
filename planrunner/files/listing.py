"""Files below a directory, found without following a link: by pattern, or all that git does not ignore."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from planrunner.failures import Failure
from planrunner.files.match import Globs, is_glob, name_fits


def inside(root: str, directory: str, pattern: str) -> str:
    """A pattern of ``directory`` as one of ``root``; raises Failure for one that leads out of it."""
    if not pattern or "\0" in pattern:
        raise Failure(f"{pattern!r} is not a path")
    relative = os.path.relpath(os.path.join(directory, pattern), root)
    if relative == ".":
        raise Failure(f"{pattern} is the whole directory of the run: name what the task changes")
    if relative.split("/")[0] == "..":
        raise Failure(f"{pattern} is outside the directory of the run")
    return relative


def matching(root: str, pattern: str, *, through: bool = False) -> Iterator[str]:
    """What there is below ``root`` that fits: files, links and folders. A folder stands for all that it holds. With
    ``through`` a link to a folder may stand in the middle of a path."""
    for path in _fitting(root, "", pattern.split("/"), os.path.isdir if through else _is_folder):
        yield path
        if _is_folder(os.path.join(root, path)):
            yield from below(root, path)


def fits(path: str, pattern: str) -> bool:
    """Whether ``matching`` would give ``path`` for ``pattern``, if it were there."""
    return Globs([pattern]).covers(path)


def _fitting(root: str, at: str, parts: Sequence[str], enters: Callable[[str], bool]) -> Iterator[str]:
    part, rest = parts[0], parts[1:]
    folder = os.path.join(root, at) if at else root
    if part == "**":
        yield from _fitting(root, at, rest, enters) if rest else (_join(at, name) for name in _names(folder))
        for name in _names(folder):
            if _is_folder(os.path.join(folder, name)):
                yield from _fitting(root, _join(at, name), parts, enters)
        return
    magic = is_glob(part)
    for name in [name for name in _names(folder) if name_fits(part, name)] if magic else [part]:
        path = os.path.join(folder, name)
        if not rest:
            if os.path.lexists(path):
                yield _join(at, name)
        elif enters(path):
            yield from _fitting(root, _join(at, name), rest, enters)
        elif not magic and os.path.islink(path):
            raise Failure(f"{_join(at, '/'.join(parts))} leads through `{name}`, which is a link")


def below(root: str, at: str) -> Iterator[str]:
    """Everything in a folder, by its path from ``root``; links are not followed."""
    for name in _names(os.path.join(root, at)):
        path = _join(at, name)
        yield path
        if _is_folder(os.path.join(root, path)):
            yield from below(root, path)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Failure(f"{folder} cannot be read: {error.strerror}") from None


def _join(at: str, name: str) -> str:
    return f"{at}/{name}" if at else name


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


PATIENCE = 60.0
"""Seconds that git may take."""


def repository_around(directory: str) -> str:
    """The nearest folder that holds a ``.git``, the directory or one around it; empty where there is none."""
    folder = os.path.realpath(directory)
    while not os.path.lexists(os.path.join(folder, ".git")):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return ""
    return folder


def git_position(directory: str) -> dict[str, str]:
    """``head`` (a commit) and ``branch``, as far as there are any."""
    position = {
        "head": _git(directory, "rev-parse", "--verify", "--quiet", "HEAD"),
        "branch": _git(directory, "symbolic-ref", "--short", "--quiet", "HEAD"),
    }
    return {name: os.fsdecode(text).strip() for name, text in position.items() if text}


def git_ignored(directory: str) -> frozenset[str] | None:
    """The files and folders below ``directory`` that git ignores, by their relative paths; a folder stands for all that
    it holds. None where git cannot tell, and where the whole directory is ignored: nothing would be left."""
    listed = _git(directory, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    if listed is None:
        return None
    names = {name.rstrip("/") for name in os.fsdecode(listed).split("\0") if name}
    if names & {"", "."} or not _is_known(directory, names):
        return None
    return frozenset(names)


def _is_known(directory: str, names: set[str]) -> bool:
    """Whether git looks at the directory at all: in one that it ignores every file is."""
    return not names or _git(directory, "check-ignore", "--quiet", ".") is None


def _git(directory: str, *arguments: str) -> bytes | None:
    """What git prints, None where it fails or is not installed. It takes no lock and runs no program of the project."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", *arguments],
            cwd=directory,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


_KINDS = (stat.S_ISREG, stat.S_ISLNK, stat.S_ISDIR)


class Listing(NamedTuple):
    """What was found, by path; ``unread`` are paths that could not be looked at or into, with the reason,
    and ``ignored`` what git ignores, a folder state for all that it holds."""

    found: dict[str, os.stat_result]
    unread: dict[str, str]
    ignored: frozenset[str]

    def is_ignored(self, path: str) -> bool:
        """Whether git ignores a path or a folder around it."""
        parts = path.split("/")
        return bool(self.ignored) and any("/".join(parts[:at]) in self.ignored for at in range(1, len(parts) + 1))


def listing(root: str, state_dir: str, patterns: Sequence[str], most: int) -> Listing:
    """Everything below ``root``, or what fits ``patterns`` (which git does not limit). Raises Failure for more than
    ``most`` files, for a pattern that leads out, and where ``root`` cannot be read."""
    walk = _Walk(os.path.realpath(root), os.path.realpath(state_dir), most)
    if not patterns:
        walk.folder("", repository_around(walk.root) != "")
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
            info = os.lstat(os.path.join(self.root, path))
        except (FileNotFoundError, NotADirectoryError):
            return False  # gone since it was listed
        except OSError as error:
            self.unread[path] = error.strerror or str(error)
            return False
        if not any(is_kind(info.st_mode) for is_kind in _KINDS):
            return False  # sockets, pipes and devices hold nothing to keep
        self.found[path] = info
        if len(self.found) > self._most:
            raise Failure(f"there are more than {self._most:,} files: name those to keep with `paths`")
        return stat.S_ISDIR(info.st_mode)

    def folder(self, at: str, asks_git: bool) -> None:
        """Take in all that a folder holds. ``asks_git``: it is the top of what git is asked about."""
        whole = os.path.join(self.root, at)
        if asks_git:
            self.ignored |= {_join(at, name) for name in git_ignored(whole) or ()}
        try:
            names = sorted(os.listdir(whole))
        except OSError as error:
            if not at:
                raise Failure(f"{self.root} cannot be read: {error.strerror}") from None
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
