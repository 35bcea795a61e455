"""Leases as locks that the kernel frees when their holder dies, whatever it dies of.

``locks/<run>.lock`` is locked by the one process that acts on a run, ``locks/restore.files.lock`` by the one that puts
files of a checkpoint back, ``locks/queue.worker.lock`` and ``locks/follow.positions.lock`` by those that work off the
queue and move the positions of readers. ``locks/journal.lock`` is shared by every writer that has the database open,
and exclusive for the one that moves its write-ahead log into it: SQLite before 3.51.3 can damage a database in which
one connection does that while another writes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator

from planrunner.errors import AGAIN, START_ONE, Hint, NextStep, NotFound, RunHeld, StorageFailed
from planrunner.fileio import turn
from planrunner.journal.records import Holder
from planrunner.journal.workspace import check_state, mend_modes, prepare_state, unusable

_BUSY = (errno.EAGAIN, errno.EACCES)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_PAUSES = (0.0, 0.002, 0.004, 0.008, 0.016)
"""Seconds before each try while another process has the lock: answering a request takes that long."""
_LOOKING = 30.0
"""Seconds to wait for those who only look (``is_locked``): microseconds each, unless the machine is busy."""

RESTORE = "restore.files"
"""What the lock of those who put files back is called: no run can have a name with a dot."""


def lock_path(state: str, run: str) -> str:
    return os.path.join(state, "locks", f"{run}.lock")


def lock_run(state: str, run: str) -> int:
    """Take the lock of a run and return the descriptor that holds it.

    Raises RunHeld naming the holder, StorageFailed where the file cannot be made.
    """
    return _lock(lock_path(state, run), f"the lock of run `{run}`", f"run `{run}` is held by", run)


class RestoreLease:
    """The right of one process to put files back in ``directory``. Raises as ``lock_run`` does."""

    def __init__(self, state: str, directory: str) -> None:
        path = lock_path(state, RESTORE)
        self._state = state
        self._descriptor = _lock(path, "the lock for putting files back", "files are being put back by")
        sign(self._descriptor, os.fsencode(directory))

    def release(self) -> None:
        unlock_run(self._state, RESTORE, self._descriptor)


def restoring(state: str) -> tuple[str, str] | None:
    """The process that puts files back, and its directory (empty: it has yet to say); None where there is none."""
    if not is_locked(state, RESTORE):
        return None
    path = lock_path(state, RESTORE)
    return holder_at(path), os.fsdecode(signature(path).partition(b"\n")[2].rstrip(b"\n"))


def holders(state: str) -> list[Holder]:
    """The leases of runs that living processes have."""
    leases: list[Holder] = []
    for run in sorted(leased(state)):
        path = lock_path(state, run)
        with contextlib.suppress(FileNotFoundError):  # it was released since
            leases.append(Holder(run, holder_at(path), os.stat(path).st_mtime))
    return leases


def leased(state: str) -> frozenset[str]:
    """The runs that living processes act on."""
    try:
        names = os.listdir(os.path.join(state, "locks"))
    except FileNotFoundError:
        return frozenset()
    runs = (name.removesuffix(".lock") for name in names if name.endswith(".lock"))
    return frozenset(run for run in runs if run != "journal" and "." not in run and is_locked(state, run))


def _lock(path: str, what: str, held: str, run: str = "") -> int:
    for pause in _pauses(path):
        if pause:
            time.sleep(pause)
        try:
            descriptor = try_lock(path)
        except OSError as error:
            hint = Hint("free some space, then ", AGAIN) if error.errno in _FULL else ""
            raise StorageFailed(f"{what} cannot be taken: {error.strerror}: `{path}`", hint) from error
        if descriptor is not None:
            sign(descriptor)
            return descriptor
    holder = holder_at(path)
    raise RunHeld(f"{held} {holder}", way_out(holder, run))


def _pauses(path: str) -> Iterator[float]:
    yield from _PAUSES
    deadline = time.monotonic() + _LOOKING
    while not _is_taken(path) and time.monotonic() < deadline:
        yield _PAUSES[-1]


def held_error(state: str, run: str) -> RunHeld:
    """The error for a run that another process acts on, naming it."""
    holder = holder_at(lock_path(state, run))
    return RunHeld(f"run `{run}` is held by {holder}", way_out(holder, run))


def unlock_run(state: str, run: str, descriptor: int) -> None:
    """Let go of a run. The file goes while it is still locked: no process can lock a file that is about to vanish."""
    path = lock_path(state, run)
    try:
        if _is_at(descriptor, path):  # else the file at that path is the lock of another holder
            os.unlink(path)
    except OSError:
        pass  # an unlocked file means the same as none
    os.close(descriptor)


def is_locked(state: str, run: str) -> bool:
    """Whether a living process holds the run."""
    return _is_taken(lock_path(state, run))


def _is_taken(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError as error:
        return error.errno in _BUSY
    finally:
        os.close(descriptor)


def try_lock(path: str) -> int | None:
    """The descriptor that holds a lock; None where another process has it. Raises OSError."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
            os.close(descriptor)  # its last holder removed it between our open and our lock
        except OSError as error:
            os.close(descriptor)
            if error.errno in _BUSY:
                return None
            raise


def _is_at(descriptor: int, path: str) -> bool:
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def sign(descriptor: int, more: bytes = b"") -> None:
    """Write into a lock which process holds it."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
    text = f"process {os.getpid()} on {os.uname().nodename} since {since}\n"
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode("utf-8", "replace") + more, 0)
    except OSError:
        pass  # only what people read about the holder is lost


def holder_at(path: str) -> str:
    """The process that a lock names, as people read it."""
    return signature(path).partition(b"\n")[0].decode("utf-8", "replace").strip() or "another process"


def signature(path: str) -> bytes:
    """What ``sign`` wrote into a lock; empty where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 8192)
    finally:
        os.close(descriptor)


def way_out(holder: str, run: str = "") -> Hint:
    """What a person can do who is refused for a holder, which acts on a run or on something else."""
    if run:
        return Hint(
            "wait for it, press Ctrl-C in its terminal, or let its tasks finish and start no more: ",
            NextStep("pause", run),
        )
    return Hint(f"wait for it, or stop it: {_stop(holder)}")


def _stop(holder: str) -> str:
    """How a person stops the holder, by what ``sign`` wrote about it."""
    words = holder.split()
    number = words[1] if words[:1] == ["process"] and len(words) > 3 and words[1].isdigit() else ""
    if not number:
        return "press Ctrl-C in its terminal"
    there = "" if words[3] == os.uname().nodename else f" on {words[3]}"
    return f"press Ctrl-C in its terminal, or `kill {number}`{there}"


class _Shared:
    """The lock of a database as this process has it: one descriptor, however many connections there are."""

    __slots__ = ("descriptor", "users")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.users = 1


_SHARED: dict[str, _Shared] = {}


class JournalLock:
    """The lock of the database, which a process takes once for all its connections. Its file is never removed."""

    def __init__(self, state: str) -> None:
        """Share the lock; raises OSError where the file cannot be opened, StorageFailed after ``_PATIENCE``."""
        self._path = os.path.join(state, "locks", "journal.lock")
        self._turn = turn(state)
        self._is_open = True
        with self._turn:
            shared = _SHARED.get(self._path)
            if shared is not None and _is_at(shared.descriptor, self._path):
                shared.users += 1
                self._shared = shared
                return
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._shared = _Shared(os.open(self._path, flags, 0o600))
            try:
                self._take_back()
            except BaseException:
                self.close()
                raise
            _SHARED[self._path] = self._shared

    def alone(self) -> bool:
        """Try to become the only connection that has the database open for writing; ``share`` when done."""
        return self._try_alone(among_threads=False)

    def quiet(self) -> bool:
        """Try to become the only process that has the database open for writing, while its other threads wait with
        theirs; ``share`` when done."""
        return self._try_alone(among_threads=True)

    def share(self) -> None:
        """Let others write and open the database again; waits while a process has it exclusively."""
        try:
            self._take_back()
        finally:
            self._turn.release()

    def close(self, disconnect: Callable[[], None] | None = None) -> None:
        """Let go of the lock, after the connection is closed by ``disconnect``. The last one out empties the log,
        while no other process has the database open."""
        with self._turn:
            if not self._is_open:
                return
            self._is_open = False
            try:
                if disconnect is not None:
                    if self._shared.users == 1:
                        self._take(fcntl.LOCK_EX)  # if it is refused, another process is the last one out
                    disconnect()
            finally:
                self._leave()

    def _leave(self) -> None:
        self._shared.users -= 1
        if self._shared.users:
            return
        os.close(self._shared.descriptor)
        if _SHARED.get(self._path) is self._shared:
            del _SHARED[self._path]

    def _try_alone(self, among_threads: bool) -> bool:
        self._turn.acquire()
        try:
            wanted = self._is_open and (among_threads or self._shared.users == 1)
            if wanted and self._take(fcntl.LOCK_EX):
                return True
            if wanted:
                self._take_back()  # a refused conversion may have lost the lock
        except BaseException:
            self._turn.release()
            raise
        self._turn.release()
        return False

    def _take_back(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not self._take(fcntl.LOCK_SH):
            if time.monotonic() > deadline:
                what = f"another process has kept the journal to itself for {_PATIENCE} seconds"
                raise StorageFailed(
                    what, "`ps -eo pid,stat,args` shows a stopped planrunner, `kill -CONT PID` wakes it"
                )
            time.sleep(0.005)

    def _take(self, how: int) -> bool:
        try:
            fcntl.flock(self._shared.descriptor, how | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _BUSY:
                return False
            raise
        return True


_PATIENCE = 30


def open_lock(state: str, readonly: bool) -> tuple[JournalLock | None, tuple[str, ...]]:
    """The lock, and what is to be told of the directory. A reader has none: it never moves the log, so it need not keep
    others from doing so."""
    try:
        check_state(state)
        if readonly:
            return None, ()
        notices = mend_modes(state)
        return JournalLock(state), notices
    except FileNotFoundError as error:
        if readonly:
            raise NotFound(f"there are no runs in `{state}`", START_ONE) from error
    except OSError as error:
        raise unusable(state, error) from error
    prepare_state(state)
    try:
        return JournalLock(state), ()
    except OSError as error:
        raise unusable(state, error) from error
