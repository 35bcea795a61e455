"""Listening for signs of life: an attempt that prints nothing for too long is stuck."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from planrunner.engine.attempts import Attempt
from planrunner.engine.poller import Poller
from planrunner.plan.expressions.quantities import format_duration


class Pulse:
    """Looks after one attempt: when it has given no sign of life for ``silence`` seconds it has to end as ``stalled``,
    and ``stop`` is called."""

    __slots__ = ("_attempt", "_poller", "_signs", "_silence", "_since", "_stop", "_timer")

    def __init__(self, attempt: Attempt, silence: float, poller: Poller, stop: Callable[[], None]) -> None:
        self._attempt = attempt
        self._silence = silence
        self._poller = poller
        self._stop = stop
        self._signs = -1
        self._since = 0.0
        self._timer = 0
        self._listen()

    def _listen(self) -> None:
        now = time.monotonic()
        signs = self._attempt.signs()
        if signs != self._signs:
            self._signs, self._since = signs, now
        elif now - self._since >= self._silence:
            message = f"it gave no sign of life for {format_duration(self._silence)}"
            self._attempt.ending = ("stalled", message)
            self._stop()
            return
        pause = min(max(self._silence / 5, 0.02), max(self._since + self._silence - now, 0.001))
        self._timer = self._poller.after(pause, partial(Pulse._listen, self))

    def end(self) -> None:
        """The attempt is over."""
        self._poller.cancel(self._timer)
