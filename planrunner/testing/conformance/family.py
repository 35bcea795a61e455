"""Processes that this one started and that still run."""

from __future__ import annotations

import os
from collections.abc import Iterable

from planrunner.engine.orphans import look, pids


def children(known: frozenset[int] = frozenset()) -> frozenset[int]:
    """The ids of the processes below this one that run, those of its children included; empty where the system does
    not tell. What is ``known`` is left out, with all that it starts meanwhile."""
    parents = dict(_processes())
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        above = waiting.pop()
        below = [
            process
            for process, parent in parents.items()
            if parent == above and process not in found and process not in known
        ]
        found.update(below)
        waiting += below
    return frozenset(found)


def told(processes: Iterable[int]) -> str:
    """Processes in words: what each was started as, and its id."""
    return ", ".join(f"`{_command(process)}` ({process})" for process in sorted(processes))


def _processes() -> Iterable[tuple[int, int]]:
    """Each process that has not ended, and its parent."""
    try:
        every = pids()
    except OSError:
        return
    for seen in filter(None, map(look, every)):
        if seen.state not in "ZX":
            yield seen.pid, seen.parent


def _command(process: int) -> str:
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return "?"
