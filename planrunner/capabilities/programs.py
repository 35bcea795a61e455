"""Programs that a capability runs and waits for: bounded output, nothing left behind, stopped when the attempt is.

A capability that is one program and nothing else returns a ``Spawn`` instead.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, NamedTuple

from planrunner.capabilities.contract import Context, Enclosed, Failure
from planrunner.frozen import EMPTY

_TICK = 0.1
_GRACE = 0.5
_CHUNK = 1 << 16
_TAIL = 1 << 16
_HELD = ("sh", "-c", 'read -r go && exec "$@" </dev/null', "sh")
"""Runs the program that follows once a line comes, and nothing where its standard input ends without one."""
_DRAIN = 0.3
"""Seconds for what is in the pipes once the program has ended: a process that inherited them may go on writing."""


class Ended(NamedTuple):
    """How a program ended: exit code (or minus the signal), its standard output up to the limit, the end of its
    standard error, and how many bytes of output were ``dropped``."""

    code: int
    stdout: bytes
    stderr: bytes
    dropped: int = 0

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def said(self) -> str:
        """What it said last, for a message: the end of standard error, else of standard output."""
        lines = (self.stderr.strip() or self.stdout.strip()).decode("utf-8", "replace").splitlines()
        return lines[-1].strip()[:300] if lines else ""


class Program(NamedTuple):
    """A program to run. ``cwd`` is relative to the working directory of the call, ``env`` laid over
    ``Context.environment()`` (a value of None takes a variable away), ``limit`` the bytes of standard output that are
    kept, ``timeout`` seconds beside that of the attempt. ``quiet`` keeps its standard error out of the log, ``loud``
    copies its standard output there."""

    arguments: Sequence[str]
    cwd: str = ""
    env: Mapping[str, str | None] = EMPTY
    stdin: bytes = b""
    limit: int = 1 << 20
    timeout: float | None = None
    quiet: bool = False
    loud: bool = False
    own: bool = False
    """A program of planrunner's own choosing (git, docker, kubectl), which runs nothing of the project and whose hosts
    and files are judged before it is started: it is not shut in."""
    made: str = ""
    """The code that it runs, where that was made while the run went on and no person saw it: it is shut in."""
    begun: Callable[[int], None] | None = None
    """Told the process, which leads a group of its own, before it does anything: the program, which has no standard
    input then, begins when this has returned, and never where it does not."""


def run_program(
    context: Context,
    arguments: Sequence[str],
    *,
    cwd: str = "",
    env: Mapping[str, str | None] | None = None,
    stdin: bytes = b"",
    limit: int = 1 << 20,
    check: bool = False,
    timeout: float | None = None,
) -> Ended:
    """Run a program and wait for its end; see ``Program`` for what is meant. ``check`` makes any exit code but 0 a
    Failure. Raises Failure also where it cannot be started, runs into ``timeout``, or the attempt is stopped."""
    program = Program(arguments, cwd, env or {}, stdin, limit, timeout)
    ended = run(context, program)
    if check and ended.code:
        raise Failure(f"{os.path.basename(arguments[0])} ended with {ended.code}: {ended.said}".rstrip(": "))
    return ended


def run(context: Context, program: Program) -> Ended:
    """Run a program and wait for its end. Raises Failure where it cannot be started, runs into its timeout, or the
    attempt is stopped."""
    whole = {**context.environment(), **program.env}
    environment = {name: value for name, value in whole.items() if value is not None}
    folder = os.path.join(context.call.directory, program.cwd)
    arguments = program.arguments
    if program.begun is not None:  # a shell waits in its place, for the line that is written once that has returned
        _require_there(context, arguments[0], folder)
        arguments, program = (*_HELD, *arguments), program._replace(stdin=b"\n")
    shut = None if program.own else context.enclosed(arguments, environment, folder, program.made)
    try:
        process = subprocess.Popen(
            list(arguments if shut is None else shut.arguments),
            cwd=folder if shut is None else shut.directory,
            env=environment if shut is None else shut.env,
            stdin=subprocess.PIPE if program.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=() if shut is None else shut.descriptors,
        )
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and not os.path.isdir(folder):
            raise Failure(f"the working directory `{folder.rstrip('/')}` does not exist") from None
        why = error.strerror if isinstance(error, OSError) else str(error)
        kind = "transient" if isinstance(error, (BlockingIOError, MemoryError)) else "logic"
        raise Failure(f"`{program.arguments[0]}` cannot be started: {why}", kind) from None
    finally:
        if shut is not None:
            shut.started()
    watch = _Watch(context, program, process)
    watch.shut = shut
    try:
        if program.begun is not None:
            program.begun(process.pid)
        return watch.to_the_end()
    finally:
        watch.close()
        if shut is not None:
            shut.over()


def _require_there(context: Context, name: str, folder: str) -> None:
    """Raises Failure for a program that does not exist in a folder that does."""
    there = _is_program(os.path.join(folder, name)) if "/" in name else on_path(context, name)
    if os.path.isdir(folder) and not there:
        raise Failure(f"`{name}` cannot be started: {os.strerror(errno.ENOENT)}", "logic")


class _Watch:
    """Feeds and reads one process until it ends."""

    def __init__(self, context: Context, program: Program, process: subprocess.Popen[bytes]) -> None:
        self._context = context
        self._program = program
        self._process = process
        self._rest = memoryview(program.stdin)
        self._out = bytearray()
        self._err = bytearray()
        self._dropped = self._printed = 0
        self.shut: Enclosed | None = None
        self._selector = selectors.DefaultSelector()
        for stream in (process.stdout, process.stderr, process.stdin):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                event = selectors.EVENT_WRITE if stream is process.stdin else selectors.EVENT_READ
                self._selector.register(stream, event)

    def to_the_end(self) -> Ended:
        limit = self._program.timeout
        deadline = None if limit is None else time.monotonic() + limit
        while not self._over():
            self._turn(_TICK)
            if self.shut is not None:
                self.shut.check(self._process.pid, self._printed)
            if self._context.cancelled():
                raise Failure(f"{self._program.arguments[0]} was stopped", "cancelled")
            if deadline is not None and time.monotonic() > deadline:
                raise Failure(f"{self._program.arguments[0]} ran longer than {limit:g} s", "timeout")
        drained = time.monotonic() + _DRAIN
        while self._reading() and time.monotonic() < drained and self._turn(0.02):
            pass
        self._signal(signal.SIGKILL)
        if self.shut is not None:
            self.shut.check(self._process.pid, self._printed)
        return Ended(self._process.wait(), bytes(self._out), bytes(self._err[-_TAIL:]), self._dropped)

    def _over(self) -> bool:
        """Whether it has ended. It is not reaped yet: so the number of its group stays its own."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _reading(self) -> bool:
        return any(key.events == selectors.EVENT_READ for key in self._selector.get_map().values())

    def _turn(self, wait: float) -> bool:
        """Move what there is to move; False when nothing came."""
        if not self._selector.get_map():
            time.sleep(wait / 4)
            return False
        ready = self._selector.select(wait)
        for key, _ in ready:
            stream = key.fileobj
            assert not isinstance(stream, int)
            if key.events == selectors.EVENT_WRITE:
                self._feed(stream)  # type: ignore[arg-type]
            else:
                self._read(stream)  # type: ignore[arg-type]
        return bool(ready)

    def _feed(self, stream: IO[bytes]) -> None:
        try:
            self._rest = self._rest[os.write(stream.fileno(), self._rest[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self._rest = self._rest[:0]  # its standard input is closed
        if not self._rest:
            self._selector.unregister(stream)
            stream.close()

    def _read(self, stream: IO[bytes]) -> None:
        try:
            data = os.read(stream.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(stream)
            return
        self._printed += len(data)
        if stream is self._process.stderr:
            self._err += data
            del self._err[: -2 * _TAIL]
            if not self._program.quiet:
                self._context.log.write(data, "stderr")
            return
        fits = data[: max(0, self._program.limit - len(self._out))]
        self._out += fits
        self._dropped += len(data) - len(fits)
        if self._program.loud:
            self._context.log.write(data)

    def close(self) -> None:
        """End the whole group, whatever is left of it, and give back what was opened."""
        if self._process.returncode is None:
            self._signal(signal.SIGTERM)
            patience = time.monotonic() + _GRACE
            while not self._over() and time.monotonic() < patience:
                time.sleep(0.01)
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._selector.close()
        for stream in (self._process.stdout, self._process.stderr, self._process.stdin):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def interpreter(context: Context, python: str = "") -> str:
    """The path of the interpreter: the one that is asked for, else ``python`` on the PATH of the task, else the one
    that runs planrunner. Raises Failure where the one asked for does not exist."""
    call = context.call
    if "/" in python:
        path = os.path.join(call.directory, python)
        if not _is_program(path):
            raise Failure(f"{python} does not exist or is not executable")
        return path
    program = on_path(context, python or "python")
    if program:
        return program
    if python:
        raise Failure(f"{python} is not on the PATH")
    return sys.executable


def on_path(context: Context, name: str) -> str:
    """Where a program is on the PATH of the task; empty where it is not."""
    path = context.environment().get("PATH") or os.defpath
    candidates = (os.path.join(context.call.directory, folder, name) for folder in path.split(os.pathsep) if folder)
    return next(filter(_is_program, candidates), "")


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and os.path.isfile(path)
