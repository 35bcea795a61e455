"""Whose process is at the other end of a connection on this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import sys
from pathlib import Path

from planrunner.records import Struct

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_HEADER = struct.Struct("=IHHII")
_WANTED = struct.Struct("=BBBxI")
_ENDS = struct.Struct("!HH16s16s")
_ANY_INTERFACE = struct.pack("=I", 0) + b"\xff" * 8
_ANSWER = struct.Struct("=4x48xIIIII")
"""As ``linux/inet_diag.h`` has them: what is asked for, and what comes back."""


class Peer(Struct):
    """The other end of a connection: its user id, and the inode of its socket (0: no process has it any more)."""

    user: int
    inode: int


def connecting_uid(client: tuple[str, int], server: tuple[str, int | None] | None) -> int | None:
    """The user id of the process that connected from ``client`` (address and port) to ``server``; None where the
    system does not tell, as for a connection from another machine."""
    peer = _peer(client, server)
    return None if peer is None else peer.user


def processes_of(client: tuple[str, int], server: tuple[str, int | None] | None) -> list[int] | None:
    """The processes of this machine that have the other end of a connection: none for a connection from another
    machine or of another user, None where they cannot be found, as for one that has closed it."""
    peer, own = _peer(client, server), os.geteuid()
    if peer is None:
        return None if _is_loopback(client[0]) else []
    if not peer.inode:
        return None
    if own not in (0, peer.user):
        return []
    wanted = f"socket:[{peer.inode}]"
    return [int(pid) for pid in filter(str.isdigit, os.listdir("/proc")) if _has(pid, wanted)] or None


def _has(pid: str, wanted: str) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}") == wanted:
                return True
        except OSError:
            continue
    return False


def _is_loopback(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return True
    mapped = getattr(parsed, "ipv4_mapped", None)
    return bool((mapped or parsed).is_loopback)


def _peer(client: tuple[str, int], server: tuple[str, int | None] | None) -> Peer | None:
    if server is None:
        return None
    try:
        return _told(client, (server[0], server[1] or 0))
    except (OSError, ValueError, AttributeError, struct.error):
        return _listed(client, server)


def _told(client: tuple[str, int], server: tuple[str, int]) -> Peer:
    """What the kernel says of the one connection, in microseconds. Raises OSError where it cannot be asked."""
    here, there = ipaddress.ip_address(client[0]), ipaddress.ip_address(server[0])
    family = socket.AF_INET if here.version == 4 else socket.AF_INET6
    ends = _ENDS.pack(client[1], server[1], here.packed.ljust(16, b"\0"), there.packed.ljust(16, b"\0"))
    asked = _WANTED.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends + _ANY_INTERFACE
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(1)
        kernel.send(_HEADER.pack(_HEADER.size + len(asked), _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0) + asked)
        answer = kernel.recv(8192)
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        raise OSError("the kernel knows no such connection")
    return Peer(*_ANSWER.unpack_from(answer, _HEADER.size)[3:])


def _listed(client: tuple[str, int], server: tuple[str, int | None]) -> Peer | None:
    """What the tables of the kernel say, which takes milliseconds where there are many connections."""
    ends = f"{client[1]:04X}", f"{server[1] or 0:04X}"
    here, there = _forms(client[0]), _forms(server[0])
    for table in _TABLES:
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, remote, *rest = line.split(maxsplit=8)
            if _is(local, here, ends[0]) and _is(remote, there, ends[1]):
                return Peer(int(rest[4]), int(rest[5].split()[1]))
    return None


def _is(text: str, addresses: frozenset[str], port: str) -> bool:
    address, _, number = text.partition(":")
    return number == port and address in addresses


def _forms(address: str) -> frozenset[str]:
    """An address as the kernel writes it: words of four bytes in the order of the machine. One of version 4 may stand
    in the table of version 6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return frozenset()
    mapped = ipaddress.ip_address(f"::ffff:{address}") if parsed.version == 4 else parsed
    return frozenset(_words(each.packed) for each in (parsed, mapped))


def _words(packed: bytes) -> str:
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
