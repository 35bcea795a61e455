"""The planrunner command in a process that counts its journal writes, and may be told to die at one of them.

``python -m planrunner.app.proof.dying WRITE SIDE FILE ARGUMENTS…`` kills itself with SIGKILL at journal write WRITE,
SIDE (``before`` or ``after``) its entries are on the disk; WRITE 0 lets it live. The number of writes goes to FILE.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections.abc import Callable
from typing import Any

from planrunner.journal.stores import LOCAL


def main(words: list[str]) -> None:
    """Wrap the journal's writing and run the command."""
    write, side, path, *arguments = words
    _wrap(int(write), side == "after", path)
    sys.argv = ["planrunner", *arguments]
    runpy.run_module("planrunner", run_name="__main__", alter_sys=True)


def _wrap(write: int, stored: bool, path: str) -> None:
    done = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal done
            done += 1
            if done == write and not stored:
                _die(path, done)
            result = original(*given, **named)
            if done == write:
                _die(path, done)
            _count(path, done)
            return result

        return call

    for name in ("create_run", "append"):
        setattr(LOCAL, name, counted(getattr(LOCAL, name)))


def _count(path: str, done: int) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(str(done))


def _die(path: str, done: int) -> None:
    _count(path, done)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
