"""Capabilities that are plain functions: each attempt in a daemon thread, its result handed to the loop.

A function that does not stop when it is asked to is abandoned: its attempt ends, its thread is left to itself and dies
with the process.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

BACKLOG = 256
"""Posts that may wait for the loop before a thread has to wait as well."""


class Job:
    """One function call; ``abandoned`` once nobody waits for it any more."""

    __slots__ = ("abandoned", "done", "work")

    def __init__(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.work = work
        self.done = done
        self.abandoned = False


class Workers:
    """Threads that are kept for the next job; a new one starts only when none is idle."""

    __slots__ = ("_closed", "_idle", "_posted", "_queue", "_wake", "busy")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._posted: deque[Callable[[], None]] = deque()
        self._wake = wake
        self._idle = 0
        self._closed = False
        self.busy = 0

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> Job:
        """Call ``work``, which must not raise, in a thread; ``collect`` calls ``done`` with what it returned."""
        job = Job(work, done)
        self.busy += 1
        if self._idle > 0:
            self._idle -= 1
        else:
            threading.Thread(target=self._run, daemon=True, name="planrunner-capability").start()
        self._queue.put(job)
        return job

    def abandon(self, job: Job) -> None:
        """Stop waiting for a job; its thread serves nobody until it returns."""
        if not job.abandoned:
            job.abandoned = True
            self.busy -= 1

    def post(self, callback: Callable[[], None]) -> None:
        """Have ``collect`` call back; for use in threads, which wait here when the loop cannot keep up."""
        while len(self._posted) > BACKLOG:
            if self._closed:
                return
            time.sleep(0.001)
        self._posted.append(callback)
        self._wake()

    def collect(self) -> None:
        """Call what threads have posted; belongs to the loop's thread."""
        while self._posted:
            self._posted.popleft()()

    def close(self) -> None:
        """Let idle threads go; others are still busy with jobs that were abandoned."""
        self._closed = True
        for _ in range(self._idle):
            self._queue.put(None)
        self._idle = 0

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                back = partial(self._returned, job, job.work())
            except BaseException as error:  # a bug is the loop's to tell: a thread that dies would be waited for
                back = partial(self._broke, job, error)
            self.post(back)

    def _returned(self, job: Job, result: Any) -> None:
        self._idle += 1
        if not job.abandoned:
            self.busy -= 1
            job.done(result)

    def _broke(self, job: Job, error: BaseException) -> None:
        self._idle += 1
        if not job.abandoned:
            self.busy -= 1
            raise error
