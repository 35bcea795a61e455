"""Files without a name: bytes that nobody has looked through for secrets yet lie in none that outlives its process."""

from __future__ import annotations

import errno
import os

_NOT_HERE = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)
"""What file systems and kernels say that have no such files; the last one also where there is no such folder."""
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
