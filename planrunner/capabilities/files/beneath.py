"""A working directory held open, and every path opened from it on: whatever others swap meanwhile, nothing outside is
reached.

The kernel walks the path where it has ``openat2``; elsewhere it is walked here, one component after the other, each
opened relative to the one before and none of them a link. A path is never checked first and opened afterwards: what was
opened is what is used.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files import syscalls
from planrunner.capabilities.files.scope import Scope, scope_of
from planrunner.plan import patterns

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_LINKS = 40
APART = (".git", ".planrunner")
"""Folders, at whatever depth, that belong to git and to planrunner."""
PROTECTED = (*APART, "planrunner.yaml")
"""What rules over the plan, at whatever depth: a plan does not write to it."""


def steps(directory: str, path: str) -> list[str]:
    """The names from the directory down to the path, none for the directory itself. Raises Failure: ``policy`` for a
    path that leaves it."""
    if "\0" in path or not path:
        raise Failure(f"{path!r} is no path")
    parts = patterns.steps(directory, path)
    if parts is None and (plain := patterns.without_parents(directory, path)):
        why = f"{path} goes up with `..`, and no path does: write `{plain}`"
        raise Failure(why, "policy", rule="files.beneath")
    if parts is None:
        raise Failure(f"{path} is outside the working directory", "policy", rule="files.beneath")
    return parts


def _never() -> bool:
    return False


def _none() -> tuple[str, ...]:
    return ()


def scope_in(context: Context) -> Scope | None:
    """What a policy leaves of the files to a call; None where it says nothing about them."""
    if not context.call.rights:
        return None
    return scope_of(context)


class Beneath:
    """The working directory, open. ``own`` are the steps to the state folder where it lies inside, in lower case, which
    nothing may write to; ``cancelled`` says that the attempt should stop; ``scope`` is what a policy leaves; ``ruling``
    gives the paths of files that rule over plans as planrunner.yaml does, asked for before anything is written. Raises
    Failure where there is no such directory, policy where it lies in the state folder."""

    __slots__ = ("_ruling", "_ruling_steps", "cancelled", "directory", "own", "root", "scope")

    def __init__(
        self,
        directory: str,
        state: str = "",
        cancelled: Callable[[], bool] = _never,
        scope: Scope | None = None,
        ruling: Callable[[], Sequence[str]] = _none,
    ) -> None:
        self.directory = directory
        self.scope = scope
        self.cancelled = cancelled
        self._ruling = ruling
        self._ruling_steps: set[tuple[str, ...]] | None = None
        try:
            self.root = os.open(directory, FOLDER)
        except OSError as error:
            raise Failure(f"the working directory cannot be opened: {error.strerror}") from None
        inside = os.path.relpath(os.path.realpath(state), os.path.realpath(directory)) if state else "../-"
        if not set(inside.split("/")) - {"..", "."}:  # then everything here is the state's own
            os.close(self.root)
            raise Failure(f"plans do not work in the state folder: {directory}", "policy", rule="files.state")
        self.own = [] if inside.split("/")[0] == ".." else inside.casefold().split("/")

    def __enter__(self) -> Beneath:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.root)

    def go_on(self) -> None:
        """Asked now and then by whatever takes long. Raises Failure where the attempt should stop."""
        if self.cancelled():
            raise Failure("stopped before anything was changed")

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Nothing stops what is done meanwhile: it is short, and half of it would be worse."""
        asked, self.cancelled = self.cancelled, _never
        try:
            yield
        finally:
            self.cancelled = asked

    def is_own(self, parts: Sequence[str]) -> bool:
        """Whether the steps lead to the state folder or into it."""
        return bool(self.own) and [part.casefold() for part in parts[: len(self.own)]] == self.own

    def writable(self, path: str, way: Literal["read", "write"] = "write") -> list[str]:
        """The steps to a path that may be written. Raises Failure (policy) for what is protected or outside. ``way`` is
        what a scope has to let: what is only copied from a place where plans may write has to be readable there."""
        parts = steps(self.directory, path)
        if not parts:
            raise Failure(f"{path} is the working directory itself", "policy", rule="files.root")
        guarded = next((part for part in parts if part.casefold() in PROTECTED), "")
        if not guarded and self._rules(parts):
            said = f"plans do not write to `{path}`: planrunner.yaml includes it"
            raise Failure(said, "policy", rule="files.protected")
        if guarded or self.is_own(parts):
            place = guarded or "/".join(parts[: len(self.own)])
            raise Failure(
                f"plans do not write to `{place}`" + (f": {path}" if path != place else ""),
                "policy",
                rule="files.protected",
            )
        if self.scope is not None:
            self.scope.require(way, parts)
        return parts

    def _rules(self, parts: Sequence[str]) -> bool:
        """Whether the steps lead to a file that rules over plans. Letters of either case are the same to some disks."""
        if self._ruling_steps is None:
            here = os.path.realpath(self.directory)
            paths = (os.path.relpath(os.path.realpath(path), here) for path in self._ruling())
            self._ruling_steps = {tuple(path.casefold().split("/")) for path in paths}
        return bool(self._ruling_steps) and tuple(part.casefold() for part in parts) in self._ruling_steps

    def open(self, parts: Sequence[str], flags: int = _READ) -> int:
        """Open what the steps lead to, no link on the way and none at the end; the caller closes it. Raises OSError
        (FileNotFoundError, NotADirectoryError) for what is not there, Failure (policy) for a link."""
        if syscalls.has_openat2():
            resolve = syscalls.BENEATH | syscalls.NO_SYMLINKS | syscalls.NO_MAGIC_LINKS
            try:
                return syscalls.openat2(self.root, "/".join(parts) or ".", flags | os.O_NOFOLLOW, resolve)
            except OSError as error:
                told = error.errno in (errno.ELOOP, errno.EXDEV, errno.ENOTDIR, errno.EAGAIN)
                if not told and not syscalls.without(error, "openat2"):
                    raise
        return self._walked(parts, flags)  # also for its better words

    def folder(self, parts: Sequence[str]) -> int:
        return self.open(parts, FOLDER)

    def _walked(self, parts: Sequence[str], flags: int) -> int:
        at = os.open(".", FOLDER, dir_fd=self.root)
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            try:
                inner = os.open(part, (flags | os.O_CLOEXEC if last else FOLDER) | os.O_NOFOLLOW, dir_fd=at)
            except OSError as error:
                if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(at, part)):
                    raise _through(parts, number, flags) from None
                raise
            finally:
                os.close(at)
            at = inner
        return at

    def open_to_read(self, path: str) -> int:
        """Open a file to read it. Links are followed as long as they stay inside. Raises OSError, Failure (policy)."""
        parts = steps(self.directory, path)
        if self.scope is None:
            return self._opened(path, parts)
        self.scope.require("read", parts)
        opened = self._opened(path, parts)
        try:  # and where links have led to
            self.scope.require("read", steps(os.path.realpath(self.directory), os.readlink(f"/proc/self/fd/{opened}")))
        except BaseException:
            os.close(opened)
            raise
        return opened

    def _opened(self, path: str, parts: list[str]) -> int:
        if syscalls.has_openat2():
            resolve = syscalls.BENEATH | syscalls.NO_MAGIC_LINKS
            try:
                return syscalls.openat2(self.root, "/".join(parts) or ".", _READ, resolve)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EAGAIN) and not syscalls.without(error, "openat2"):
                    raise
        return self._followed(path, parts)

    def _followed(self, path: str, parts: list[str]) -> int:
        """Go along links by hand: ``..`` goes back to a folder that is still open, never above the first."""
        way, left, links = [os.open(".", FOLDER, dir_fd=self.root)], parts[::-1], 0
        try:
            while left:
                part = left.pop()
                if part == "..":
                    if len(way) == 1:
                        raise Failure(f"{path} leads out of the working directory", "policy", rule="files.beneath")
                    os.close(way.pop())
                    continue
                target = _target(way[-1], part)
                if target is None:
                    flags = FOLDER if left else _READ
                    way.append(os.open(part, flags | os.O_NOFOLLOW, dir_fd=way[-1]))
                    continue
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                left += self._along(path, target, way)[::-1]
            return way.pop()
        finally:
            for each in way:
                os.close(each)

    def _along(self, path: str, target: str, way: list[int]) -> list[str]:
        parts = [part for part in target.split("/") if part not in ("", ".")]
        if not target.startswith("/"):
            return parts
        start = [part for part in self.directory.split("/") if part]
        if parts[: len(start)] != start:
            raise Failure(f"{path} leads out of the working directory", "policy", rule="files.beneath")
        while len(way) > 1:
            os.close(way.pop())
        return parts[len(start) :]


def _target(folder: int, name: str) -> str | None:
    """Where a link leads; None for anything else."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _through(parts: Sequence[str], number: int, flags: int) -> Failure:
    if number == len(parts) - 1 and not flags & os.O_DIRECTORY:
        return Failure(f"{'/'.join(parts)} is a link", "policy", rule="files.link")
    return Failure(f"{'/'.join(parts)} leads through `{parts[number]}`, which is a link", "policy", rule="files.link")
