"""What code of a plugin raised, told from the wish of whoever sits there to stop."""

from __future__ import annotations

import threading
import traceback
from opcode import opmap

_CALLER = "planrunner.capabilities.binding"
"""The module that calls capabilities; how it does is nothing to whoever looks for a fault."""


def interrupts(error: BaseException) -> bool:
    """Whether it is a Ctrl-C rather than a fault: one arrives in the main thread and between two instructions, so what
    a ``raise`` statement made is none."""
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
