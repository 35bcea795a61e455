"""The supervisor of processes: start, stream, time out, end with everything that was started on the way.

One epoll watches a pidfd for each process. Pipes join it only when a process has lived a moment: most commands are over
by then, and what they wrote lies in the pipe. ``subprocess`` and ``asyncio`` cost more at import and per process than
the processes themselves.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from planrunner.capabilities.contract import Exit, Spawn
from planrunner.engine import strays
from planrunner.engine.clocks import uptime
from planrunner.engine.descent import Descent
from planrunner.engine.poller import Poller
from planrunner.engine.programs import Programs, SpawnFailed
from planrunner.engine.tails import Record

YOUNG = 0.002
"""Seconds a process runs before its pipes are watched."""
SETTLED = 0.03
"""Seconds that a process runs on before this one becomes a subreaper."""
GRACE = 2.0
"""Seconds from TERM to KILL where nothing else is said."""
PATIENCE = 1.0
"""Seconds that the end of an attempt waits for killed processes to be gone, if they are looked for often enough."""
LOOKS = 20
"""How often they are looked for at least, however long a busy machine takes for that."""
_CHUNK = 65536
_DRAIN = 17
"""Reads after the end: a pipe holds 1 MiB at most, whoever keeps it open and goes on writing."""


class Launch(NamedTuple):
    """A process to start. ``markers`` are its PLANRUNNER_… variables, those for key and epoch among them; ``record``
    takes what it prints. ``inherited`` is the environment below its own (None: that of the runner)."""

    spawn: Spawn
    markers: Mapping[str, str]
    timeout: float | None
    record: Record
    done: Callable[[Exit], None]
    inherited: Mapping[str, str] | None = None


class Process:
    """One running process and what belongs to it."""

    __slots__ = (
        "began",
        "code",
        "deadline",
        "duration",
        "err",
        "interrupted",
        "launch",
        "left",
        "looks",
        "out",
        "pid",
        "pidfd",
        "started",
        "timed_out",
        "timer",
    )

    def __init__(self, launch: Launch, out: int, err: int) -> None:
        self.launch = launch
        self.out = out
        self.err = err
        self.pid = self.pidfd = self.code = 0
        self.timer = self.looks = 0
        self.started = self.began = self.duration = self.deadline = 0.0
        self.timed_out = self.interrupted = False
        self.left: dict[int, str] = {}
        """The processes that it left behind when it ended by itself, with the names of their programs."""

    @property
    def forced(self) -> bool:
        """Whether it was made to end."""
        return self.timed_out or self.interrupted

    @property
    def markers(self) -> list[bytes]:
        """What the processes of this attempt carry, and those of the same attempt issued by another runner do not."""
        given = self.launch.markers
        return [os.fsencode(f"{name}={given[name]}") for name in ("PLANRUNNER_KEY", "PLANRUNNER_EPOCH")]

    def exit(self) -> Exit:
        record = self.launch.record
        dropped = record.out.dropped if record.out else 0
        return Exit(self.code, self.duration, *record.texts(), self.timed_out, self.interrupted, dropped)


class Supervisor:
    """Starts processes and reports how each ended, after nothing of it is left alive."""

    def __init__(
        self, poller: Poller, environment: Mapping[str, str], grace: float = GRACE, adopts: bool = True
    ) -> None:
        self.running: dict[int, Process] = {}
        self.problems: list[str] = []
        self.foreign_children = False
        """True while capabilities run in threads: they may have children that are not ours to reap or end."""
        self._poller = poller
        self._grace = grace
        self.programs = Programs(environment)
        self._young: list[Process] = []
        self._spare: tuple[int, int, int, int] | None = None
        self._first = 0
        self._adopts = adopts
        self._subreaper = False
        self._descent: Descent | None = None

    def start(self, launch: Launch) -> Process:
        """Start a process; raises SpawnFailed with the reason when it cannot be started."""
        try:
            out_read, out_write, err_read, err_write = self._spare or _pipes()
        except OSError as error:
            raise SpawnFailed("transient", f"no process can be started: {error.strerror}") from None
        self._spare = None
        process = Process(launch, out_read, err_read)
        try:
            inherited = self.programs.environment if launch.inherited is None else launch.inherited
            env = {**inherited, **launch.spawn.env, **launch.markers}
            process.pid = self.programs.spawn(launch.spawn, env, out_write, err_write)
            process.pidfd = _open_pidfd(process.pid)
        except BaseException:
            os.close(out_read)
            os.close(err_read)
            raise
        finally:
            os.close(out_write)
            os.close(err_write)
        self._watch(process)
        return process

    def get_ready(self) -> None:
        """Make the pipes of the next process, while nothing else is to be done."""
        if self._spare is None:
            try:
                self._spare = _pipes()
            except OSError:
                pass  # whoever needs them will say so

    def _watch(self, process: Process) -> None:
        process.started, process.began = time.monotonic(), uptime()
        self.running[process.pid] = process
        self._first = self._first or process.pid
        self._poller.watch(process.pidfd, partial(self._ended, process))
        if not self._young:
            self._poller.after(YOUNG, self._watch_pipes)
        self._young.append(process)
        if process.launch.timeout is not None:
            process.timer = self._poller.after(process.launch.timeout, lambda: self._expire(process))

    def _watch_pipes(self) -> None:
        """Watch the pipes of processes that are no longer young."""
        now = time.monotonic()
        young = [process for process in self._young if process.pidfd >= 0]
        self._young = [process for process in young if now - process.started < YOUNG]
        for process in young:
            if now - process.started >= YOUNG:
                self._poller.watch(process.out, partial(self._readable, process, "stdout"))
                self._poller.watch(process.err, partial(self._readable, process, "stderr"))
                if self._adopts and not self._subreaper:
                    self._poller.after(SETTLED, partial(self._settle, process))
        if self._young:
            self._poller.after(YOUNG, self._watch_pipes)

    def _settle(self, process: Process) -> None:
        """Something runs for so long that looking after orphans is worth its price."""
        if process.pidfd >= 0 and not self._subreaper:
            self._descent = Descent()
            self._subreaper = strays.become_subreaper()

    # Output

    def _read(self, process: Process, stream: str, chunks: int = 4) -> bool:
        """Take what a pipe holds; True once nobody holds its other end any more."""
        pipe = process.out if stream == "stdout" else process.err
        while chunks > 0 and pipe >= 0:
            try:
                data = os.read(pipe, _CHUNK)
            except BlockingIOError:
                return False
            if not data:
                self._close(process, stream)
                return True
            process.launch.record.take(stream, data)
            chunks -= 1
        return pipe < 0

    def _readable(self, process: Process, stream: str, _: int) -> None:
        self._read(process, stream)

    def _close(self, process: Process, stream: str) -> None:
        pipe = process.out if stream == "stdout" else process.err
        if pipe < 0:
            return
        self._poller.unwatch(pipe)
        os.close(pipe)
        if stream == "stdout":
            process.out = -1
        else:
            process.err = -1

    # End

    def _expire(self, process: Process) -> None:
        process.timed_out = True
        self._terminate(process)

    def interrupt(self, process: Process, forced: bool = False) -> None:
        """End a process: TERM and, after the grace, KILL; ``forced`` is KILL at once."""
        if process.pidfd < 0:
            return
        already = process.interrupted or process.timed_out
        process.interrupted = process.interrupted or not process.timed_out
        if forced:
            self._kill(process)
        elif not already:
            self._terminate(process)

    def _terminate(self, process: Process) -> None:
        self._poller.cancel(process.timer)
        _signal_group(process.pid, signal.SIGTERM)
        _signal_group(process.pid, signal.SIGCONT)
        process.timer = self._poller.after(self._grace, lambda: self._kill(process))

    def _kill(self, process: Process) -> None:
        """KILL the whole family while the leader still ties it together."""
        self._poller.cancel(process.timer)
        _signal_group(process.pid, signal.SIGSTOP)
        members = strays.family(process.pid)
        _signal_group(process.pid, signal.SIGKILL)
        for seen in members:
            strays.end(seen.pid, strays.same(seen))

    def _ended(self, process: Process, _: int) -> None:
        """The leader is over but not reaped: its number, and so its group's, cannot belong to anybody else yet."""
        process.duration = time.monotonic() - process.started
        self._poller.unwatch(process.pidfd)
        self._poller.cancel(process.timer)
        os.close(process.pidfd)
        process.pidfd = -1
        if not process.forced:
            process.left = {pid: strays.name_of(pid) for pid in strays.members(process.pid)}
        _signal_group(process.pid, signal.SIGKILL)
        process.code = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        clean = self._read(process, "stdout", _DRAIN) & self._read(process, "stderr", _DRAIN)
        if clean and not process.timed_out and not process.interrupted and not self._left_orphans():
            self._finish(process)
        else:
            process.deadline = time.monotonic() + PATIENCE
            self._sweep(process)

    def _left_orphans(self) -> bool:
        return self._subreaper and bool(strays.adopted(self.running))

    def _sweep(self, process: Process) -> None:
        """End what left the group; look again until it is gone."""
        left = strays.end_carriers(*process.markers, names=process.left)
        if self._subreaper:
            left += self._sweep_adopted(process)
        process.looks += 1
        if left and (process.looks < LOOKS or time.monotonic() < process.deadline):
            self._poller.after(0.005, lambda: self._sweep(process))
            return
        self._read(process, "stdout", _DRAIN)
        self._read(process, "stderr", _DRAIN)
        self._finish(process)

    def _sweep_adopted(self, process: Process) -> int:
        """Orphans without our variables are ended when no attempt but those ended by force can have left them."""
        found = strays.adopted(self.running)
        if self.foreign_children:
            return 0
        strays.reap(found)
        if not process.forced or self._descent is None:
            return 0
        going_on = [one.began for one in self.running.values() if not one.forced]
        doomed = self._descent.is_doomed
        left = [one for one in found if one.state not in "ZX" and doomed(one.pid, going_on)]
        for one in left:
            strays.end(one.pid, strays.same(one))
        return len(left)

    def _finish(self, process: Process) -> None:
        self._close(process, "stdout")
        self._close(process, "stderr")
        if process.left and not process.forced and (words := left_behind(process.left.values(), "task")):
            process.launch.record.remark(words)
        if problem := process.launch.record.close():
            self.problems.append(problem)
        self.running.pop(process.pid, None)
        if self._descent is not None and not process.forced:
            self._descent.ended_well(process.began)
        process.launch.done(process.exit())

    def close(self) -> None:
        for descriptor in self._spare or ():
            os.close(descriptor)
        self._spare = None
        self.programs.close()

    def sweep_run(self, run_id: str, epoch: int) -> dict[tuple[str, str], list[str]]:
        """End what finished attempts of this runner left behind in sessions of their own; gives the names of the
        programs by task and attempt."""
        found: dict[tuple[str, str], list[str]] = {}
        if self._first:
            carried = [os.fsencode(f"PLANRUNNER_{name}") for name in (f"RUN_ID={run_id}", f"EPOCH={epoch}")]
            among = strays.since(self._first)
            for pid in strays.carriers(*carried, among=among):
                said = strays.marks(pid)
                attempt = (said.get("PLANRUNNER_TASK", ""), said.get("PLANRUNNER_ATTEMPT", ""))
                found.setdefault(attempt, []).append(strays.name_of(pid))
            if found:
                strays.end_carriers(*carried, among=among)
        return found


def left_behind(names: Iterable[str], when: str) -> str:
    """The line of a log about processes that a task left behind, and that the end of the task or the run ended; empty
    where there are none but those of its sandbox."""
    counts: dict[str, int] = {}
    from planrunner.safety.sandbox.presence import PROCESSES  # late: few tasks leave anything behind

    for name in names:
        if name not in PROCESSES:
            counts[name] = counts.get(name, 0) + 1
    if not counts:
        return ""
    shown = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in sorted(counts.items()))
    number = sum(counts.values())
    what = "1 process" if number == 1 else f"{number} processes"
    return f"planrunner: the end of the {when} ended {what} that the task left behind: {shown}"


def _pipes() -> tuple[int, int, int, int]:
    """Two pipes, each by its end to read from, which does not block, and its end to write to."""
    out_read, out_write = os.pipe2(os.O_CLOEXEC)
    try:
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
    except OSError:
        os.close(out_read)
        os.close(out_write)
        raise
    os.set_blocking(out_read, False)
    os.set_blocking(err_read, False)
    return out_read, out_write, err_read, err_write


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        _signal_group(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise SpawnFailed("transient", f"no process can be watched: {error.strerror}") from None


def _signal_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        pass
