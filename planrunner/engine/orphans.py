"""Processes that outlive what started them: how they are recognised, ended and reaped.

Every process of a task carries ``PLANRUNNER_KEY`` and ``PLANRUNNER_RUN_ID`` in its environment from its start, whatever
sessions and groups it moves to. By ``PLANRUNNER_EPOCH`` a runner that lost its run without noticing tells its own
processes from those of the runner that took over. A daemon that clears its environment is still found as a
descendant of the task, or as an orphan handed to this process when it has become a subreaper.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable

from planrunner.ancestry import ProcessEntry, children, content, look
from planrunner.engine.poller import uptime
from planrunner.escapes import escaped

_FEW = 30


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def carries(pid: int, *markers: bytes) -> bool:
    """Whether the process started with each of the environment entries ``markers`` (``NAME=value``)."""
    variables = content(f"/proc/{pid}/environ").split(b"\0")
    return all(marker in variables for marker in markers)


def carriers(*markers: bytes, among: Iterable[int] | None = None) -> list[int]:
    """Living processes that carry all ``markers``, this one and its ancestors left out."""
    carrying = [pid for pid in (pids() if among is None else among) if carries(pid, *markers)]
    spared = _lineage() if carrying else ()
    return [pid for pid in carrying if pid not in spared and (seen := look(pid)) is not None and seen.state not in "ZX"]


def _lineage() -> set[int]:
    """This process and everything above it: a nested run must not end the run it is part of."""
    spared, pid = {0, 1}, os.getpid()
    while pid > 1 and pid not in spared:
        spared.add(pid)
        seen = look(pid)
        pid = seen.parent if seen else 0
    return spared


def family(leader: int) -> list[ProcessEntry]:
    """Living members of the leader's session and group, and all its descendants."""
    table = {seen.pid: seen for pid in pids() if (seen := look(pid)) is not None}
    spared = _lineage()
    chosen = {pid for pid, seen in table.items() if leader in (pid, seen.group, seen.session)}
    grown = True
    while grown:
        more = {pid for pid, seen in table.items() if seen.parent in chosen and pid not in chosen}
        chosen |= more
        grown = bool(more)
    return [table[pid] for pid in chosen - spared if table[pid].state not in "ZX"]


def same(seen: ProcessEntry) -> Callable[[int], bool]:
    """Tells whether a number still belongs to the process that was seen, and it lives."""

    def still(pid: int) -> bool:
        now = look(pid)
        return now is not None and now.born == seen.born and now.state not in "ZX"

    return still


def end(pid: int, still: Callable[[int], bool]) -> bool:
    """KILL a process if ``still`` holds once its number can no longer pass to another one; whether it did."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        holds = still(pid)
        if holds:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        return holds
    except OSError:
        return False
    finally:
        os.close(handle)


def end_family(family: Iterable[ProcessEntry]) -> int:
    """KILL those of a family that still live; how many there were."""
    return sum([end(seen.pid, same(seen)) for seen in family])


def members(leader: int) -> list[int]:
    """Living processes of the group of a leader that has ended and is not reaped."""
    processes = [look(pid) for pid in since(leader)]
    return [seen.pid for seen in processes if seen is not None and seen.group == leader and seen.state not in "ZX"]


def name_of(pid: int) -> str:
    """The name of the program of a process, as the kernel keeps it; empty when it is gone."""
    return escaped(content(f"/proc/{pid}/comm").decode("utf-8", "replace").strip())


def marks(pid: int) -> dict[str, str]:
    """The variables of planrunner with which a process was started."""
    pairs = [entry.partition(b"=") for entry in content(f"/proc/{pid}/environ").split(b"\0")]
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs if name.startswith(b"PLANRUNNER_")}


def end_carriers(*markers: bytes, among: Iterable[int] | None = None, names: dict[int, str] | None = None) -> int:
    """KILL every process that carries all ``markers``; how many there were. ``names`` is given the name of each."""
    carrying = carriers(*markers, among=among)
    if names is not None:
        names |= {pid: name_of(pid) for pid in carrying if pid not in names}
    for pid in carrying:
        end(pid, lambda one: carries(one, *markers))
    return len(carrying)


def reap_run(run_id: str, patience: float = 2.0) -> int:
    """End every process that an earlier runner of this run left behind, and see them gone.

    Called on resume, with the lock of the run held and before anything starts. Gives how many were found; waits at most
    ``patience`` seconds.
    """
    marker = b"PLANRUNNER_RUN_ID=" + os.fsencode(run_id)
    deadline = time.monotonic() + patience
    count = end_carriers(marker)
    left = count
    while left and time.monotonic() < deadline:
        time.sleep(0.005)
        left = end_carriers(marker)
    return count


def since(first: int) -> list[int]:
    """Processes that may be younger than ``first``: all of them when numbers have started again from the bottom.

    Where few numbers were given out since, these are tried one by one: listing every process takes longer.
    """
    newest = _newest()
    if first <= newest <= first + _FEW:
        return list(range(first + 1, newest + 1))
    numbers = pids()
    return [pid for pid in numbers if pid > first] if _newest() >= first else numbers


def _newest() -> int:
    """The number that was given out last, 0 where the kernel does not tell."""
    words = content("/proc/loadavg").split()
    return int(words[-1]) if words else 0


def adopted(known: Iterable[int]) -> list[ProcessEntry]:
    """Children handed to this process: those in a session of their own that were not started here as a task."""
    session, started = os.getsid(0), set(known)
    seen = [look(pid) for pid in children() if pid not in started]
    return [one for one in seen if one is not None and one.session != session]


def reap(ended: Iterable[ProcessEntry]) -> None:
    """Take ended children off the process table."""
    for one in ended:
        if one.state == "Z":
            try:
                os.waitpid(one.pid, os.WNOHANG)
            except ChildProcessError:
                pass


_KEPT = 4096
"""Lives of attempts that ended well and are remembered."""
_SLACK = 0.03
"""Seconds: the kernel keeps births in hundredths."""


class Descent:
    """Remembers when attempts lived that ended by themselves: what they left behind was left on purpose. What was there
    before the first attempt (a first process of a container adopts whatever loses its parent) is left alone."""

    def __init__(self) -> None:
        self._began = uptime()
        self._lives: deque[tuple[float, float]] = deque()
        self._forgotten = 0.0

    def ended_well(self, began: float) -> None:
        """An attempt that began at the uptime ``began`` ends now, not by force."""
        if len(self._lives) == _KEPT:
            self._forgotten = max(self._forgotten, self._lives.popleft()[1])
        self._lives.append((began, uptime()))

    def is_doomed(self, pid: int, going_on: Iterable[float]) -> bool:
        """Whether only attempts that were ended by force can have started the process; ``going_on`` are the uptimes at
        which those began that go on."""
        seen = look(pid)
        born = seen.born if seen is not None else None
        if born is None or born <= self._began or born <= self._forgotten + _SLACK:
            return False
        if any(began <= born + _SLACK for began in going_on):
            return False
        return not any(began <= born + _SLACK and born <= ended + _SLACK for began, ended in self._lives)
