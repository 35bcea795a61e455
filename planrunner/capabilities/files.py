"""Reading and writing files inside the working directory. A file is replaced as a whole or not at all."""

from __future__ import annotations

import os
import stat
from typing import Annotated

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.declare import Doc, capability
from planrunner.capabilities.durations import size as bytes_of
from planrunner.record import NamedTuple

_CHUNK = 1 << 20


class Content(NamedTuple):
    content: str
    size: int
    sha256: str


class Written(NamedTuple):
    path: str
    changed: bool
    size: int
    sha256: str


@capability("files.read", effect="read")
def read(
    context: Context,
    path: Annotated[str, Doc("file to read, relative to the working directory")],
    encoding: Annotated[str, Doc("how the text is encoded")] = "utf-8",
    max_bytes: Annotated[int | str, Doc("refuse a file larger than this", quantity="size")] = "1MiB",
) -> Content:
    """Read a text file."""
    limit = _size(max_bytes)
    try:
        handle = os.open(os.path.join(context.call.directory, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None
    try:
        data = _contents(handle, path, limit)
    finally:
        os.close(handle)
    try:
        text = data.decode(encoding)
    except LookupError:
        raise Failure(f"`{encoding}` is no known encoding") from None
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is not {encoding} text: byte {error.start} does not fit") from None
    return Content(text, len(data), _sha256(data))


@capability("files.write", effect="idempotent", risks=("replaces the file that stands there",))
def write(
    context: Context,
    path: Annotated[str, Doc("file to write, inside the working directory")],
    content: Annotated[str, Doc("the whole new content")],
    encoding: Annotated[str, Doc("how the text is encoded")] = "utf-8",
    mode: Annotated[str, Doc("permissions in octal, such as 0644; default: those of the old file, else 0644")] = "",
    parents: Annotated[bool, Doc("create missing folders")] = False,
) -> Written:
    """Write a text file: readers see the old content or the new one, never a part.

    The same content already there is left alone (`changed` is false). A path that leads out of the working directory,
    by `..` or by a link, is refused with the failure class `policy`.
    """
    try:
        data = content.encode(encoding)
    except (LookupError, UnicodeEncodeError) as error:
        raise Failure(f"the content cannot be written as {encoding}: {error}") from None
    permissions = _mode(mode)
    try:
        changed = _replace(context, path, data, permissions, parents)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from None
    return Written(path, changed, len(data), _sha256(data))


def _replace(context: Context, path: str, data: bytes, mode: int | None, parents: bool) -> bool:
    """Put the data in place under a folder that is held open from check to rename; False when it was there already."""
    folder, name = _open_folder(context.call.directory, path, parents)
    try:
        old = _look(folder, name, path)
        as_asked = old is not None and mode in (None, stat.S_IMODE(old.st_mode))
        if old is not None and as_asked and old.st_size == len(data) and _same(folder, name, data):
            return False
        if mode is None:
            mode = stat.S_IMODE(old.st_mode) if old else 0o644
        _stage(folder, name, context.call.key, data, mode)
        return True
    finally:
        os.close(folder)


def _open_folder(directory: str, path: str, parents: bool) -> tuple[int, str]:
    """The folder of ``path`` as a descriptor, reached without a link on the way, and the name inside it."""
    parts = _inside(directory, path)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(directory, flags)
    for part in parts[:-1]:
        try:
            inner = _enter(folder, part, flags | os.O_NOFOLLOW, parents)
        except NotADirectoryError:
            raise Failure(f"{path} leads through `{part}`, which is a link or no folder", "policy") from None
        finally:
            os.close(folder)
        folder = inner
    return folder, parts[-1]


def _enter(folder: int, part: str, flags: int, create: bool) -> int:
    try:
        return os.open(part, flags, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    try:
        os.mkdir(part, 0o755, dir_fd=folder)
    except FileExistsError:
        pass
    return os.open(part, flags, dir_fd=folder)


def _inside(directory: str, path: str) -> list[str]:
    """The steps from the directory to the file; raises Failure (policy) for a path that leaves it."""
    if "\0" in path or not path:
        raise Failure(f"{path!r} is no path")
    relative = os.path.relpath(path, directory) if os.path.isabs(path) else path
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise Failure(f"{path} is outside the working directory", "policy")
    if relative.endswith("/"):
        raise Failure(f"{path} names a folder, not a file")
    return parts


def _look(folder: int, name: str, path: str) -> os.stat_result | None:
    """What stands at the place now; only a regular file may be replaced."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        raise Failure(f"{path} is a link", "policy")
    if not stat.S_ISREG(found.st_mode):
        raise Failure(f"{path} is not a regular file")
    return found


def _same(folder: int, name: str, data: bytes) -> bool:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        at = 0
        while part := os.read(handle, _CHUNK):
            if data[at : at + len(part)] != part:
                return False
            at += len(part)
        return at == len(data)
    finally:
        os.close(handle)


def _stage(folder: int, name: str, key: str, data: bytes, mode: int) -> None:
    """Write beside, make durable, rename. The staged name is the attempt's: one left by a kill is written over."""
    staged = f".{name[:200]}.{_sha256(key.encode())[:12]}.planrunner"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(staged, flags, 0o600, dir_fd=folder)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(handle, rest) :]
            os.fchmod(handle, mode)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(staged, dir_fd=folder)
        raise
    os.fsync(folder)


def _contents(handle: int, path: str, limit: int) -> bytes:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise Failure(f"{path} is not a regular file")
    parts, total = [], 0
    while part := os.read(handle, min(_CHUNK, limit + 1 - total)):
        parts.append(part)
        total += len(part)
        if total > limit:
            raise Failure(f"{path} is larger than {limit} bytes")
    return b"".join(parts)


def _size(value: int | str) -> int:
    try:
        return bytes_of(value)
    except ValueError as error:
        raise Failure(f"`max_bytes`: {error}") from None


def _mode(text: str) -> int | None:
    if not text:
        return None
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise Failure(f"`mode` must be octal permissions such as 0644, found {text}")
    return mode


def _sha256(data: bytes) -> str:
    import hashlib  # late: loads OpenSSL

    return hashlib.sha256(data).hexdigest()
