"""Which system calls a confined process may not make, as a program for the kernel's filter (seccomp).

The filter is the second wall: namespaces and Landlock already bound what can be reached. It takes away what bugs of the
kernel are mostly found in and no task needs: new namespaces and mounts, io_uring, bpf, keys, typing into terminals.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from planrunner.records import Struct

_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_REFUSE = 0x00050000
_EPERM, _ENOSYS, _EACCES = 1, 38, 13
_LOAD, _EQUAL, _AT_LEAST, _MASK, _ANSWER = 0x20, 0x15, 0x35, 0x54, 0x06
_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEW… of clone and unshare: mount, cgroup, uts, ipc, user, pid, net, and time."""
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423

_NUMBERS: dict[str, dict[str, int]] = {
    "x86_64": {
        "clone": 56, "unshare": 272, "ioctl": 16, "socket": 41,
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308,
        "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
        "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176,
        "name_to_handle_at": 303, "open_by_handle_at": 304, "swapon": 167, "swapoff": 168, "reboot": 169,
        "acct": 163, "quotactl": 179, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159,
        "clock_adjtime": 305, "syslog": 103, "iopl": 172, "ioperm": 173, "vhangup": 153, "kcmp": 312,
        "lookup_dcookie": 212, "sethostname": 170, "setdomainname": 171,
    },
    "aarch64": {
        "clone": 220, "unshare": 97, "ioctl": 29, "socket": 198,
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "setns": 268,
        "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
        "kexec_load": 104, "kexec_file_load": 294, "init_module": 105, "finit_module": 273, "delete_module": 106,
        "name_to_handle_at": 264, "open_by_handle_at": 265, "swapon": 224, "swapoff": 225, "reboot": 142,
        "acct": 89, "quotactl": 60, "settimeofday": 170, "clock_settime": 112, "adjtimex": 171,
        "clock_adjtime": 266, "syslog": 116, "vhangup": 58, "kcmp": 272,
        "lookup_dcookie": 18, "sethostname": 161, "setdomainname": 162,
    },
}  # fmt: skip
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEWER = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442, "quotactl_fd": 443,
}  # fmt: skip
_CLONE3 = 435
_OWNERS = {
    "x86_64": (90, 91, 92, 93, 94, 188, 189, 190, 197, 198, 199, 260, 268, 452),
    "aarch64": (5, 6, 7, 14, 15, 16, 52, 53, 54, 55, 452),
}
"""chmod, chown, setxattr and their kin: Landlock lets an owner change these of any file."""
_MODES = {
    "x86_64": ((85, 1), (90, 1), (91, 1), (133, 1), (259, 2), (268, 2), (452, 2)),
    "aarch64": ((33, 2), (52, 1), (53, 2), (452, 2)),
}
"""creat, chmod, mknod and their kin, and which argument is the mode."""
_OPENS = {"x86_64": ((2, 1), (257, 2)), "aarch64": ((56, 2),)}
"""open and openat, and which argument holds the flags; the mode comes behind it."""
_OPENAT2 = 437
_CREATES = 0x40 | 0x400000
"""O_CREAT and O_TMPFILE: without them the mode is whatever lay there."""
_RAISING = 0o6000
"""setuid and setgid: outside, a file belongs to the user of planrunner, and would give those rights to others."""
_CHECKED = ("clone", "unshare", "ioctl", "socket")
_FAMILIES = (1, 2, 10, 16)
"""Of sockets: unix, IPv4, IPv6, netlink (which tells a program of its own interfaces)."""


class _Test(Struct):
    """An argument of a system call, by its number, and the values that are refused; with a ``mask`` any of its bits."""

    call: int
    argument: int
    values: tuple[int, ...] = ()
    mask: int = 0


def program(machine: str, families: tuple[int, ...] = _FAMILIES, owners: bool = True) -> bytes:
    """The filter for ``machine`` (as ``os.uname`` calls it), which lets sockets be made of these families alone; empty
    for a machine whose numbers are not known. Without ``owners`` modes and owners of files stay as they are."""
    numbers = _NUMBERS.get(machine)
    if numbers is None:
        return b""
    lines = [_line(_LOAD, 4), _line(_EQUAL, _ARCHITECTURES[machine], 1, 0), _line(_ANSWER, _KILL), _line(_LOAD, 0)]
    if machine == "x86_64":  # the calls of x32 have numbers of their own
        lines += [_line(_AT_LEAST, 0x40000000, 0, 1), _line(_ANSWER, _REFUSE | _ENOSYS)]
    for newer in (_CLONE3, _OPENAT2):  # their arguments cannot be read here: programs take the older calls
        lines += [_line(_EQUAL, newer, 0, 1), _line(_ANSWER, _REFUSE | _ENOSYS)]
    for name, number in (*numbers.items(), *_NEWER.items()):
        if name not in _CHECKED:
            lines += [_line(_EQUAL, number, 0, 1), _line(_ANSWER, _REFUSE | _EPERM)]
    for number in () if owners else _OWNERS[machine]:
        lines += [_line(_EQUAL, number, 0, 1), _line(_ANSWER, _REFUSE | _EPERM)]
    lines += _unless(_Test(numbers["clone"], 0, mask=_NEW_NAMESPACES))
    lines += _unless(_Test(numbers["unshare"], 0, mask=_NEW_NAMESPACES))
    lines += _unless(_Test(numbers["ioctl"], 1, (_TIOCSTI, _TIOCLINUX, _TIOCSETD)))
    for number, argument in _MODES[machine]:
        lines += _unless(_Test(number, argument, mask=_RAISING))
    for number, argument in _OPENS[machine]:
        lines += _unless_made(number, argument)
    lines += _only(numbers["socket"], families)
    lines.append(_line(_ANSWER, _ALLOW))
    return b"".join(lines)


def _line(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)


def _argument(number: int) -> bytes:
    return _line(_LOAD, 16 + 8 * number)  # the low half: both machines store it first


def _unless(test: _Test) -> Iterator[bytes]:
    """Refuse a call with such an argument, and continue with the number of the call loaded."""
    lines = [_argument(test.argument)]
    if test.mask:
        lines += [_line(_MASK, test.mask), _line(_EQUAL, 0, 1, 0), _line(_ANSWER, _REFUSE | _EPERM)]
    for value in test.values:
        lines += [_line(_EQUAL, value, 0, 1), _line(_ANSWER, _REFUSE | _EPERM)]
    lines.append(_line(_LOAD, 0))
    yield _line(_EQUAL, test.call, 0, len(lines))
    yield from lines


def _unless_made(call: int, flags: int) -> Iterator[bytes]:
    """Refuse to make a file with a mode that raises rights."""
    lines = [_argument(flags), _line(_MASK, _CREATES), _line(_EQUAL, 0, 4, 0), _argument(flags + 1)]
    lines += [_line(_MASK, _RAISING), _line(_EQUAL, 0, 1, 0), _line(_ANSWER, _REFUSE | _EPERM), _line(_LOAD, 0)]
    yield _line(_EQUAL, call, 0, len(lines))
    yield from lines


def _only(call: int, families: tuple[int, ...]) -> Iterator[bytes]:
    """Refuse sockets of any other family."""
    lines = [_argument(0)]
    lines += [_line(_EQUAL, family, len(families) - at, 0) for at, family in enumerate(families)]
    lines += [_line(_ANSWER, _REFUSE | _EACCES), _line(_LOAD, 0)]
    yield _line(_EQUAL, call, 0, len(lines))
    yield from lines
