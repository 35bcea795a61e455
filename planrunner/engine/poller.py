"""What the loop waits for: one epoll with its timers, threads and signals; and the time line of a run.

The time line is seconds since 1970 that go on evenly, whatever becomes of the clock on the wall: inside one boot the
time since it began is the measure, the sleep of the machine included; the wall clock is asked only at the start of a
run and after a reboot, and never takes the line back.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from types import FrameType
from typing import Any

from planrunner.machine.events import Entry, RunResumed, RunStarted

Json = Any


Handler = Callable[[int], None]
"""Called with the epoll event mask of its descriptor."""

LONGEST = 10.0
"""Seconds of one sleep at most: who waits for a time of day notices a jump of the clock."""


class Poller:
    """Calls handlers when descriptors are ready and callbacks when their time comes; ``wake`` alone is for threads."""

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
            now = time.monotonic()
            due = sorted(number for number, (when, _) in self._timers.items() if when <= now)
            for number in due:
                timer = self._timers.pop(number, None)
                if timer is not None:
                    timer[1]()
            self._soonest = min((when for when, _ in self._timers.values()), default=0.0)

    def close(self) -> None:
        """Threads may go on calling ``wake``."""
        with self._waking:
            self._closed = True
            os.close(self._wake_write)
        self._epoll.close()
        os.close(self._wake_read)
        self._handlers.clear()
        self._timers.clear()

    def _woken(self, _: int) -> None:
        self.on_wake(os.read(self._wake_read, 65536))


def _ignore(_: bytes) -> None:
    """Before anybody asked to be told, being woken is all there is to it."""


_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Signals:
    """The signals that ask to stop, until ``close``: those of the process where ``caught``, which works in the main
    thread alone, and those that another thread gives with ``ask``.

    A signal that was ignored before (``nohup``, a job in the background) stays ignored. ``asked`` counts the requests;
    from the third one on KeyboardInterrupt is raised wherever the program is, for a loop that no longer turns.
    """

    def __init__(self, poller: Poller, caught: bool) -> None:
        self.asked = 0
        self._poller = poller
        self._pending: deque[int] = deque()
        self._before: dict[int, object] = {}
        self._descriptor: int | None = None
        if caught:
            self._catch()

    def _catch(self) -> None:
        try:
            self._descriptor = signal.set_wakeup_fd(self._poller.wake_descriptor, warn_on_full_buffer=False)
        except ValueError:
            return
        for number in _WATCHED:
            before = signal.getsignal(number)
            if before != signal.SIG_IGN and before is not None:
                self._before[number] = before
                signal.signal(number, self._note)

    def ask(self, number: int) -> None:
        """Stop as if the process had got this signal; safe from any thread."""
        self._pending.append(number)
        self._poller.wake()

    def take(self) -> list[int]:
        """The signals that came since the last look."""
        taken = []
        while self._pending:
            taken.append(self._pending.popleft())
        return taken

    def close(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        if self._descriptor is not None:
            signal.set_wakeup_fd(self._descriptor)
        self._before.clear()
        self._descriptor = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked += 1
        self._pending.append(number)
        if self.asked > 2:
            signal.default_int_handler(signal.SIGINT, frame)  # a `raise` of ours would look like a defect


class StopSwitch:
    """Asks one run of this process to stop, from any thread, also before the run listens."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._early: list[int] = []
        self._listener: Callable[[int], None] | None = None

    def ask(self, number: int = signal.SIGTERM) -> None:
        """Stop as a process does that gets this signal: the run can be resumed, and the second time it is killed."""
        with self._lock:
            if self._listener is None:
                self._early.append(number)
            else:
                self._listener(number)

    def connect(self, listener: Callable[[int], None]) -> None:
        """Give each request to ``listener``, the earlier ones at once."""
        with self._lock:
            self._listener = listener
            for number in self._early:
                listener(number)


BACKLOG = 256
"""Posts that may wait for the loop before a thread has to wait as well."""


class Job:
    """One function call; ``abandoned`` once its result is no longer awaited."""

    __slots__ = ("abandoned", "done", "work")

    def __init__(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.work = work
        self.done = done
        self.abandoned = False


class Workers:
    """Threads that are kept for the next job; a new one starts only when none is idle."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._posted: deque[Callable[[], None]] = deque()
        self._wake = wake
        self._idle = 0
        self._closed = False
        self.busy = 0

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> Job:
        """Call ``work``, which must not raise, in a thread; ``collect`` calls ``done`` with what it returned."""
        job = Job(partial(copy_context().run, work), done)
        self.busy += 1
        if self._idle > 0:
            self._idle -= 1
        else:
            threading.Thread(target=self._run, daemon=True, name="planrunner-capability").start()
        self._queue.put(job)
        return job

    def abandon(self, job: Job) -> None:
        """Stop waiting for a job; its thread is lost until it returns."""
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


class Turns:
    """Lets ``most`` be under way at once: a further one begins when one is over. Belongs to the loop's thread."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[Callable[[], bool]] = deque()

    def take(self, begin: Callable[[], bool]) -> None:
        """Call ``begin``, now or when its turn comes; it returns False where there is nothing to begin any more."""
        if self._free > 0:
            self._free -= begin()
        else:
            self._waiting.append(begin)

    def over(self) -> None:
        """One of them is over."""
        while self._waiting:
            if self._waiting.popleft()():
                return
        self._free += 1


_EVEN = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def uptime() -> float:
    """Seconds since the machine was started, those in which it slept included."""
    return time.clock_gettime(_EVEN)


def boot() -> dict[str, Json]:
    """What RunStarted and RunResumed keep: ``uptime``, and the ``id`` of this boot, empty where the system has none."""
    up = uptime()
    try:
        file = os.open(_BOOT_ID, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return {"id": "", "uptime": up}
    try:
        return {"id": os.read(file, 64).decode().strip(), "uptime": up}
    finally:
        os.close(file)


class Clock:
    """A time line that stands at ``at`` (seconds since 1970) when the machine has been up for ``up`` seconds."""

    __slots__ = ("_zero",)

    def __init__(self, at: float, up: float | None = None) -> None:
        self._zero = at - (uptime() if up is None else up)

    def now(self) -> float:
        return self._zero + time.clock_gettime(_EVEN)


class TimeLine:
    """Where the time line of a stored run stands: shown every entry in order, it gives the clock to continue with."""

    def __init__(self) -> None:
        self.last = 0.0
        """Time of the last entry."""
        self._at = 0.0
        self._boot: dict[str, Json] = {}

    def see(self, entry: Entry) -> None:
        self.last = entry.at
        event = entry.event
        if isinstance(event, (RunStarted, RunResumed)):
            self._at, self._boot = entry.at, event.boot

    def clock(self, here: dict[str, Json]) -> Clock:
        """The clock that continues the line; ``here`` is what ``boot`` gives now. In the same boot the line goes on as
        if nothing had happened; after another one, by the wall clock. It never goes back behind the last entry, so no
        wait that is left gets longer than it was."""
        up = float(here["uptime"])
        known = self._boot.get("uptime")
        same = bool(here["id"]) and self._boot.get("id") == here["id"] and type(known) in (int, float)
        now = self._at + up - float(known or 0) if same else time.time()
        return Clock(max(now, self.last), up)
