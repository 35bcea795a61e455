"""Paths below a working directory that is held open: whatever others swap meanwhile, nothing outside is reached."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Literal, Protocol

from planrunner.failures import Failure
from planrunner.files import match

BENEATH = 0x08
NO_MAGIC_LINKS = 0x02
NO_SYMLINKS = 0x04
"""How ``openat2`` goes along a path (``linux/openat2.h``)."""

NOREPLACE = 1
EXCHANGE = 2
"""What ``renameat2`` does where the new name is taken: it fails with EEXIST, or the two names are swapped."""

_OPENAT2 = 437
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "loongarch64": 276, "ppc64le": 357, "s390x": 347}
_TRIES = 100

_libc: Any = None


def _syscall(*arguments: Any) -> int:
    global _libc
    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
    result = _libc.syscall(*(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    """Open a path from a folder on. EXDEV: it would leave the folder; ELOOP: it goes through a link."""

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    how = How(flags | os.O_CLOEXEC, 0, resolve)
    name = ctypes.c_char_p(os.fsencode(path))
    for attempt in range(_TRIES):
        try:
            return _syscall(_OPENAT2, folder, name, ctypes.byref(how), ctypes.sizeof(how))
        except OSError as error:  # EAGAIN: something was renamed meanwhile, so that the kernel cannot tell
            if error.errno != errno.EAGAIN or attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def renameat2(old_folder: int, old: str, new_folder: int, new: str, how: int) -> None:
    """Rename with ``NOREPLACE`` or ``EXCHANGE``. EINVAL: the file system cannot."""
    number = _RENAMEAT2.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    names = [ctypes.c_char_p(os.fsencode(name)) for name in (old, new)]
    _syscall(number, old_folder, names[0], new_folder, names[1], how)


_missing: set[str] = set()


def without(error: OSError, call: str) -> bool:
    """Whether the error says that the kernel lacks the call; it is then not tried again."""
    if error.errno in (errno.ENOSYS, errno.EPERM) and call == "openat2":
        _missing.add(call)
        return True
    return error.errno in (errno.ENOSYS, errno.EINVAL)


def has_openat2() -> bool:
    """Whether ``openat2`` is worth a try. The first one that fails settles it."""
    return sys.platform == "linux" and "openat2" not in _missing


FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_LINKS = 40
APART = (".git", ".planrunner")
"""Folders, at whatever depth, that belong to git and to planrunner."""
_STATE = APART[1]
PROTECTED = (*APART, "planrunner.yaml")
"""What rules over the plan, at whatever depth: a plan does not write to it."""


def steps(directory: str, path: str) -> list[str]:
    """The names from the directory down to the path, none for the directory itself. Raises Failure: ``policy`` for a
    path that leaves it."""
    if "\0" in path or not path:
        raise Failure(f"{path!r} is not a path")
    parts = match.steps(directory, path)
    if parts is None and (plain := match.without_parents(directory, path)):
        why = f"{path} goes up with `..`, and no path does: write `{plain}`"
        raise Failure(why, rule="files.beneath")
    if parts is None:
        raise Failure(f"{path} is outside the working directory", rule="files.beneath")
    return parts


def _never() -> bool:
    return False


def _none() -> tuple[str, ...]:
    return ()


class Scope(Protocol):
    """What a policy leaves of the files: ``way`` is read or write, ``parts`` are steps from the directory on."""

    def require(self, way: Literal["read", "write"], parts: Sequence[str]) -> None: ...

    def allows(self, way: Literal["read", "write"], path: str) -> bool: ...


class Beneath:
    """The working directory, open. ``own`` are the steps to the state folder where it lies inside, in lower case, which
    nothing may write to; ``cancelled`` says that the attempt should stop; ``scope`` is what a policy leaves; ``ruling``
    gives the paths of files that rule over plans as planrunner.yaml does, asked for before anything is written. Raises
    Failure where the directory does not exist, policy where it lies in the state folder."""

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
            raise Failure(f"plans do not work in the state folder: {directory}", rule="files.state")
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
            raise Failure(f"{path} is the working directory itself", rule="files.root")
        guarded = next((part for part in parts if part.casefold() in PROTECTED), "")
        if not guarded and self._rules(parts):
            said = f"plans do not write to `{path}`: planrunner.yaml includes it"
            raise Failure(said, rule="files.protected")
        if guarded or self.is_own(parts):
            place = guarded or "/".join(parts[: len(self.own)])
            raise Failure(
                f"plans do not write to `{place}`" + (f": {path}" if path != place else ""), rule="files.protected"
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
        if has_openat2():
            resolve = BENEATH | NO_SYMLINKS | NO_MAGIC_LINKS
            try:
                return openat2(self.root, "/".join(parts) or ".", flags | os.O_NOFOLLOW, resolve)
            except OSError as error:
                told = error.errno in (errno.ELOOP, errno.EXDEV, errno.ENOTDIR, errno.EAGAIN)
                if not told and not without(error, "openat2"):
                    raise
        return self._walked(parts, flags)  # also for its better words

    def folder(self, parts: Sequence[str]) -> int:
        return self.open(parts, FOLDER)

    @contextlib.contextmanager
    def inside(self, path: str) -> Iterator[int]:
        """A folder, open for as long as it is needed; empty is the directory itself."""
        folder = self.folder(path.split("/") if path else [])
        try:
            yield folder
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def parent(self, parts: Sequence[str], make: bool = False) -> Iterator[tuple[int, str]]:
        """The open folder that a path is in, and its name there; with ``make`` missing folders are made. Raises as
        ``open`` does."""
        above = parts[:-1]
        try:
            folder = self.folder(above)
        except FileNotFoundError:
            if not make:
                raise
            with self.parent(above, make) as (upper, name), contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=upper)
            folder = self.folder(above)
        try:
            yield folder, parts[-1]
        finally:
            os.close(folder)

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
        """Open a file to read it. Links are followed as long as they stay inside. Raises OSError, Failure (policy); the
        state folder is not read: what other runs said and kept is in it."""
        parts = steps(self.directory, path)
        self._require_readable(path, parts)
        opened = self._opened(path, parts)
        try:  # and where links have led to
            real = os.readlink(f"/proc/self/fd/{opened}")
            self._require_readable(path, steps(os.path.realpath(self.directory), real))
        except BaseException:
            os.close(opened)
            raise
        return opened

    def _require_readable(self, path: str, parts: list[str]) -> None:
        if self.is_own(parts) or _STATE in (part.casefold() for part in parts):
            raise Failure(f"plans do not read the state folder: {path}", rule="files.state")
        if self.scope is not None:
            self.scope.require("read", parts)

    def _opened(self, path: str, parts: list[str]) -> int:
        if has_openat2():
            resolve = BENEATH | NO_MAGIC_LINKS
            try:
                return openat2(self.root, "/".join(parts) or ".", _READ, resolve)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.EAGAIN) and not without(error, "openat2"):
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
                        raise Failure(f"{path} leads out of the working directory", rule="files.beneath")
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
            raise Failure(f"{path} leads out of the working directory", rule="files.beneath")
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
        return Failure(f"{'/'.join(parts)} is a link", rule="files.link")
    return Failure(f"{'/'.join(parts)} leads through `{parts[number]}`, which is a link", rule="files.link")


def open_inside(directory: str, path: str, scope: Scope | None = None) -> BinaryIO:
    """A regular file inside the working directory, to read. Raises Failure: policy for a path that leads outside, or
    out of the scope."""
    with Beneath(directory, scope=scope) as tree:
        try:
            opened = tree.open_to_read(path)
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise Failure(f"{path} is not a regular file")
    return os.fdopen(opened, "rb")
