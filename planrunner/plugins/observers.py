"""Plugins that watch a run: each has a thread of its own, a bounded queue and copies of everything it is shown.

The run puts an event into the queues and goes on. An observer that is slow misses events, which are counted and named;
one that raises, whatever it be, is named once; one that never returns is left behind when the process ends.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TextIO

from planrunner.plugins.reports import fault_of
from planrunner.records import Struct, astuple

if TYPE_CHECKING:
    from planrunner.machine.events import Entry

LIMIT = 4096
"""Events that may wait for an observer; what comes while as many wait is not shown to it."""
TURN = 0.0005
"""Seconds after which Python hands its lock on: an observer that computes all the time holds up the run that long each
time the run has waited for something."""
PATIENCE = 1.0
"""Seconds that observers together have at the end of a run for what still waits."""


class Observer(Struct):
    """A hook of a plugin: its function takes the named arguments (a subset of ``run_id`` and ``entry``)."""

    plugin: str
    function: Callable[..., object]
    arguments: tuple[str, ...]


class Observers:
    """Called with each durable event of a run. Nothing an observer does comes back through it."""

    def __init__(self, observers: Iterable[Observer], report: Callable[[str, str], None], limit: int = LIMIT) -> None:
        self._deliveries = [_Delivery(observer, report, limit) for observer in observers]
        self._report = report

    def __call__(self, run_id: str, entry: Entry) -> None:
        for delivery in self._deliveries:
            delivery.put(run_id, entry)

    def flush(self, patience: float = PATIENCE) -> None:
        """Wait until everything was shown, but no longer than ``patience`` seconds; tell what was not."""
        deadline = time.monotonic() + patience
        for delivery in self._deliveries:
            delivery.wait(deadline)
            if problem := delivery.lag():
                self._report(*problem)


class _Delivery:
    """The queue and the thread of one observer; the thread starts with the first event."""

    def __init__(self, observer: Observer, report: Callable[[str, str], None], limit: int) -> None:
        self._observer = observer
        self._report = report
        self._limit = limit
        self._waiting: SimpleQueue[tuple[str, Entry]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._given = self._shown = self._dropped = 0
        self._faulty = False

    def put(self, run_id: str, entry: Entry) -> None:
        if self._given - self._shown >= self._limit:
            self._dropped += 1
            return
        self._given += 1
        self._waiting.put((run_id, entry))
        if self._thread is None:
            sys.setswitchinterval(min(sys.getswitchinterval(), TURN))
            _hold_open(sys.__stdout__)
            _hold_open(sys.__stderr__)
            name = f"planrunner-observer-{self._observer.plugin}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def wait(self, deadline: float) -> None:
        while self._shown < self._given and time.monotonic() < deadline:
            time.sleep(0.002)

    def lag(self) -> tuple[str, str] | None:
        """The plugin and what it missed, as a sentence; None where it saw everything."""
        missed = self._dropped + self._given - self._shown
        if not missed:
            return None
        events = f"{missed} event{'s' if missed != 1 else ''}"
        plugin = self._observer.plugin
        return plugin, f"the plugin {plugin} could not keep up with the run: its observer missed {events}"

    def _run(self) -> None:
        while True:
            self._show(*self._waiting.get())
            self._shown += 1

    def _show(self, run_id: str, entry: Entry) -> None:
        observer = self._observer
        try:
            given = {"run_id": run_id, "entry": copied(entry)}
            observer.function(*(given[name] for name in observer.arguments))
        except BaseException as error:  # in this thread Ctrl-C cannot arise: all of it is the plugin's
            if not self._faulty:
                self._faulty = True
                self._report(observer.plugin, fault_of(observer.plugin, "planrunner_observe_event", error))


def _hold_open(stream: TextIO | None) -> None:
    """A stream of the process stays open: the result of the run is still to be written."""
    if stream is not None:
        with contextlib.suppress(AttributeError):  # a replaced stream may take no attributes
            stream.close = stream.flush  # type: ignore[method-assign]


def copied(value: Any) -> Any:
    """The same data in containers of its own, all the way down; records stay records."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, Struct):
        return type(value)(*map(copied, astuple(value)))
    if isinstance(value, tuple):
        return tuple.__new__(type(value), map(copied, value))
    if isinstance(value, (set, frozenset)):
        return type(value)(map(copied, value))
    return value
