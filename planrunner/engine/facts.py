"""Facts of the world that conditions may read (``plan/expressions/facts.py`` says what they are). Looking costs no
traffic and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

Json = Any


def observe(names: Iterable[str], state_dir: str, directory: str = "") -> dict[str, Json]:
    """The facts of these names; a name that is not known and one that cannot be found out are None.

    ``memory.has_space`` is about the disk of ``state_dir``, ``disk.free`` about that of ``directory``.
    """
    facts = {**_FACTS, "memory.has_space": lambda: _free(state_dir), "disk.free": lambda: _free(directory or ".")}
    return {name: _looked_up(facts.get(name)) for name in names}


def _looked_up(find: Callable[[], Json] | None) -> Json:
    try:
        return find() if find else None
    except (OSError, ValueError, IndexError):
        return None


def _free(directory: str) -> int:
    """Free bytes for this user on the disk of a directory that may not exist yet."""
    path = os.path.abspath(directory)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _available_memory() -> int | None:
    with open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _system() -> str:
    return os.uname().sysname.lower()


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def _load() -> float:
    return os.getloadavg()[0]


def _online() -> bool:
    """Whether a default route leads out through an interface that is up."""
    return any(_is_up(name) for name in (*_routes_v4(), *_routes_v6()))


def _routes_v4() -> list[str]:
    with open("/proc/net/route", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return [row[0] for row in rows if len(row) > 7 and row[1] == row[7] == "00000000" and int(row[3], 16) & 1]


def _routes_v6() -> list[str]:
    try:
        with open("/proc/net/ipv6_route", encoding="ascii") as file:
            rows = [line.split() for line in file]
    except FileNotFoundError:
        return []
    # a default route has prefix length 00; the kernel keeps one on lo that refuses everything
    return [row[9] for row in rows if len(row) > 9 and row[1] == "00" and int(row[8], 16) & 1 and row[9] != "lo"]


def _is_up(interface: str) -> bool:
    try:
        with open(f"/sys/class/net/{interface}/operstate", encoding="ascii") as file:
            return file.read().strip() in ("up", "unknown")
    except OSError:
        return False


_FACTS: dict[str, Callable[[], Json]] = {
    "host.cpus": _cpus,
    "host.load": _load,
    "host.memory": _available_memory,
    "host.os": _system,
    "network.online": _online,
}
