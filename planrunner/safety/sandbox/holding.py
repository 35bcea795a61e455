"""Paths below a folder, opened or made one name after the other and never through a link: another task may exchange a
folder for a link while this one is shut in, and nothing outside may be let in or made by that."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator

from planrunner.safety.sandbox.confinement import Refused

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HIGH = 300
"""Descriptors are kept from this number on, out of the way of those that a process is given."""


def opened(root: str, path: str) -> int:
    """A descriptor for a path that is the root or lies below it; both are real. Raises Refused where a link leads there
    now, and OSError where nothing does."""
    with _folder(root, os.path.dirname(path) if path != root else root) as folder:
        name = os.path.basename(path) if path != root else "."
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_ISLNK(os.fstat(found).st_mode):
            raise Refused(f"{path} became a link while it was to be let in", rule="sandbox.files")
        return fcntl.fcntl(found, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    finally:
        os.close(found)


def made(root: str, path: str, folder: bool) -> bool:
    """Make a folder, or an empty file, and the folders around it; whether the file was made now. Raises as ``opened``
    does."""
    with _folder(root, path if folder else os.path.dirname(path), make=True) as around:
        if folder:
            return False
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(os.path.basename(path), flags, 0o644, dir_fd=around))
        except FileExistsError:
            return False
        return True


def kept(content: bytes) -> int:
    """A descriptor that gives these bytes to whoever reads it, out of memory."""
    found = os.memfd_create("order", os.MFD_CLOEXEC)
    try:
        with open(found, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(found, 0, os.SEEK_SET)
        return fcntl.fcntl(found, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    finally:
        os.close(found)


@contextlib.contextmanager
def _folder(root: str, path: str, make: bool = False) -> Iterator[int]:
    handle = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.path.relpath(path, root).split("/"):
            if name == ".":
                continue
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=handle)
            try:
                inner = os.open(name, _FOLDER, dir_fd=handle)
            except NotADirectoryError:
                raise Refused(f"{path} is reached through a link or a file now", rule="sandbox.files") from None
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)
