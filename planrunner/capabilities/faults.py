"""Faults of code that is not ours: what it raised, told from a Ctrl-C, and that it took too long."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from opcode import opmap
from typing import Any

from planrunner.plan.expressions.quantities import format_duration

_CALLER = "planrunner.capabilities.binding"
"""The module that calls capabilities; its frames are not part of a fault."""


def interrupts(error: BaseException) -> bool:
    """Whether it is a Ctrl-C rather than a fault: one arrives in the main thread and between two instructions, so one
    that a ``raise`` statement made is not."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    # Late: hardly anything ever raises it.
    if threading.current_thread() is not threading.main_thread():
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != opmap["RAISE_VARARGS"]


def said(error: BaseException) -> str:
    """Class and message in one text; an exception may fail to tell its message."""
    try:
        message = str(error)
    except Exception:  # its own `__str__` is broken
        message = "its message cannot be told"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def traceback_of(error: BaseException) -> str:
    """The end of its traceback, from where the capability begins."""
    first = error.__traceback__
    while first is not None and first.tb_frame.f_globals.get("__name__") == _CALLER:
        first = first.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, first))[-16384:]
    except Exception:  # a message that cannot be told, a chain without an end
        return ""


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
        except BaseException as error:  # raised again in the thread that waits
            raised.append(error)
        done.set()

    threading.Thread(target=run, daemon=True, name="planrunner-bounded").start()
    until = time.monotonic() + seconds
    try:
        while not done.wait(max(min(_TICK, until - time.monotonic()), 0.0)):
            late = time.monotonic() >= until or (stopped is not None and stopped())
            if not late or done.is_set():
                continue
            stop.set()
            raise Overdue(what, seconds, abandoned=not done.wait(GRACE))
    except KeyboardInterrupt:
        stop.set()
        done.wait(GRACE)
        raise
    if raised:
        raise raised[0]
    return came[0]
