"""A process that becomes an ordinary user before it becomes a command: `python somebody.py ORDER COMMAND…`.

ORDER is JSON: `uid` (0: stay who this is), `reach` (folders that the user has to be able to look into, though what lies
around them is closed), and `without`: what the machine shall seem to lack, of `namespaces` and `landlock`. The code 77
and a line on standard error say that it cannot be done here.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import stat
import struct
import sys
from collections.abc import Sequence

CANNOT = 77
_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
_NO_NEW_PRIVILEGES, _SET_FILTER, _DUMPABLE = 38, 22, 4
_LOAD, _EQUAL, _ANSWER = 0x20, 0x15, 0x06
_ALLOW, _ENOSYS = 0x7FFF0000, 0x00050000 | 38
_LANDLOCK = 444
_C = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    order, command = json.loads(sys.argv[1]), sys.argv[2:]
    try:
        if order["uid"]:
            _open(order["reach"])
            os.setgroups([])
            os.setresgid(*[order["uid"]] * 3)
            os.setresuid(*[order["uid"]] * 3)
            _look(order["reach"])
        if "namespaces" in order["without"]:
            _forbid_namespaces()
        if "landlock" in order["without"]:
            _hide_landlock()
    except OSError as error:
        sys.stderr.write(f"nobody else can be become here: {error}\n")
        sys.exit(CANNOT)
    os.execv(command[0], command)


def _checked(done: int, what: str) -> None:
    if done != 0:
        raise OSError(ctypes.get_errno(), what)


def _mount(source: str, target: str, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
    _checked(_C.mount(os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), data), target)


def _open(folders: Sequence[str]) -> None:
    """Lay an open folder over each closed one around these, with nothing but them in it, for this process alone."""
    _checked(_C.unshare(_NEW_MOUNTS), "unshare")
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    while closed := next(filter(None, map(_closed_above, folders)), ""):
        inner = {path: os.open(path, os.O_PATH) for path in folders if path.startswith(f"{closed}/")}
        _mount("none", closed, b"tmpfs", 0, b"mode=755")
        for path, handle in inner.items():
            os.makedirs(path, exist_ok=True)
            _mount(f"/proc/self/fd/{handle}", path, None, _BIND | _RECURSIVE)


def _look(folders: Sequence[str]) -> None:
    for path in folders:
        if not os.access(path, os.R_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "closed to others", path)


def _closed_above(path: str) -> str:
    """The outermost folder around a path that others cannot pass."""
    parts = path.strip("/").split("/")
    above = ["/" + "/".join(parts[:number]) for number in range(1, len(parts))]
    return next((each for each in above if not os.stat(each).st_mode & stat.S_IXOTH), "")


def _forbid_namespaces() -> None:
    """What `sysctl user.max_user_namespaces=0` does to a machine, for this process and what it starts."""
    uid, gid = os.getuid(), os.getgid()
    _C.prctl(_DUMPABLE, 1, 0, 0, 0)  # else the files below belong to root
    _checked(_C.unshare(_NEW_USERS), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:
        file.write("0")


def _hide_landlock() -> None:
    """Have the kernel answer as one without Landlock."""
    lines = ((_LOAD, 0, 0, 0), (_EQUAL, 0, 1, _LANDLOCK), (_ANSWER, 0, 0, _ENOSYS), (_ANSWER, 0, 0, _ALLOW))
    text = b"".join(struct.pack("=HBBI", *line) for line in lines)
    buffer = ctypes.create_string_buffer(text, len(text))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(lines), ctypes.addressof(buffer)))
    _checked(_C.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")
    _checked(_C.prctl(_SET_FILTER, ctypes.c_ulong(2), program, 0, 0), "seccomp")


if __name__ == "__main__":
    main()
