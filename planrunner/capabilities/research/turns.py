"""Politeness: one request at a time for each host, with a rest in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from planrunner.capabilities.contract import Failure

_LOOK = 0.05


class Turns:
    """Hands out turns to threads. ``stopped`` ends all waiting."""

    __slots__ = ("_busy", "_free_at", "_lock", "_rest", "_stopped")

    def __init__(self, rest: float, stopped: Callable[[], bool]) -> None:
        self._rest = rest
        self._stopped = stopped
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._free_at: dict[str, float] = {}

    @contextmanager
    def turn(self, host: str, rest: float = 0.0) -> Iterator[None]:
        """Wait for the turn at a host and keep it; afterwards the host rests for ``rest`` seconds, or the usual rest
        where that is longer. Raises Failure when stopped while waiting."""
        while not self._enter(host):
            self.pause(_LOOK)
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(host)
                self._free_at[host] = time.monotonic() + max(rest, self._rest)

    def pause(self, seconds: float) -> None:
        """Wait. Raises Failure when stopped."""
        until = time.monotonic() + seconds
        while True:
            if self._stopped():
                raise Failure("fetching was stopped", "interrupted")
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(_LOOK, left))

    def _enter(self, host: str) -> bool:
        with self._lock:
            if host in self._busy or time.monotonic() < self._free_at.get(host, 0.0):
                return False
            self._busy.add(host)
            return True
