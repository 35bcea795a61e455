"""Standard streams that were closed before the program started: they become ``/dev/null``."""

from __future__ import annotations

import os
import sys


def open_standard_streams() -> None:
    """Put ``/dev/null`` wherever a standard descriptor is closed, and a stream where the interpreter made none.

    The descriptor matters as much as the stream: left free, it would go to the next file that is opened, and whatever
    a task or the interpreter prints would end up in that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            _fill(number)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def _fill(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null == number:
        os.set_inheritable(null, True)
    else:
        os.dup2(null, number)
        os.close(null)
