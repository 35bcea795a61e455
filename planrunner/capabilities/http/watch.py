"""What ends a request that waits: the attempt was stopped, or its time is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from planrunner.capabilities.contract import Failure

SLICE = 0.1
"""Seconds that a connection waits at most before it looks whether to go on."""


class Watch:
    """Looked at by every connection of a client between waits; may be used from several threads."""

    __slots__ = ("_cancelled", "_until")

    def __init__(self, cancelled: Callable[[], bool], total: float | None = None) -> None:
        self._cancelled = cancelled
        self._until = None if total is None else time.monotonic() + total

    def check(self) -> None:
        """Raises Failure if there is no point in waiting any longer."""
        if self._cancelled():
            raise Failure("the request was stopped", "interrupted")
        if self._until is not None and time.monotonic() > self._until:
            raise Failure("the request took longer than its total time", "transient")

    def left(self, timeout: float | None) -> float:
        """Seconds until an operation that may take ``timeout`` has to be over; at most until the end of the total."""
        ends = [timeout] if timeout is not None else []
        if self._until is not None:
            ends.append(self._until - time.monotonic() + 0.001)
        return min(ends, default=float("inf"))
