"""The supervisor of processes: start, stream, time out, end with everything that was started on the way.

One epoll watches a pidfd for each process. Pipes join it only when a process has lived a moment: most commands are over
by then, and what they wrote lies in the pipe. ``subprocess`` and ``asyncio`` cost more at import and per process than
the processes themselves.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from planrunner.ancestry import ProcessEntry, become_subreaper, children, mark_started
from planrunner.capabilities.contract import Exit, Spawn
from planrunner.engine import orphans
from planrunner.engine.orphans import Descent
from planrunner.engine.output import Record
from planrunner.engine.poller import Poller, uptime
from planrunner.records import Struct

_ENTER = 'cd -- "$1" || exit 126; unset OLDPWD; shift; exec "$@"'
_TRANSIENT = frozenset((errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY))


_OF_AN_OUTER_RUN = frozenset(
    f"PLANRUNNER_{name}"
    for name in ("RUN_ID", "TASK", "ATTEMPT", "KEY", "IDEMPOTENCY_KEY", "UNDO", "OUTPUT", "JOURNAL")
)


class SpawnFailed(Exception):
    """A process could not be started; ``failure`` is the failure class of the attempt, ``rule`` what forbids it."""

    def __init__(self, failure: str, message: str, rule: str = "") -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message
        self.rule = rule


class Programs:
    """Spawns programs in one base environment; remembers where on the PATH they are."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = {name: value for name, value in environment.items() if name not in _OF_AN_OUTER_RUN}
        self._found: dict[tuple[str, str, str], str] = {}
        self._null = _above_standard_descriptors()
        self._closed = tuple([(os.POSIX_SPAWN_CLOSE, number) for number in _inheritable()])

    def spawn(self, spawn: Spawn, env: dict[str, str], out: int, err: int) -> int:
        """The process number of the started program, which gets ``env`` and no more; raises SpawnFailed."""
        arguments, enter = spawn.arguments, self._directory(spawn.directory)
        if not arguments or not arguments[0]:
            raise SpawnFailed("logic", "there is no command to execute")
        if enter:
            # a change of directory here would be one for every thread of the process, so a shell makes it
            if code := _why_not(os.path.join(enter, self.locate(arguments[0], env, enter))):
                raise _explained(OSError(code, os.strerror(code)), arguments[0])
            arguments = ("/bin/sh", "-c", _ENTER, "sh", enter, *arguments)
        stdin = _memory_file(spawn.stdin) if spawn.stdin else self._null
        try:
            return self._spawn(arguments, env, (stdin, out, err, *spawn.descriptors))
        except ValueError as error:
            raise SpawnFailed("logic", f"the command cannot be started: {error}") from None
        except OSError as error:
            too_long = _too_long(spawn.arguments, env) if error.errno == errno.E2BIG else ""
            raise _explained(error, spawn.arguments[0], too_long) from None
        finally:
            if stdin != self._null:
                os.close(stdin)

    def _spawn(self, arguments: tuple[str, ...], env: dict[str, str], streams: tuple[int, ...]) -> int:
        copies = [(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)]
        pid = os.posix_spawn(
            self.locate(arguments[0], env, ""),
            arguments,
            env,
            file_actions=(*self._closed, *copies),
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores these two, and a child would inherit that
        )
        mark_started(pid)
        return pid

    def _directory(self, directory: str) -> str:
        """The directory to enter, or nothing when the process would be there anyway."""
        if not directory or directory == os.getcwd():
            return ""
        if not os.path.isdir(directory):
            raise SpawnFailed("logic", f"the working directory `{directory}` does not exist")
        return directory

    def locate(self, name: str, env: Mapping[str, str], directory: str) -> str:
        """The path of a program on the PATH of ``env``. Raises SpawnFailed where it is not there."""
        if "/" in name:
            return name
        path = env.get("PATH", os.defpath)
        place = self._found.get((name, path, directory))
        if place is None or not os.access(place, os.X_OK):
            place = self._found[name, path, directory] = search(name, path, directory)
        return place

    def close(self) -> None:
        os.close(self._null)


def _why_not(path: str) -> int:
    """Why the kernel would not execute a file (an errno), nought where nothing is known against it. A shell would take
    a file that is neither a program nor a script with a #! line for a script of its own."""
    if not os.access(path, os.X_OK):
        return errno.EACCES if os.path.exists(path) else errno.ENOENT
    try:
        with open(path, "rb") as file:
            head = file.read(4)
        other = set(os.listdir("/proc/sys/fs/binfmt_misc")) - {"register", "status"}
    except OSError:
        return errno.EACCES if os.path.isdir(path) else 0
    return 0 if head[:2] == b"#!" or head == b"\x7fELF" or other else errno.ENOEXEC


def search(name: str, path: str, directory: str) -> str:
    """The path of a program on this PATH, seen from a directory. Raises SpawnFailed where it is not there."""
    for folder in path.split(os.pathsep):
        candidate = os.path.join(directory, folder, name) if folder[:1] != "/" else f"{folder}/{name}"
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    raise SpawnFailed("logic", f"command not found: {name} is not on the PATH")


_LONGEST = 131_072 - 1
"""Bytes of one argument or variable that Linux takes (``MAX_ARG_STRLEN``), without the zero byte at its end."""


def _too_long(arguments: Sequence[str], env: Mapping[str, str]) -> str:
    """Which argument or variable is longer than Linux takes; empty where it is all of them together."""
    variables = ((f"the variable `{name}`", f"{name}={value}") for name, value in env.items())
    numbered = ((f"argument {number} of `{arguments[0]}`", word) for number, word in enumerate(arguments))
    for what, text in (*variables, *numbered):
        size = len(text.encode("utf-8", "surrogateescape"))
        if size > _LONGEST:
            return f"{what} has {size:,} bytes, the limit is {_LONGEST:,}"
    return ""


def _explained(error: OSError, name: str, too_long: str = "") -> SpawnFailed:
    code = error.errno
    if code in _TRANSIENT:
        return SpawnFailed("transient", f"{name} could not be started for now: {error.strerror}")
    if code == errno.ENOENT:
        return SpawnFailed("logic", f"command not found: {name}")
    if code == errno.E2BIG:
        why = too_long or f"{name} is given more text than a process may start with"
        return SpawnFailed("logic", f"{why}; hand it over with `stdin:`, or in a file")
    if code == errno.ENOEXEC:
        return SpawnFailed("logic", f"{name} is neither a program nor a script with a #! line")
    return SpawnFailed("logic", f"{name} cannot be executed: {error.strerror}")


def _memory_file(data: bytes) -> int:
    """A descriptor that reads ``data``: a pipe would have to be fed while the process runs."""
    handle = os.memfd_create("stdin", os.MFD_CLOEXEC)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _inheritable() -> list[int]:
    """Descriptors that planrunner inherited from its parent: they are not for the tasks."""
    descriptors = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if number > 2 and os.get_inheritable(number):
                descriptors.append(number)
        except OSError:
            continue  # the one that listed them
    return descriptors


def _above_standard_descriptors() -> int:
    """/dev/null on a descriptor above 2; closed standard streams are filled so that no pipe takes their numbers."""
    handle = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    while handle <= 2:
        handle = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    return handle


YOUNG = 0.002
"""Seconds a process runs before its pipes are watched."""
SETTLED = 0.03
"""Seconds that a process runs on before orphans are looked after."""
GRACE = 2.0
"""Seconds from TERM to KILL where nothing else is said."""
PATIENCE = 1.0
"""Seconds that the end of an attempt waits for killed processes to be gone, if they are looked for often enough."""
LOOKS = 20
"""How often they are looked for at least, however long a busy machine takes for that."""
_CHUNK = 65536
_DRAIN = 17
"""Reads after the end: a pipe holds 1 MiB at most, even if it stays open and is written to."""


class Launch(Struct):
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
        "family",
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
        self.family: list[ProcessEntry] = []
        """The processes that are ended with it by force."""

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
        self.beside: Callable[[], list[int]] = list
        """The processes that capabilities keep until the run ends."""
        self._poller = poller
        self._grace = grace
        self.programs = Programs(environment)
        self._young: list[Process] = []
        self._spare: tuple[int, int, int, int] | None = None
        self._first = 0
        self._adopts = adopts and become_subreaper()  # before anything can be let go of
        self._looks_after = False
        self._descent = Descent()

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
            process.started = time.monotonic()  # a short program is over before its start has returned
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
                pass  # the code that needs them reports it

    def _watch(self, process: Process) -> None:
        process.began = uptime()
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
                if self._adopts and not self._looks_after:
                    self._poller.after(SETTLED, partial(self._settle, process))
        if self._young:
            self._poller.after(YOUNG, self._watch_pipes)

    def _settle(self, process: Process) -> None:
        """Something runs for so long that looking after orphans is worth its price."""
        self._looks_after = self._looks_after or process.pidfd >= 0

    # Output

    def _read(self, process: Process, stream: str, chunks: int = 4) -> bool:
        """Take what a pipe holds; True once its other end is closed."""
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
        process.family = orphans.family(process.pid)
        _signal_group(process.pid, signal.SIGKILL)
        orphans.end_family(process.family)

    def _ended(self, process: Process, _: int) -> None:
        """The leader is over but not reaped: its number, and so its group's, cannot belong to anybody else yet."""
        process.duration = time.monotonic() - process.started
        self._poller.unwatch(process.pidfd)
        self._poller.cancel(process.timer)
        os.close(process.pidfd)
        process.pidfd = -1
        if not process.forced and self._may_have_left(process.pid):
            process.left = {pid: orphans.name_of(pid) for pid in orphans.members(process.pid)}
        _signal_group(process.pid, signal.SIGKILL)
        process.code = os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1])
        clean = self._read(process, "stdout", _DRAIN) & self._read(process, "stderr", _DRAIN)
        if clean and not process.timed_out and not process.interrupted and not self._left_orphans():
            self._finish(process)
        else:
            process.deadline = time.monotonic() + PATIENCE
            self._sweep(process)

    def _may_have_left(self, leader: int) -> bool:
        """Whether something that a leader started can go on after it: it, or what it descends from, is a child of this
        process then. A kernel that does not list children does not list the leader either."""
        below = children() if self._adopts else []
        return leader not in below or any(pid not in self.running for pid in below)

    def _left_orphans(self) -> bool:
        return self._looks_after and bool(orphans.adopted((*self.running, *self.beside())))

    def _sweep(self, process: Process) -> None:
        """End what left the group; look again until it is gone."""
        left = orphans.end_carriers(*process.markers, names=process.left) + orphans.end_family(process.family)
        if self._looks_after:
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
        adopted = orphans.adopted((*self.running, *self.beside()))
        if self.foreign_children:
            return 0
        orphans.reap(adopted)
        if not process.forced:
            return 0
        going_on = [one.began for one in self.running.values() if not one.forced]
        doomed = self._descent.is_doomed
        left = [one for one in adopted if one.state not in "ZX" and doomed(one.pid, going_on)]
        for one in left:
            orphans.end(one.pid, orphans.same(one))
        return len(left)

    def _finish(self, process: Process) -> None:
        self._close(process, "stdout")
        self._close(process, "stderr")
        if process.left and not process.forced and (words := left_behind(process.left.values(), "task")):
            process.launch.record.remark(words)
        if problem := process.launch.record.close():
            self.problems.append(problem)
        self.running.pop(process.pid, None)
        if not process.forced:
            self._descent.ended_well(process.began)
        process.launch.done(process.exit())

    def close(self) -> None:
        for descriptor in self._spare or ():
            os.close(descriptor)
        self._spare = None
        self.programs.close()

    def sweep_run(self, run_id: str, epoch: int, every: bool = False) -> dict[tuple[str, str], list[str]]:
        """End what finished attempts of this runner left behind in sessions of their own; gives the names of the
        programs by task and attempt. ``every``: others than this may have started processes for the run."""
        programs: dict[tuple[str, str], list[str]] = {}
        if self._first or every:
            carried = [os.fsencode(f"PLANRUNNER_{name}") for name in (f"RUN_ID={run_id}", f"EPOCH={epoch}")]
            among = orphans.pids() if every else orphans.since(self._first)
            for pid in orphans.carriers(*carried, among=among):
                said = orphans.marks(pid)
                attempt = (said.get("PLANRUNNER_TASK", ""), said.get("PLANRUNNER_ATTEMPT", ""))
                programs.setdefault(attempt, []).append(orphans.name_of(pid))
            if programs:
                orphans.end_carriers(*carried, among=among)
        return programs


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
