"""Processes that this one started and that still run."""

from __future__ import annotations

import os
from collections.abc import Iterable


def children() -> frozenset[int]:
    """The ids of the processes below this one that run, those of its children included; empty where the system does
    not tell."""
    parents = dict(_processes())
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        above = waiting.pop()
        below = [process for process, parent in parents.items() if parent == above and process not in found]
        found.update(below)
        waiting += below
    return frozenset(found)


def told(processes: Iterable[int]) -> str:
    """Processes in words: what each was started as, and its id."""
    return ", ".join(f"`{_command(process)}` ({process})" for process in sorted(processes))


def _processes() -> Iterable[tuple[int, int]]:
    """Each process that has not ended, and its parent."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in filter(str.isdigit, names):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has ended meanwhile
        if state not in "ZX":
            yield int(name), int(parent)


def _command(process: int) -> str:
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return "?"
