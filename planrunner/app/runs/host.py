"""Many runs at once in one process, a thread for each."""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, TimeoutError
from contextvars import copy_context

from planrunner.app.runs.execute import ExecRequest, RunResult, Silent, Watch, execute
from planrunner.app.runs.proposals import continued
from planrunner.app.runs.resume import Manner, resume
from planrunner.engine.poller import StopSwitch
from planrunner.errors import UsageError
from planrunner.machine.events import Entry
from planrunner.machine.state import State
from planrunner.plan.model import Plan

MOST = 200
"""Runs that a host acts on at the same time when nothing else is said."""

DESCRIPTORS = 24
"""Files that a run may have open: about eight of its own, three for each process it waits for."""

Act = Callable[[Watch, StopSwitch], RunResult]


class HostedRun:
    """One run of a host."""

    __slots__ = ("_result", "_started", "_switch")

    def __init__(self) -> None:
        self._started: Future[str] = Future()
        self._result: Future[RunResult] = Future()
        self._switch = StopSwitch()

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._started.result()

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, parked or failed to go on."""
        return self._result.done()

    def stop(self, at_once: bool = False) -> None:
        """Ask the run to stop, as SIGTERM does: it is paused and can be resumed. ``at_once`` kills what it runs."""
        self._switch.ask(signal.SIGTERM)
        if at_once:
            self._switch.ask(signal.SIGTERM)

    def result(self, timeout: float | None = None) -> RunResult:
        """How the run ended or parked. Raises what ``execute`` and ``resume`` raise, and TimeoutError after ``timeout``
        seconds."""
        return self._result.result(timeout)

    def outcome(self) -> tuple[RunResult | None, BaseException | None]:
        """What came of a run that is over: how it ended or parked, or what was raised."""
        error = self._result.exception()
        return (None, error) if error is not None else (self._result.result(), None)

    def when_over(self, call: Callable[[HostedRun], None]) -> None:
        """Have ``call`` called once ``is_over``: in the thread of the run, or at once where it is so already."""
        self._result.add_done_callback(lambda _: call(self))

    def _tell(self, run_id: str) -> None:
        if not self._started.done():
            self._started.set_result(run_id)

    def _act(self, act: Act, watch: Watch, over: Callable[[HostedRun], None]) -> None:
        try:
            result = act(_Told(watch, self._tell), self._switch)
            result = continued(result, watch, unattended=True, switch=self._switch)
        except BaseException as error:  # it belongs to the thread that asks for the result
            over(self)
            if not self._started.done():
                self._started.set_exception(error)
            self._result.set_exception(error)
        else:
            over(self)
            self._result.set_result(result)


class Host:
    """Acts on any number of runs at the same time, ``most`` at once, until it is closed.

    A run acts for the principal and the workspace of the thread that starts it. Nothing else is shared: each run has
    its own loop, workers, journal connection and lease, so that one which hangs or dies leaves the others alone.
    """

    __slots__ = ("_closed", "_lock", "_most", "_runs")

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._runs: set[HostedRun] = set()
        self._closed = False
        _allow_descriptors(most * DESCRIPTORS)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def runs(self) -> tuple[HostedRun, ...]:
        """The runs that are going on."""
        with self._lock:
            return tuple(self._runs)

    def start(self, request: ExecRequest, watch: Watch | None = None) -> HostedRun:
        """Start a run; it is in the journal on return. Paths are absolute, or relative to the working directory of the
        process. ``watch`` is called in the thread of the run. Raises what ``execute`` raises for a run that cannot
        start, and UsageError for a host that is full or closed."""
        return self._begun(self.act(lambda seen, switch: execute(request, seen, switch=switch), watch))

    def resume(
        self,
        run: str,
        state: str | None = None,
        watch: Watch | None = None,
        settle: Sequence[tuple[str, str]] = (),
        manner: Manner | None = None,
    ) -> HostedRun:
        """Continue a run, with the arguments of ``runs.resume``; it acts on return. Raises as ``resume`` and
        ``start`` do."""
        how = manner or Manner(unattended=True)
        return self._begun(self.act(lambda seen, switch: resume(run, settle, state, seen, how, switch), watch))

    def close(self, timeout: float | None = None) -> None:
        """Ask every run to stop, and wait ``timeout`` seconds at most for each (None: until it has stopped)."""
        with self._lock:
            self._closed = True
        for run in self.runs:
            run.stop()
        for run in self.runs:
            try:
                run._result.exception(timeout)
            except TimeoutError:
                continue

    def act(self, act: Act, watch: Watch | None = None) -> HostedRun:
        """Have a use case act on a run in a thread of its own, and do not wait until it has begun. Raises UsageError
        as ``start`` does."""
        run = HostedRun()
        with self._lock:
            if self._closed:
                raise UsageError("this host is closed, so it starts nothing more")
            if len(self._runs) >= self._most:
                raise UsageError(f"this host acts on {self._most} runs at once, which is its limit", "wait for one")
            self._runs.add(run)
        arguments = (run._act, act, watch or Silent(), self._over)
        try:
            threading.Thread(target=copy_context().run, args=arguments, name="planrunner-run").start()
        except RuntimeError as error:
            self._over(run)
            raise UsageError(f"the system lets no further run start here: {error}") from None
        return run

    @staticmethod
    def _begun(run: HostedRun) -> HostedRun:
        run._started.result()
        return run

    def _over(self, run: HostedRun) -> None:
        with self._lock:
            self._runs.discard(run)


class _Told:
    """A watch that also tells once that its run has started. Gates are not answered here: such a run parks."""

    __slots__ = ("_inner", "_tell", "event", "output", "tick")

    def __init__(self, inner: Watch, tell: Callable[[str], None]) -> None:
        self._inner = inner
        self._tell = tell
        self.event: Callable[[Entry], None] = inner.event
        self.output = inner.output
        self.tick = inner.tick

    def started(self, run_id: str, plan: Plan, state: State) -> None:
        self._inner.started(run_id, plan, state)
        self._tell(run_id)

    def warn(self, texts: Sequence[str]) -> None:
        warn = getattr(self._inner, "warn", None)
        if warn is not None:
            warn(texts)

    def ended(self, result: RunResult) -> None:
        self._inner.ended(result)


def _allow_descriptors(wanted: int) -> None:
    """Let the process open as many files as its runs need, up to the hard limit of the system."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
