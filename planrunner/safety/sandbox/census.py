"""What all processes of a confined attempt use together, counted from outside while they run."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """Living processes, bytes of memory they hold, and processor seconds of them and of those that have ended."""

    processes: int
    memory: int
    cpu: float


class _Seen(NamedTuple):
    started: int
    pages: int
    ticks: int


class Census:
    """The processes below one, and what left its family after it was seen there: a daemon stays counted."""

    __slots__ = ("_known", "_leader")

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._known: dict[int, int] = {}

    def take(self) -> Used:
        """Count now. Pages that processes share count for each of them; see ``exact``."""
        found: dict[int, _Seen] = {}
        todo = [self._leader, *self._known]
        while todo:
            pid = todo.pop()
            seen = None if pid in found else _look(pid)
            if seen is None or self._known.get(pid, seen.started) != seen.started:
                continue
            found[pid] = seen
            todo += _children(pid)
        self._known = {pid: seen.started for pid, seen in found.items()}
        memory, ticks = sum(seen.pages for seen in found.values()), sum(seen.ticks for seen in found.values())
        return Used(len(found), memory * _PAGE, ticks / _TICK)

    def exact(self) -> int:
        """Bytes of memory with what processes share counted once; slow, so only asked where it matters."""
        return sum(_share(pid) for pid in self._known)

    def end(self) -> None:
        """KILL everything that was counted and is still the same."""
        for pid, started in self._known.items():
            try:
                handle = os.pidfd_open(pid)
            except OSError:
                continue
            try:
                if (seen := _look(pid)) is not None and seen.started == started:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            except OSError:
                pass  # it has just ended
            finally:
                os.close(handle)


def _look(pid: int) -> _Seen | None:
    fields = _text(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 22 or fields[0] in b"ZX":
        return None
    return _Seen(int(fields[19]), int(fields[21]), sum(map(int, fields[11:15])))


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [int(child) for thread in threads for child in _text(f"/proc/{pid}/task/{thread}/children").split()]


def _share(pid: int) -> int:
    for line in _text(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) << 10
    seen = _look(pid)
    return seen.pages * _PAGE if seen else 0


def _text(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
