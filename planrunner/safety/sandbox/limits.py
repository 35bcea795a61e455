"""Holding an attempt to its limits, and putting right what it may not leave behind."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator

from planrunner.records import Struct
from planrunner.safety.sandbox.confinement import Confinement, beneath, ruling
from planrunner.safety.sandbox.wrapper import made

_LARGEST = 1 << 20
EVERY = 0.03
"""Seconds between two looks."""
_SAMPLE = ".sample"
"""Ends the names of hooks that git makes and never runs."""
_RUNS = re.compile(
    r"(?im)^\s*(?:\[\s*(?:include|includeif|filter|alias|pager|credential|diff|merge|gpg)\b"
    r"|(?:hookspath|fsmonitor|sshcommand|pager|editor|askpass|gitproxy|external|textconv|worktree)\s*=)"
)
"""Settings of a repository by which git runs programs, or takes settings from elsewhere."""
_RULING = ("planrunner.yaml", ".git")
"""Names at the top of the working directory that rule over what is run there later."""


class Breach(Struct):
    """A limit that was passed, or another rule that was broken; ``rule`` is its name, ``what`` a file that it is
    about."""

    rule: str
    message: str
    what: str = ""


class Keeper:
    """Watches the processes of one attempt from ``leader`` on; made before they start. ``aside`` is a folder to which
    what it may not leave behind is moved."""

    __slots__ = ("_absent", "_aside", "_census", "_inner", "_made", "_started", "confinement")

    def __init__(self, confinement: Confinement, aside: str) -> None:
        self.confinement = confinement
        self._aside = aside
        self._census: Census | None = None
        self._started = time.monotonic()
        self._absent = [path for path in _ruling(confinement) if not os.path.lexists(path)]
        self._inner = _inner(confinement)
        self._made = _make(confinement)

    def look(self, leader: int, printed: int) -> Breach | None:
        """The limit that is passed now; ``printed`` are the bytes of output so far."""
        limits = self.confinement.limits
        if (flood := self.flood(printed)) is not None:
            return flood
        age = time.monotonic() - self._started
        if limits.time is not None and age > limits.time:
            return self._breach("time", f"{age:.1f} s", f"{limits.time:g} s")
        if limits.cpu is limits.memory is limits.processes is None:
            return None
        self._census = self._census or Census(leader)
        return self._passed(self._census.take())

    def flood(self, printed: int) -> Breach | None:
        """Whether so many bytes of output are too many."""
        most = self.confinement.limits.output
        return self._breach("output", _size(printed), _size(most)) if most is not None and printed > most else None

    def _passed(self, used: Used) -> Breach | None:
        limits, census = self.confinement.limits, self._census
        if limits.processes is not None and used.processes - self._own() > limits.processes:
            return self._breach("processes", str(used.processes - self._own()), str(limits.processes))
        if limits.cpu is not None and used.cpu > limits.cpu:
            return self._breach("cpu", f"{used.cpu:.1f} s", f"{limits.cpu:g} s")
        if limits.memory is not None and census is not None and used.memory > limits.memory:
            exact = census.exact()
            if exact > limits.memory:
                return self._breach("memory", _size(exact), _size(limits.memory))
        return None

    def _own(self) -> int:
        """Processes that belong to the sandbox itself."""
        inner = 2 if self.confinement.kind == "bubblewrap" else 0
        return inner + (1 if self.confinement.network == "judged" else 0)

    def _breach(self, limit: str, reached: str, most: str) -> Breach:
        words = {
            "cpu": "used {} of processor time", "memory": "held {} of memory", "processes": "ran {} processes at once",
            "time": "took {}", "output": "printed {}",
        }  # fmt: skip
        origin = self.confinement.origins.get(limit)
        whose = f"`{origin}` allows {most}" if origin else f"a sandbox allows {most} where no level says more"
        line = f"policy: {{sandbox: {{{limit}: …}}}}"
        return Breach(f"sandbox.{limit}", f"{words[limit].format(reached)}, and {whose}; `{line}` there raises it")

    def end(self) -> None:
        """End what was seen of the attempt, wherever it went."""
        if self._census is not None:
            self._census.end()

    def over(self) -> Breach | None:
        """Put right what the attempt may not leave behind; what of it there was."""
        for path, before in self._made.items():
            if _signature(path) == before:
                _remove(path)
        inner = [path for path in _inner(self.confinement) - self._inner if _makes_run(path)]
        paths = [*(path for path in self._absent if os.path.lexists(path)), *sorted(inner)]
        moved = {path: place for path in paths if (place := self._put_aside(path))}
        if not moved:
            return None
        names = [os.path.relpath(path, self.confinement.root) for path in moved]
        is_one, listed = len(names) == 1, ", ".join(f"`{name}`" for name in names)
        there = next(iter(moved.values())) if is_one else self._aside
        words = f"made {listed}, which {'rules' if is_one else 'rule'} over later runs here; moved to {there}"
        repositories = [name for name in names if name.endswith(".git")]
        if repositories:
            words += f"; `policy: {{files: {{write: [{', '.join(repositories)}]}}}}` allows it"
        return Breach("sandbox.files", words, names[0])

    def _put_aside(self, path: str) -> str:
        """Where it lies now; empty where an attempt beside this one was first."""
        os.makedirs(self._aside, mode=0o700, exist_ok=True)
        place = os.path.join(self._aside, f"{os.path.basename(path)}-{time.time_ns():x}")
        try:
            os.rename(path, place)
        except FileNotFoundError:
            return ""
        return place


def _ruling(confinement: Confinement) -> Iterator[str]:
    for name in _RULING:
        path = os.path.join(confinement.root, name)
        if not any(beneath(path, let) and let != confinement.root for let in confinement.writable):
            yield path


def _inner(confinement: Confinement) -> set[str]:
    """What rules over folders in the working directory, and not over itself, where no scope names it."""
    root = confinement.root
    named = [path for path in confinement.writable if os.path.basename(path) in _RULING]
    return {path for path in ruling(root, confinement.branch) if os.path.dirname(path) != root and path not in named}


def _makes_run(path: str) -> bool:
    """Whether what a task made there makes others run something: settings, a repository with hooks or with settings
    that name programs, and a link or a file that stands for one."""
    if not path.endswith("/.git") or os.path.islink(path) or not os.path.isdir(path):
        return True
    try:
        hooks = os.listdir(os.path.join(path, "hooks"))
    except OSError:
        hooks = []
    if any(not name.endswith(_SAMPLE) for name in hooks) or os.path.islink(os.path.join(path, "hooks")):
        return True
    try:
        with open(os.path.join(path, "config"), encoding="utf-8", errors="replace") as file:
            return _RUNS.search(file.read(_LARGEST)) is not None
    except OSError:
        return False


def _make(confinement: Confinement) -> dict[str, tuple[int, ...]]:
    """Make what may be written and is not there: it can only be let in once it exists. Gives the empty files, which
    are taken away again if they are untouched."""
    signatures: dict[str, tuple[int, ...]] = {}
    for path, folder in confinement.missing:
        root = confinement.root if beneath(path, confinement.root) else "/"
        if made(root, path, folder):
            signatures[path] = _signature(path)
    return signatures


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # another attempt or program was first


def _signature(path: str) -> tuple[int, ...]:
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _size(amount: int) -> str:
    return f"{amount / 1_000_000:.0f} MB" if amount >= 10_000_000 else f"{amount:,} bytes"


_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


class Used(Struct):
    """Living processes, bytes of memory they hold, and processor seconds of them and of those that have ended."""

    processes: int
    memory: int
    cpu: float


class _Seen(Struct):
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
        processes: dict[int, _Seen] = {}
        todo = [self._leader, *self._known]
        while todo:
            pid = todo.pop()
            seen = None if pid in processes else _look(pid)
            if seen is None or self._known.get(pid, seen.started) != seen.started:
                continue
            processes[pid] = seen
            todo += _children(pid)
        self._known = {pid: seen.started for pid, seen in processes.items()}
        memory, ticks = sum(seen.pages for seen in processes.values()), sum(seen.ticks for seen in processes.values())
        return Used(len(processes), memory * _PAGE, ticks / _TICK)

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
