"""Files of the working directory, reached without a link on the way; a path is opened, not checked and opened later."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from planrunner.capabilities.contract import Failure

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_inside(directory: str, path: str) -> BinaryIO:
    """A regular file, to read. Raises Failure: policy for a path that leads outside, logic for what cannot be read."""
    folder, name = folder_of(directory, path)
    try:
        opened = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        raise _unreachable(path, error) from None
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise Failure(f"{path} is not a regular file")
    return os.fdopen(opened, "rb")


def folder_of(directory: str, path: str) -> tuple[int, str]:
    """The folder of a path, open, and the name in it. Raises Failure as ``open_inside`` does."""
    relative = os.path.relpath(path, directory) if os.path.isabs(path) else path
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts or not parts or "\0" in path:
        raise Failure(f"{path!r} is outside the working directory", "policy")
    at = os.open(directory, _FOLDER)
    try:
        for part in parts[:-1]:
            outer, at = at, os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(outer)
    except OSError as error:
        os.close(at)
        raise _unreachable(path, error) from None
    return at, parts[-1]


def _unreachable(path: str, error: OSError) -> Failure:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Failure(f"{path} leads through a link or no folder", "policy")
    return Failure(f"{path} cannot be reached: {error.strerror}")
