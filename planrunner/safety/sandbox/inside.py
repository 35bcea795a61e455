"""What a confined process does before it becomes the task's program. It is started as a script, mostly within
namespaces already, imports nothing of planrunner, and takes two arguments before the command: the number of the
descriptor that its order comes by, and that of the socket by which it hands over its temporary folder, or ``--``.
It lets in what Landlock is told to, sets limits, offers the way to the proxy, filters system calls and execs.

Every task that is shut in waits for this, so it imports little: the order comes as ``marshal``, from the very same
interpreter, because ``json`` and ``typing`` would take as long as all the rest.
With the one argument ``covers`` it only tries whether mounts of its own can be laid over files here.

The code 125 and a line that starts with ``sandbox:`` on standard error say that it could not.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import resource
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NO_NEW_PRIVILEGES, _SET_FILTER, _DROP_BOUND, _AMBIENT, _DEATH, _NAME = 38, 22, 24, 47, 1, 15
_CREATE, _ADD, _RESTRICT, _OPEN = 444, 445, 446, 437
_NO_LINKS = 4
_UNSHARE_MOUNTS, _UNSHARE_USERS = 0x20000, 0x10000000
_MOUNT_PRIVATE, _MOUNT_HARMLESS = 16384 | 1 << 18, 2 | 4
_OPEN_TREE, _MOVE_MOUNT, _SET_MOUNT = 428, 429, 442
_EMPTY_PATH, _RECURSIVE, _CLONE_TREE = 0x1000, 0x8000, 1
_BOTH_EMPTY = 0x44
_READ_ONLY = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_READS = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_TCP = 3
_SCOPES = 3
_UNIX, _WRITING, _BOTH = 1, 1, 2  # of sockets
_FAILED = 125
RELAY = b"sandbox-relay"
"""The name of the process that offers the way to the proxy."""


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_void_p)]


_C = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    if sys.argv[1] == "covers":
        own = os.path.dirname(os.path.realpath(__file__))
        _cover([(os.path.dirname(own), "guarded"), (own, "denied")], "/")
        return
    with open(int(sys.argv[1]), "rb") as file:
        order, command = marshal.load(file), sys.argv[3:]  # noqa: S302 - it comes from the engine
    try:
        if sys.argv[2] != "--":
            _show(int(sys.argv[2]), order["temporary"])
        if order["relay"]:
            _offer(order["relay"])
        _prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if order["covers"]:
            _cover(order["covers"], order["directory"])
        if order["drop"]:
            _drop()
        if order["landlock"]:
            _restrict(order["landlock"])
        _bound(order["limits"])
        if order["filter"]:
            _filter(order["filter"])
    except OSError as error:
        sys.stderr.write(f"sandbox: it cannot be set up: {error}\n")
        os._exit(_FAILED)
    try:
        os.execvp(command[0], [order["title"], *command[1:]])  # noqa: S606 - to become the program is what this is for
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        sys.stderr.write(f"{order['title']}: {'not found' if missing else error.strerror}\n")
        os._exit(127 if missing else 126)


def _prctl(*arguments: int) -> None:
    if _C.prctl(*(ctypes.c_ulong(each) for each in arguments)) != 0:
        raise _fault("prctl")


def _fault(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def _bound(limits: dict[str, int]) -> None:
    """Second walls behind what is measured from outside; what cannot be bounded here is bounded there alone."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, most in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        most = most if hard < 0 else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _drop() -> None:
    """Give every capability away: root in here keeps the rights of an owner of files, and no others."""
    for number in range(64):
        if _C.prctl(_DROP_BOUND, ctypes.c_ulong(number), 0, 0, 0) != 0 and ctypes.get_errno() == errno.EINVAL:
            break
    _C.prctl(_AMBIENT, 4, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if _C.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise _fault("capset")


def _cover(layers: list[tuple[str, str]], directory: str) -> None:
    """Lay mounts over paths, for this process and what it starts: what is denied is hidden, what is guarded cannot be
    written, and what lies writable in either is let in again. Outer layers come first."""
    _have_own_mounts()
    sources = {path: _handle(path) for path, how in layers if how != "denied"}
    null = _handle("/dev/null")
    hidden: list[str] = []
    for path, how in layers:
        if how != "denied":
            if any(path.startswith(f"{around}/") for around in hidden):
                os.makedirs(path, exist_ok=True)
            _lay(sources[path], path, how != "writable")
        elif os.path.isdir(path):
            options = b"mode=0755,size=1m"
            if _C.mount(b"none", _by(_handle(path)), b"tmpfs", ctypes.c_ulong(_MOUNT_HARMLESS), options) != 0:
                raise _fault(path)
            hidden.append(path)
        else:
            _lay(null, path, True)
    for path in hidden:
        _set_read_only(_handle(path), 0)
    os.chdir(directory)  # what was the working directory may lie beneath a mount by now


def _have_own_mounts() -> None:
    """Root may have mounts of its own; others may in a namespace of users in which they stay who they are."""
    user, group = os.getuid(), os.getgid()
    if _C.unshare(_UNSHARE_MOUNTS) != 0:
        if _C.unshare(_UNSHARE_USERS | _UNSHARE_MOUNTS) != 0:
            raise _fault("unshare")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    if _C.mount(b"none", b"/", None, ctypes.c_ulong(_MOUNT_PRIVATE), None) != 0:
        raise _fault("mount")


def _lay(source: int, path: str, read_only: bool) -> None:
    """Lay a copy of the mount of ``source``, a descriptor, over what lies at a path."""
    tree = _C.syscall(_OPEN_TREE, source, b"", _EMPTY_PATH | _RECURSIVE | _CLONE_TREE | os.O_CLOEXEC)
    if tree < 0:
        raise _fault(path)
    if read_only:
        _set_read_only(tree, _RECURSIVE)
    if _C.syscall(_MOVE_MOUNT, tree, b"", _handle(path), b"", _BOTH_EMPTY) != 0:
        raise _fault(path)


def _set_read_only(handle: int, how: int) -> None:
    change = (ctypes.c_uint64 * 4)(_READ_ONLY)
    if _C.syscall(_SET_MOUNT, handle, b"", _EMPTY_PATH | how, ctypes.byref(change), ctypes.c_size_t(32)) != 0:
        raise _fault("mount")


def _handle(path: str) -> int:
    """A descriptor for what lies at a path now, reached through no link; it ends with this process."""
    handle = _opened(path, False)
    if handle < 0:
        raise _fault(path)
    return handle


def _opened(path: str, links: bool) -> int:
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, 0 if links else _NO_LINKS)
    return int(_C.syscall(_OPEN, -100, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(24)))


def _by(handle: int) -> bytes:
    return b"/proc/self/fd/%d" % handle


def _restrict(rules: dict[str, Any]) -> None:
    """Landlock: only these files may be read and written; signals and abstract sockets stay within."""
    version = _C.syscall(_CREATE, None, ctypes.c_size_t(0), 1)
    if version < rules["least"]:
        raise OSError(errno.ENOSYS, f"the kernel has version {max(version, 0)} of Landlock")
    known = (1 << 13) - 1
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL)):
        known |= right if version >= since else 0
    net = _TCP if rules["closed"] and version >= 4 else 0
    asked = _Ruleset(known, net, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    handle = _C.syscall(_CREATE, ctypes.byref(asked), ctypes.c_size_t(size), 0)
    if handle < 0:
        raise _fault("landlock")
    for path in rules["read"]:
        _let(handle, path, _READS & known)
    for path in rules["write"]:
        _let(handle, path, known & ~_IOCTL)
    for path in rules["list"]:
        _let(handle, path, _READ_DIR)
    for path in rules["devices"]:
        _let(handle, path, known & (_READ_FILE | _WRITE_FILE | _READ_DIR | _TRUNCATE | _IOCTL), links=True)
    if _C.syscall(_RESTRICT, handle, 0) != 0:
        raise _fault("landlock")
    os.close(handle)


def _let(ruleset: int, path: str, rights: int, links: bool = False) -> None:
    """Let in what lies at a path. Without ``links`` no link may lead there: another task may have just made one."""
    handle = _opened(path, links)
    if handle < 0:
        return  # what is not there needs no way in
    folder = os.path.isdir(f"/proc/self/fd/{handle}") if os.path.isdir("/proc/self/fd") else os.path.isdir(path)
    rule = _Beneath(rights if folder else rights & _OF_FILES, handle)
    done = _C.syscall(_ADD, ruleset, 1, ctypes.byref(rule), 0)
    os.close(handle)
    if done != 0:
        raise _fault(path)


def _filter(lines: bytes) -> None:
    buffer = ctypes.create_string_buffer(lines, len(lines))
    given = _Program(len(lines) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    if _C.prctl(_SET_FILTER, ctypes.c_ulong(2), ctypes.byref(given), 0, 0) != 0:
        raise _fault("seccomp")


def _show(number: int, path: str) -> None:
    """Hand a folder over, so that what is left in it can be told when the sandbox is gone."""
    import _socket  # `socket` imports more, which takes as long as all the rest

    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    line = _socket.socket(_UNIX, _socket.SOCK_STREAM, 0, number)
    line.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, handle.to_bytes(4, sys.byteorder))])
    line.close()
    os.close(handle)


def _offer(path: str) -> None:
    """A child that hands what comes to a port of the loopback interface on to the proxy's socket at ``path``."""
    import socket  # a tenth of the time of a small task, which only those with a proxy spend

    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.environ[name] = os.environ[name.upper()] = address
    for name in ("no_proxy", "NO_PROXY"):
        os.environ.pop(name, None)
    parent = os.getpid()
    _C.prctl(_NAME, RELAY, 0, 0, 0)  # the child has the name from its first moment
    if os.fork():
        listening.close()
        return
    _C.prctl(_DEATH, ctypes.c_ulong(9), 0, 0, 0)  # it ends with the task's program, which keeps the number of this one
    if os.getppid() != parent:
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # pipes of the task end with the task
        os.dup2(null, stream)
    try:
        _relay(listening, path)
    finally:
        os._exit(0)


def _relay(listening: Any, path: str) -> None:
    while True:
        client, _ = listening.accept()
        proxy = type(listening)(_UNIX)
        try:
            proxy.connect(path)
        except OSError:
            client.close()
            continue
        for one, other in ((client, proxy), (proxy, client)):
            threading.Thread(target=_pass, args=(one, other), daemon=True).start()


def _pass(one: Any, other: Any) -> None:
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(_WRITING)
    except OSError:
        for each in (one, other):
            try:
                each.shutdown(_BOTH)
            except OSError:
                continue  # it is closed already


if __name__ == "__main__":
    main()
