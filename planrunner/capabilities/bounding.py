"""Code of somebody else that may never come back: it has its time, is then asked to stop, and left to itself where it
does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from planrunner.plan.expressions.quantities import format_duration

Work = Callable[[Callable[[], bool]], Any]

GRACE = 2.0
"""Seconds for what was asked to stop."""

_TICK = 0.1


class Overdue(Exception):
    """It did not come back in its time, or was stopped before; ``abandoned`` where it goes on all the same."""

    def __init__(self, what: str, seconds: float, abandoned: bool) -> None:
        super().__init__(overdue(what, seconds, abandoned))


def overdue(what: str, seconds: float, abandoned: bool) -> str:
    """What is said of ``what`` (``"`probe` of `tag.create`"``) that had ``seconds``."""
    return f"{what} ran longer than {format_duration(seconds)}{left_behind(abandoned)}"


def left_behind(abandoned: bool) -> str:
    """What is said at the end of a sentence on what goes on all the same."""
    return "; it did not stop and was abandoned" if abandoned else ""


def within(seconds: float, what: str, work: Work, stopped: Callable[[], bool] | None = None) -> Any:
    """What ``work`` gives or raises, called in a thread of its own with a function that tells whether it should stop.

    Raises Overdue, with ``what`` in its words, once ``seconds`` have passed or ``stopped`` is true. A Ctrl-C goes
    through at once, and a second one does not even wait for the grace.
    """
    stop, done = threading.Event(), threading.Event()
    came: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            came.append(work(stop.is_set))
        except BaseException as error:  # it is raised again where somebody waits for it
            raised.append(error)
        done.set()

    threading.Thread(target=run, daemon=True, name="planrunner-bounded").start()
    try:
        if not _waited(done, seconds, stopped):
            stop.set()
            raise Overdue(what, seconds, abandoned=not done.wait(GRACE))
    except KeyboardInterrupt:
        stop.set()
        done.wait(GRACE)
        raise
    if raised:
        raise raised[0]
    return came[0]


def _waited(done: threading.Event, seconds: float, stopped: Callable[[], bool] | None) -> bool:
    """Whether it was done in time."""
    if stopped is None:
        return done.wait(seconds)
    until = time.monotonic() + seconds
    while not done.wait(min(_TICK, max(until - time.monotonic(), 0.0))):
        if stopped() or time.monotonic() >= until:
            return done.is_set()
    return True
