"""One epoll, its timers, and a pipe that threads and signals wake it with."""

from __future__ import annotations

import os
import select
import time
from _thread import allocate_lock
from collections.abc import Callable

Handler = Callable[[int], None]
"""Called with the epoll event mask of its descriptor."""

LONGEST = 10.0
"""Seconds of one sleep at most: who waits for a time of day notices a jump of the clock."""


class Poller:
    """Calls handlers when descriptors are ready and callbacks when their time comes; ``wake`` alone is for threads."""

    __slots__ = (
        "_closed",
        "_epoll",
        "_handlers",
        "_next",
        "_soonest",
        "_timers",
        "_wake_read",
        "_wake_write",
        "_waking",
        "on_wake",
    )

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        self._timers: dict[int, tuple[float, Callable[[], None]]] = {}
        self._next = 0
        self._soonest = 0.0
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._waking = allocate_lock()
        self._closed = False
        self.on_wake: Callable[[bytes], None] = _ignore
        self.watch(self._wake_read, self._woken)

    @property
    def wake_descriptor(self) -> int:
        """Where ``signal.set_wakeup_fd`` writes the numbers of signals."""
        return self._wake_write

    def watch(self, descriptor: int, handler: Handler) -> None:
        self._handlers[descriptor] = handler
        self._epoll.register(descriptor, select.EPOLLIN)

    def unwatch(self, descriptor: int) -> None:
        """Must come before the descriptor is closed: a child being spawned may hold it open a moment longer."""
        if self._handlers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def after(self, seconds: float, callback: Callable[[], None]) -> int:
        """Call back once, on the monotonic clock; the number returned cancels it."""
        self._next += 1
        due = time.monotonic() + seconds
        if not self._timers or due < self._soonest:
            self._soonest = due
        self._timers[self._next] = (due, callback)
        return self._next

    def cancel(self, timer: int) -> None:
        self._timers.pop(timer, None)

    def wake(self) -> None:
        """Make ``turn`` return; safe from any thread, also once it is closed."""
        with self._waking:
            if self._closed:
                return  # the number may be another file by now
            try:
                os.write(self._wake_write, b"\0")
            except BlockingIOError:
                pass  # full: it wakes anyway

    def turn(self, timeout: float | None) -> None:
        """Sleep until something happens, ``timeout`` seconds at most (None: the caller has no limit), and handle it."""
        pause = LONGEST if timeout is None or timeout > LONGEST else max(timeout, 0.0)
        if self._timers:
            pause = min(pause, max(0.0, self._soonest - time.monotonic()))
        handlers = self._handlers
        for descriptor, mask in self._epoll.poll(pause):
            handler = handlers.get(descriptor)
            if handler is not None:
                handler(mask)
        if self._timers and self._soonest <= time.monotonic():
            self._fire()

    def close(self) -> None:
        """Threads may go on calling ``wake``."""
        with self._waking:
            self._closed = True
            os.close(self._wake_write)
        self._epoll.close()
        os.close(self._wake_read)
        self._handlers.clear()
        self._timers.clear()

    def _fire(self) -> None:
        now = time.monotonic()
        due = sorted(number for number, (when, _) in self._timers.items() if when <= now)
        for number in due:
            timer = self._timers.pop(number, None)
            if timer is not None:
                timer[1]()
        self._soonest = min((when for when, _ in self._timers.values()), default=0.0)

    def _woken(self, _: int) -> None:
        self.on_wake(os.read(self._wake_read, 65536))


def _ignore(_: bytes) -> None:
    """Before anybody asked to be told, being woken is all there is to it."""
