"""Single files below the working directory of a call, for plugins: nothing outside is ever reached.

A path that leaves the directory, by ``..`` or by a link, fails as ``policy``, and so does writing to what rules over
the plan or over git. The folders are held open meanwhile, so that swapping one for a link changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from zlib import crc32

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.acting import open_tree
from planrunner.capabilities.files.standing import contents

LIMIT = 16 << 20
"""Bytes that are read of a file where nothing else is said."""


def read_inside(context: Context, path: str, limit: int = LIMIT) -> bytes | None:
    """The content of a file, relative to the working directory; None where there is none. Links are followed as long
    as they stay inside. Raises Failure: ``policy`` for a path that leads out, ``logic`` for one that cannot be read or
    has more than ``limit`` bytes."""
    with open_tree(context, looks=True) as tree:
        try:
            handle = tree.open_to_read(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}") from None
        try:
            return contents(handle, path, limit)
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}") from None
        finally:
            os.close(handle)


def write_inside(context: Context, path: str, data: bytes) -> None:
    """Write a file at once: whoever reads it sees the old content or the new. One that stands there keeps its
    permissions; its folder has to be there. Raises Failure: ``policy`` for a path that leads out, through a link or to
    a link, or that plans do not write to."""
    with _folder(context, path) as (folder, name):
        mode = _mode(folder, name, path)
        staged = f".planrunner-{name[:100]}-{crc32(context.call.key.encode()):08x}.part"  # each call has its own
        with contextlib.suppress(FileNotFoundError):
            os.unlink(staged, dir_fd=folder)  # left behind when this very call was cut off
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(staged, flags, 0o666, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def remove_inside(context: Context, path: str) -> None:
    """Remove a file; nothing where there is none. Raises Failure like ``write_inside``."""
    with _folder(context, path) as (folder, name):
        if _mode(folder, name, path) is not None:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)


@contextlib.contextmanager
def _folder(context: Context, path: str) -> Iterator[tuple[int, str]]:
    """The folder of a path that may be written, open, and the name in it."""
    with open_tree(context) as tree:
        parts = tree.writable(path)
        try:
            folder = tree.folder(parts[:-1])
            try:
                yield folder, parts[-1]
            finally:
                os.close(folder)
        except OSError as error:
            raise Failure(f"{path} cannot be written: {error.strerror}") from None


def _mode(folder: int, name: str, path: str) -> int | None:
    """The permissions of the file that stands there, None where there is none. Raises Failure for anything else."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise Failure(f"{path} is a link", "policy", rule="files.link")
    if not stat.S_ISREG(found.st_mode):
        raise Failure(f"{path} is not a regular file")
    return stat.S_IMODE(found.st_mode)
