"""A downloaded file in its place: put there as a whole or not at all, and taken away again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from typing import Any, BinaryIO, NamedTuple

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.inside import folder_of

_PROTECTED = (".git", ".planrunner")


class Standing(NamedTuple):
    """A file as it stands at a path; None instead where there is none."""

    sha256: str
    mode: int
    size: int


def standing(directory: str, path: str) -> Standing | None:
    """What stands at a path. Raises Failure for what is no file, and policy for a link."""
    folder, name = _writable(directory, path)
    try:
        return _look(folder, name, path)
    finally:
        os.close(folder)


def place(directory: str, path: str, source: BinaryIO, mark: str, mode: int | None = None) -> None:
    """Put the content of ``source`` at a path; readers see the old file or the new one. Raises Failure.

    Until then it lies beside under a name with ``mark`` in it, which ``take_away`` knows it by after a kill.
    """
    folder, name = _writable(directory, path)
    staged = _staged(name, mark)
    try:
        old = _look(folder, name, path)
        try:
            _stage(folder, staged, source, mode if mode is not None else old.mode if old else 0o644)
            os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(staged, dir_fd=folder)
            raise
        os.fsync(folder)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from None
    finally:
        os.close(folder)


def take_away(directory: str, path: str, mark: str = "") -> None:
    """Remove the file at a path, or with ``mark`` what a kill left beside it. There may be none."""
    folder, name = _writable(directory, path)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_staged(name, mark) if mark else name, dir_fd=folder)
            os.fsync(folder)
    finally:
        os.close(folder)


def told(found: Standing | None) -> dict[str, Any] | None:
    """As JSON data for the journal."""
    return None if found is None else found._asdict()


def _staged(name: str, mark: str) -> str:
    return f".{name[:200]}.{mark[:12]}.planrunner"


def _writable(directory: str, path: str) -> tuple[int, str]:
    if guarded := next((part for part in path.split("/") if part.casefold() in _PROTECTED), ""):
        raise Failure(f"{path} lies in `{guarded}`, which plans do not write to", "policy")
    return folder_of(directory, path)


def _look(folder: int, name: str, path: str) -> Standing | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise Failure(f"{path} is a link", "policy")
    if not stat.S_ISREG(found.st_mode):
        raise Failure(f"{path} is not a regular file")
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(handle, "rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return Standing(digest, stat.S_IMODE(found.st_mode), found.st_size)


def _stage(folder: int, name: str, source: BinaryIO, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fchmod(target.fileno(), mode)
        os.fsync(target.fileno())
