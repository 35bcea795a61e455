"""Which processes a run started. That is told by ancestry, which no process can change, rather than by the environment,
which every process can.

A process that runs tasks keeps a memory file open whose name says of which state directory and which data folder the
runs are (``RunnerMark``), and starts every task in a session of its own. So a process belongs to a run where one of its
ancestors has the mark and it descends from that ancestor by way of another session: a shell, an editor or a program in
Python that is in the session of the runner belongs to the person. What a task lets go of is adopted by its runner
(``become_subreaper``) and stays below it. What it leaves behind when its runner ends has no such ancestor any more: it
is told by a limit that descendants inherit and cannot take off (``mark_for_good``).
"""

from __future__ import annotations

import _thread
import os
import resource
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

_PR_SET_CHILD_SUBREAPER = 36
_NAME = "planrunner-runs"
_OPEN = f"/memfd:{_NAME}:"
_HUNDRED_THOUSAND_YEARS = 3_155_760_000_000_000_000
"""In microseconds."""
_LIMIT = b"Max realtime timeout"
_is_marked: list[bool] = []
_LOOK = 60.0
"""Seconds between two looks of ``adopt_orphans`` at what has ended."""


class Seen(NamedTuple):
    """A line of the process table; ``state`` is the letter of ``/proc/PID/stat`` (Z: ended and not yet reaped)."""

    pid: int
    state: str
    parent: int
    group: int
    session: int


class Runner(NamedTuple):
    """A process that runs tasks: of which state directory and with which data folder, as ``identity`` has them."""

    pid: int
    state: str
    data: str


def look(pid: int) -> Seen | None:
    """The entry of a process, or None when it is gone."""
    text = content(f"/proc/{pid}/stat")
    end = text.rfind(b")")  # the name in parentheses may hold anything, parentheses included
    fields = text[end + 2 :].split(None, 4)
    if end < 0 or len(fields) < 4:
        return None
    return Seen(pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]))


def content(path: str) -> bytes:
    """The bytes of a file of the kernel; none where it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(handle, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(handle)


def variables(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty where it cannot be read."""
    pairs = [entry.partition(b"=") for entry in content(f"/proc/{pid}/environ").split(b"\0") if entry]
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def children() -> list[int]:
    """Direct children of this process, adopted ones included; empty where the kernel does not list them."""
    threads = os.listdir("/proc/self/task") if _thread._count() else [str(os.getpid())]
    return [int(pid) for thread in threads for pid in content(f"/proc/self/task/{thread}/children").split()]


def identity(directory: str) -> str:
    """What a directory is known by, wherever it is looked at from; empty where there is none."""
    try:
        about = os.stat(directory)
    except OSError:
        return ""
    return f"{about.st_dev:x}.{about.st_ino:x}"


class RunnerMark:
    """Says of this process, as long as it is not closed, that it runs tasks of a state directory."""

    __slots__ = ("_descriptor",)

    def __init__(self, state: str, data: str) -> None:
        name = f"{_NAME}:{identity(state)}:{identity(data) if data else ''}:"
        try:
            self._descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        except OSError:
            self._descriptor = -1  # a machine without memory files, where nothing can be said

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def runners_above(pid: int) -> Iterator[Runner]:
    """The runners that a process descends from as a task does, the nearest first."""
    below, known = look(pid), {pid}
    while below is not None and below.parent > 0 and below.parent not in known:
        known.add(below.parent)
        above = look(below.parent)
        if above is None:
            return
        if above.session != below.session:
            yield from _marks(above.pid)
        below = above


def _marks(pid: int) -> Iterator[Runner]:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        if target.startswith(_OPEN):
            state, data, _ = target.removeprefix(_OPEN).split(":", 2)
            yield Runner(pid, state, data)


def mark_for_good() -> None:
    """Lower a hard limit of this process, which no descendant can raise again without the rights of root: that of the
    time which a process of a real-time class may take without a pause. The new one is a hundred thousand years."""
    _is_marked.append(has_mark(os.getpid()))
    soft, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
    if hard == resource.RLIM_INFINITY:
        most = _HUNDRED_THOUSAND_YEARS
        try:
            resource.setrlimit(resource.RLIMIT_RTTIME, (most if soft == resource.RLIM_INFINITY else soft, most))
        except (OSError, ValueError):
            return  # a machine that does not let it: ancestry tells the most


def has_mark(pid: int) -> bool:
    """Whether a process descends from one that called ``mark_for_good``. Of this process: whether that was so before it
    did so itself."""
    if pid == os.getpid() and _is_marked:
        return _is_marked[0]
    line = next((each for each in content(f"/proc/{pid}/limits").splitlines() if each.startswith(_LIMIT)), b"")
    words = line.removeprefix(_LIMIT).split()
    return len(words) > 1 and words[1] != b"unlimited"


def become_subreaper() -> bool:
    """Have the kernel hand orphaned descendants to this process rather than to init; False where it refuses."""
    try:
        import _ctypes  # late, and in place of ctypes: half a millisecond rather than three

        call = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        return bool(_ctypes.call_function(call, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def adopt_orphans() -> None:
    """For a process that is a runner for long: what tasks let go of stays below it, and what of that has ended is taken
    off the process table."""
    if become_subreaper():
        threading.Thread(target=_reap_for_ever, name="orphans", daemon=True).start()


def _reap_for_ever() -> None:
    before: set[int] = set()
    while True:
        time.sleep(_LOOK)
        before = reap_old(before)


def reap_old(before: set[int]) -> set[int]:
    """Reap the ended children in other sessions that had ended at the look before already, so that the
    code which started one had time to see its end; gives those that have ended since."""
    own = os.getsid(0)
    ended = {seen.pid for pid in children() if (seen := look(pid)) and seen.state == "Z" and seen.session != own}
    for pid in ended & before:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
    return ended - before
