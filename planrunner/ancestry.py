"""Which processes a run started. That is told by ancestry, which no process can change, rather than by the environment,
which every process can.

A process that runs tasks keeps a memory file open whose name says of which state directory and which data folder the
runs are (``RunnerMark``), and starts every task in a session of its own. So a process belongs to a run where one of its
ancestors has the mark and it descends from that ancestor by way of another session: a shell, an editor or a program in
Python that is in the session of the runner belongs to the person. What a task lets go of is adopted by its runner
(``become_subreaper``) and stays below it. Every task also has a limit, which its descendants inherit and cannot take
off (``mark_for_good``): it tells what a task leaves behind when its runner ends, and what hides its ancestors in
namespaces of its own. Where /proc is not that of the kernel nothing can be told, and that is said (``Untold``).
"""

from __future__ import annotations

import _thread
import os
import resource
import threading
import time
from importlib import import_module
from itertools import pairwise

from planrunner.records import Struct

_PR_SET_CHILD_SUBREAPER = 36
_NAME = "planrunner-runs"
_OPEN = f"/memfd:{_NAME}:"
_LOCKS, _LINE = 10, b"Max file locks"
"""``RLIMIT_LOCKS``, which Python has no name for, and its line in /proc/PID/limits. Linux does not use it."""
_MARK = 1
"""The hard limit of tasks. Whatever a descendant makes of it is not more than this, and no session sets so few."""
_PROC = 0x9FA0
"""``PROC_SUPER_MAGIC`` of ``linux/magic.h``."""
_is_marked: list[bool] = []
_LOOK = 60.0
"""Seconds between two looks of ``adopt_orphans`` at what has ended."""


class ProcessEntry(Struct):
    """A line of the process table; ``state`` is the letter of ``/proc/PID/stat`` (Z: ended and not yet reaped),
    ``born`` the uptime in seconds at which the process was started: with its number it tells it from all others."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    born: float


class Runner(Struct):
    """A process that runs tasks: of which state directory and with which data folder, as ``identity`` has them."""

    pid: int
    state: str
    data: str


class Untold(Exception):
    """It cannot be told where a process comes from; the text says why."""


class Descent(Struct):
    """Where a process comes from: the runners that it descends from as a task does, the nearest first, and whether it
    has the limit of tasks from a process that no runner is seen to have started."""

    runners: tuple[Runner, ...]
    left: bool


def look(pid: int) -> ProcessEntry | None:
    """The entry of a process, or None when it is gone."""
    text = content(f"/proc/{pid}/stat")
    end = text.rfind(b")")  # the name in parentheses may hold anything, parentheses included
    fields = text[end + 2 :].split(None, 20)
    if end < 0 or len(fields) < 20 or not text.startswith(b"%d (" % pid):
        return None
    born = int(fields[19]) / _TICKS
    return ProcessEntry(pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), born)


_TICKS = os.sysconf("SC_CLK_TCK")


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


def descent(pid: int) -> Descent:
    """Where a process comes from. Raises Untold."""
    chain = _chain(pid)
    pairs = [(below, above) for below, above in pairwise(chain) if below.session != above.session]
    found = [runner for _, above in pairs for runner in runners(above.pid)]
    marked = [at for at, each in enumerate(chain) if has_mark(each.pid)]
    first = chain[marked[-1] : marked[-1] + 2] if marked else []  # a runner marks itself, or else each task
    return Descent(tuple(found), bool(first) and not any(runners(each.pid) for each in first))


def _chain(pid: int) -> list[ProcessEntry]:
    """A process and its ancestors, the nearest first, as far as this user may see them. Raises Untold."""
    _check_proc()
    own = look(pid)
    if own is None:
        raise Untold(f"`/proc/{pid}` does not tell")
    if pid == os.getpid() and (own.parent, own.session) != (os.getppid(), os.getsid(0)):
        raise Untold(f"`/proc/{pid}` does not say what the kernel says")
    chain = [own]
    while (parent := chain[-1].parent) > 0:
        above = look(parent)
        if above is None:
            if _is_of_another(parent):
                break
            again = look(chain[-1].pid)
            if again is None or again.parent == parent:
                raise Untold(f"`/proc/{parent}` does not tell")
            chain[-1] = again
        elif above.pid in {each.pid for each in chain}:
            raise Untold("`/proc` goes round in a circle")
        else:
            chain.append(above)
    return chain


def _check_proc() -> None:
    ctypes = import_module("ctypes")  # only what people alone do needs it
    about = (ctypes.c_long * 64)()
    if ctypes.CDLL(None).statfs(b"/proc", about) != 0 or about[0] != _PROC:
        raise Untold("`/proc` is not that of the kernel")
    try:
        own = os.readlink("/proc/self")
    except OSError:
        own = ""
    if own != str(os.getpid()):
        raise Untold("`/proc` is that of other processes")


def _is_of_another(pid: int) -> bool:
    """Whether there is such a process, of another user: /proc may hide those."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def runners(pid: int) -> list[Runner]:
    """What the marks of a process say; none of one that does not run tasks, or that this user may not look into."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = []
    for name in names:
        try:
            target = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
        if target.startswith(_OPEN):
            state, data, _ = target.removeprefix(_OPEN).split(":", 2)
            found.append(Runner(pid, state, data))
    return found


def mark_for_good() -> None:
    """Lower a hard limit of this process, which no descendant can raise again without the rights of root."""
    _is_marked.append(has_mark(os.getpid()))
    try:
        resource.setrlimit(_LOCKS, (_MARK, _MARK))
    except (OSError, ValueError):
        return  # a machine that does not let it: ancestry tells the most


def mark_started(pid: int) -> None:
    """Have a task that this process has just started carry the mark, where this process does not carry it itself."""
    if not 0 <= resource.getrlimit(_LOCKS)[1] <= _MARK:
        try:
            resource.prlimit(pid, _LOCKS, (_MARK, _MARK))
        except (OSError, ValueError):
            return  # it is over, or has the rights of another user: ancestry tells the most


def has_mark(pid: int) -> bool:
    """Whether a process descends from one that was marked. Of this process: whether that was so before it called
    ``mark_for_good``. Raises Untold."""
    if pid == os.getpid() and _is_marked:
        return _is_marked[0]
    try:
        return 0 <= resource.prlimit(pid, _LOCKS)[1] <= _MARK
    except OSError:  # of another user: this one may read it, not ask for it
        lines = content(f"/proc/{pid}/limits").splitlines()
    line = next((each for each in lines if each.startswith(_LINE)), b"")
    words = line.removeprefix(_LINE).split()
    if len(words) < 2:
        raise Untold(f"`/proc/{pid}/limits` does not tell")
    return words[1].isdigit() and int(words[1]) <= _MARK


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
