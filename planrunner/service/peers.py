"""Whose process is at the other end of a connection on this machine."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def user_of(client: tuple[str, int], server: tuple[str, int | None] | None) -> int | None:
    """The user id of the process that connected from ``client`` (address and port) to ``server``; None where the
    system does not tell, as for a connection from another machine."""
    if server is None:
        return None
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
                return int(rest[4])
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
