"""What stands at a path and below it, by content and permissions, and the patterns that choose among it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from planrunner.failures import Failure
from planrunner.files.beneath import Beneath
from planrunner.files.match import Globs

Json = Any

CHUNK = 1 << 20
DEEPEST = 64
MOST = 100_000
"""Levels and entries of a tree that is copied, removed or kept."""
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW


class FileState(NamedTuple):
    """``kind`` is file (with ``mode``, ``size`` in bytes and ``sha256``), link (with ``target``) or folder (with
    ``mode``). Where nothing is, the state is None. ``unread`` is what could not be read, ``gone`` what vanished."""

    kind: str
    mode: int = 0
    size: int = 0
    sha256: str = ""
    target: str = ""

    def as_json(self) -> dict[str, Json]:
        """As JSON data, for a journal."""
        if self.kind == "file":
            return {"kind": "file", "mode": self.mode, "size": self.size, "sha256": self.sha256}
        return (
            {"kind": "folder", "mode": self.mode} if self.kind == "folder" else {"kind": "link", "target": self.target}
        )


def state_from(told: dict[str, Json] | None) -> FileState | None:
    """What ``told`` wrote."""
    return None if told is None else FileState(**told)


def file_of(data: bytes, mode: int) -> FileState:
    """A file with this content."""
    return FileState("file", mode, len(data), sha256(data))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def state_of(tree: Beneath, parts: list[str]) -> FileState | None:
    """What stands at the end of the steps, links not followed. Raises Failure for what can be neither read nor kept,
    policy where the way leads through a link."""
    if not parts:
        return FileState("folder", stat.S_IMODE(os.fstat(tree.root).st_mode))
    try:
        folder = tree.folder(parts[:-1])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Failure(f"{'/'.join(parts)} cannot be reached: {error.strerror}") from None
    try:
        return state_in(folder, parts[-1], "/".join(parts), tree.go_on)
    finally:
        os.close(folder)


def state_at(tree: Beneath, path: str) -> FileState | None:
    """What stands at a path, nothing where the way to it is gone: for comparing, not for deciding what to do."""
    try:
        return state_of(tree, path.split("/"))
    except Failure as failure:
        if failure.failure == "policy":
            return None
        raise


def state_in(folder: int, name: str, path: str, go_on: Callable[[], None] = lambda: None) -> FileState | None:
    """The same for a name in a folder that is open; ``path`` is for the message, ``go_on`` called now and then."""
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            return FileState("link", target=os.readlink(name, dir_fd=folder))
        if stat.S_ISDIR(info.st_mode):
            return FileState("folder", stat.S_IMODE(info.st_mode))
        if not stat.S_ISREG(info.st_mode):
            raise Failure(f"{path} is not a regular file")
        return _file(folder, name, path, go_on)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None


def _file(folder: int, name: str, path: str, go_on: Callable[[], None]) -> FileState:
    handle = os.open(name, READ, dir_fd=folder)
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode):
            raise Failure(f"{path} is not a regular file")
        hashed, size = hashlib.sha256(), 0
        while data := os.read(handle, CHUNK):
            hashed.update(data)
            size += len(data)
            go_on()
        return FileState("file", stat.S_IMODE(info.st_mode), size, hashed.hexdigest())
    finally:
        os.close(handle)


def contents(handle: int, path: str, limit: int) -> bytes:
    """The whole of an open file. Raises Failure for one that is larger, or no file."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise Failure(f"{path} is not a regular file")
    parts, total = [], 0
    while part := os.read(handle, min(CHUNK, limit + 1 - total)):
        parts.append(part)
        total += len(part)
        if total > limit:
            raise Failure(f"{path} is larger than {limit} bytes")
    return b"".join(parts)


def content(tree: Beneath, parts: list[str], limit: int) -> bytes:
    """The content of a file, no link followed."""
    path = "/".join(parts)
    try:
        handle = tree.open(parts)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None
    try:
        return contents(handle, path, limit)
    finally:
        os.close(handle)


class Entry(NamedTuple):
    """One name found below a folder; ``folder`` is the open folder that it is in, for as long as it is looked at."""

    path: str
    name: str
    folder: int
    found: os.stat_result


def entries(tree: Beneath, parts: list[str], enter: Callable[[str], bool]) -> Iterator[Entry]:
    """Everything below a folder, in order, each opened relative to the one before; ``enter`` is asked with its path
    whether to look into a folder. What vanishes meanwhile is left out. Raises Failure."""
    path = "/".join(parts)
    try:
        folder = tree.folder(parts)
        try:
            for entry in _entries(folder, path, enter, 0):
                tree.go_on()
                yield entry
        finally:
            os.close(folder)
    except OSError as error:
        raise Failure(f"{path or 'the working directory'} cannot be looked through: {error.strerror}") from None


def _entries(folder: int, path: str, enter: Callable[[str], bool], depth: int) -> Iterator[Entry]:
    if depth > DEEPEST:
        raise Failure(f"{path} lies more than {DEEPEST} folders deep")
    for name in sorted(os.listdir(folder)):
        inner = f"{path}/{name}" if path else name
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            yield Entry(inner, name, folder, info)
            if not (stat.S_ISDIR(info.st_mode) and enter(inner)):
                continue
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            yield from _entries(below, inner, enter, depth + 1)
        finally:
            os.close(below)


def below(tree: Beneath, parts: list[str], way: Literal["read", "write"] = "write") -> dict[str, FileState]:
    """Everything below a folder as it stands, by path. Raises Failure for more than ``MOST``, for what is not a file,
    link or folder, and (policy) for what plans do not write to, or what a scope does not let be read, or written."""
    states: dict[str, FileState] = {}
    for entry in entries(tree, parts, lambda _: True):
        tree.writable(entry.path, way)
        state = state_in(entry.folder, entry.name, entry.path, tree.go_on)
        if state is not None:
            states[entry.path] = state
        if len(states) > MOST:
            raise Failure(f"{'/'.join(parts)} holds more than {MOST} entries")
    return states


_MOST = 64
"""Parts of one pattern."""
_STARS = 8


class Patterns(Globs):
    """Patterns as a plan gives them. Raises Failure for an invalid one, and policy for one that leads out."""

    __slots__ = ()

    def __init__(self, patterns: Iterable[str], hidden: bool) -> None:
        patterns = list(patterns)
        for pattern in patterns:
            parts = [part for part in pattern.split("/") if part not in ("", ".")]
            if pattern.startswith("/") or ".." in parts:
                message = f"the pattern {pattern} leads out of the working directory"
                raise Failure(message, rule="files.beneath")
            if not parts or len(parts) > _MOST:
                raise Failure(f"{pattern!r} is not a pattern: expected names, `*` and `**` with `/` between them")
            for part in parts:
                if part.count("*") > _STARS:
                    raise Failure(f"the pattern {part} has more than {_STARS} stars in one name")
        super().__init__(patterns, hidden)
