"""Reading files that somebody else has put there: regular ones only, a bounded part of them, without ever waiting."""

from __future__ import annotations

import errno
import os
import stat


def read_regular(path: str, most: int) -> bytes:
    """At most ``most`` bytes of a file. Raises OSError, also for a pipe, a device and whatever else would make a reader
    wait: EISDIR for a folder, EINVAL for the others. Raises ValueError for a path with a NUL."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            raise OSError(number, os.strerror(number) if number == errno.EISDIR else "it is no regular file", path)
        parts: list[bytes] = []
        while most > 0 and (part := os.read(handle, min(most, 1 << 20))):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    finally:
        os.close(handle)
