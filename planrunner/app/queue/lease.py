"""The process that works off a queue: one at a time has the lease, one is started in the background for runs that
outlive the command which asked for them, and a worker of this process is told at once that its queue has changed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from weakref import WeakSet

from planrunner.caller import NO_PROFILE, workspace
from planrunner.errors import StorageFailed
from planrunner.fileio import read_regular
from planrunner.journal.process_leases import ProcessLease, process_with

LOG = "worker.log"
_NAME = "queue.worker"
_PATIENCE = 20.0
"""Seconds in which a worker has to have the lease of its queue."""


def worker_lease(state: str) -> ProcessLease:
    """The right to work off the queue of a state directory."""
    return ProcessLease(state, _NAME)


def worker_of(state: str) -> str:
    """The process that works off the queue of a state directory, as people read it; empty where none does."""
    return process_with(state, _NAME)


def start_worker(root: str, state: str) -> int:
    """Start a worker of a project in a process of its own, which ends when nothing in the queue is open any more; its
    number, 0 where a worker runs already. What it says is in ``logs/worker.log`` of the state directory. Raises
    StorageFailed where it does not begin its work."""
    if worker_of(state):
        return 0
    path = os.path.join(state, "logs", LOG)
    profile = workspace().profile
    words = [sys.executable, "-m", "planrunner", "-C", root, "--state", state, "--no-input"]
    words += ["--profile", profile or NO_PROFILE] if profile is not None else []
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab") as log:
        process = subprocess.Popen(
            [*words, "worker", "--until-empty"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + _PATIENCE
    while not worker_of(state):
        if process.poll() is not None and not worker_of(state):
            said = read_regular(path, 1 << 20).decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise StorageFailed(f"the worker ended at once: {said}", f"all it said is in `{path}`")
        if time.monotonic() > deadline:
            raise StorageFailed(f"process {process.pid}, the worker, has not begun for {_PATIENCE:.0f} seconds")
        time.sleep(0.02)
    return process.pid


class WakeSignal:
    """What a worker waits for. Those of a state directory ring together."""

    __slots__ = ("__weakref__", "_event")

    def __init__(self, state: str) -> None:
        self._event = threading.Event()
        with _LOCK:
            _BELLS.setdefault(state, WeakSet()).add(self)

    def ring(self) -> None:
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait until it rings, for so long at most; whether it rang."""
        rang = self._event.wait(seconds)
        self._event.clear()
        return rang


def ring(state: str) -> None:
    """Ring the bells of a state directory in this process."""
    with _LOCK:
        bells = list(_BELLS.get(state, ()))
    for bell in bells:
        bell.ring()


_LOCK = threading.Lock()
_BELLS: dict[str, WeakSet[WakeSignal]] = {}
