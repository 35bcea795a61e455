"""Files read and written with care: regular ones in bounded parts, unnamed ones for secrets, its own resources."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from threading import RLock


def read_regular(path: str, most: int) -> bytes:
    """At most ``most`` bytes of a file. Raises OSError, also for a pipe, a device and whatever else would make a reader
    wait: EISDIR for a folder, EINVAL for the others. Raises ValueError for a path with a NUL."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            raise OSError(number, os.strerror(number) if number == errno.EISDIR else "it is not a regular file", path)
        parts: list[bytes] = []
        while most > 0 and (part := os.read(handle, min(most, 1 << 20))):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    finally:
        os.close(handle)


def stamp_of(path: str) -> tuple[int, ...]:
    """What changes when a file is written or replaced; empty where there is none."""
    try:
        about = os.stat(path)
    except OSError:
        return ()
    return about.st_ino, about.st_mtime_ns, about.st_size


def ensure_database(path: str) -> None:
    """Make the empty file of a database, for its user alone, where there is none. One that is there is not opened: to
    close it would take away the locks that SQLite has on it in this process. Raises OSError, ELOOP for a link."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        if os.path.islink(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path) from None


_TURNS: dict[str, RLock] = {}


def turn(place: str) -> RLock:
    """What a thread holds while it writes into a database, which is named by its path or its folder: by itself SQLite
    has those that wait sleep, longer and longer, while others come first."""
    return _TURNS.setdefault(os.path.abspath(place), RLock())


@contextlib.contextmanager
def locked(folder: int) -> Iterator[None]:
    """Hold the lock of an open folder: other threads and processes that lock it wait. Raises OSError."""
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)


def replace_file(path: str, data: bytes, mode: int = 0o600, durable: bool = False) -> None:
    """Write a file beside its place and rename it there: readers see the old content or the new one. ``durable``: it
    survives a loss of power. Raises OSError, with nothing left behind."""
    staged = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.planrunner"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(staged, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if durable:
                os.fsync(file.fileno())
        os.replace(staged, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(staged)
        raise


_NOT_HERE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
"""What file systems and kernels say that have no such files; the last one also without such a folder."""
_CHUNK = 1 << 20


def unnamed(folder: str) -> int:
    """The descriptor of an empty file on the file system of a folder, to be read and written. Where that has no unnamed
    files its name is taken away before anything is in it. Raises OSError."""
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
    path = os.path.join(folder, f"{os.getpid()}-{os.urandom(6).hex()}")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    os.unlink(path)
    return descriptor


def path_for_children(descriptor: int) -> str:
    """Where processes that this one starts find a file that has no name, as long as this one holds it."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def open_told(path: str) -> int:
    """Open what a process was to write, for reading; where it has a name, no link in its place is followed. Raises
    OSError."""
    own = path.startswith(f"/proc/{os.getpid()}/fd/")
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if own else os.O_NOFOLLOW))


def give_name(descriptor: int, path: str) -> None:
    """Let what an unnamed file holds be found at ``path``, where nothing is yet; durable once both are. Raises
    OSError."""
    try:
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
    except FileExistsError:
        raise
    except OSError:
        _copy(descriptor, path)


def _copy(descriptor: int, path: str) -> None:
    """For a file that had a name once: it gets no other one."""
    mode = os.fstat(descriptor).st_mode & 0o777
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        at = 0
        while data := os.pread(descriptor, _CHUNK, at):
            at += os.write(target, data)
        os.fchmod(target, mode)
        os.fsync(target)
    finally:
        os.close(target)


def sync_folder(folder: str) -> None:
    """Make the entries of a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def data_path(kind: str, name: str) -> str:
    """The path of a data file, for example ``data_path("schemas", "plan.schema.json")``.

    A wheel carries the files in ``planrunner/_data``; an editable install and a plain checkout have them at the top
    level of the repository. Raises FileNotFoundError where neither place has the file.
    """
    for root in (os.path.join(_PACKAGE, "_data"), os.path.dirname(_PACKAGE)):
        path = os.path.join(root, kind, name)
        if os.path.isfile(path):
            return path
    raise FileNotFoundError(f"{kind}/{name} is not part of this installation of planrunner")


def read_data(kind: str, name: str) -> str:
    """The text of a data file; raises FileNotFoundError like ``data_path``."""
    with open(data_path(kind, name), encoding="utf-8") as file:
        return file.read()
