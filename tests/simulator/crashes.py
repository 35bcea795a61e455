"""A process that is killed at a write of its journal: what a plan, a capability or planrunner itself must survive."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from planrunner.journal.ports import Journal
from planrunner.journal.stores import LOCAL
from planrunner.machine.events import Entry
from planrunner.process import set_own_process

Stored = Callable[[int, Sequence[Entry]], None]
"""Told after each write that this process survived: how many there were, and the entries of this one."""


def in_child(work: Callable[[], int]) -> int:
    """The exit code of ``work`` in a forked process that is planrunner's alone, as that of a command is, minus the
    signal that ended it; 99 after an exception, which is printed."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            set_own_process()
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die_at(write: int, *, stored: bool, told: Stored, of: Sequence[str] = ("create_run", "append")) -> None:
    """From now on this process is killed at its ``write``-th write (1 is the first; 0: never): right after it where it
    is ``stored``, before it otherwise. ``of`` are the methods of the journal that count. There is no way back: call it
    in a child."""
    count = 0

    def dying(original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: Journal, first: Any, entries: Sequence[Entry], *rest: Any) -> Any:
            nonlocal count
            count += 1
            if count == write and not stored:
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(self, first, entries, *rest)
            if count == write:
                os.kill(os.getpid(), signal.SIGKILL)
            told(count, entries)
            return result

        return counted

    for method in of:
        setattr(LOCAL, method, dying(getattr(LOCAL, method)))
