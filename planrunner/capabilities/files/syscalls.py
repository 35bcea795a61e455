"""Two system calls that Python has no name for: ``openat2``, which keeps to a folder, and ``renameat2``, which swaps
two names or refuses to replace one.

Each raises OSError as the calls in ``os`` do; where the kernel does not have one, or a container filters it out, with
``ENOSYS``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from typing import Any

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
    """Whether the error says that there is no such call here; it is then not tried again."""
    if error.errno in (errno.ENOSYS, errno.EPERM) and call == "openat2":
        _missing.add(call)
        return True
    return error.errno in (errno.ENOSYS, errno.EINVAL)


def has_openat2() -> bool:
    """Whether ``openat2`` is worth a try. The first one that fails settles it."""
    return sys.platform == "linux" and "openat2" not in _missing
