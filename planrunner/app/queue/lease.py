"""The lease of a queue: one process at a time works it off. The kernel frees it when that process dies."""

from __future__ import annotations

import fcntl
import os
import time

from planrunner.errors import StorageFailed

_FILE = "queue.worker.lock"


class WorkerLease:
    """The right to work off the queue of a state directory."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, state: str) -> None:
        self._path = _path(state)
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        return self._descriptor >= 0

    def take(self) -> bool:
        """Take it, if no other worker has it. Raises StorageFailed where the lock cannot be made."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StorageFailed(f"the lease of the queue cannot be taken: {error.strerror}: `{self._path}`") from error
        if not _locked(descriptor, fcntl.LOCK_EX):
            os.close(descriptor)
            return False
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename} since {since}".encode(), 0)
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def worker_of(state: str) -> str:
    """The process that works off the queue of a state directory, as people read it; empty where none does."""
    try:
        descriptor = os.open(_path(state), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        if _locked(descriptor, fcntl.LOCK_SH):
            return ""
        return os.read(descriptor, 200).decode("utf-8", "replace") or "a process that has just begun"
    finally:
        os.close(descriptor)


def _path(state: str) -> str:
    return os.path.join(state, "locks", _FILE)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
