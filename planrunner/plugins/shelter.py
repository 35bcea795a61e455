"""Keeps standard output and input for planrunner itself, once code of plugins is about to run in this process.

Results on standard output are data: a `print` of a plugin, what it writes to descriptor 1 and what its programs say
must not stand among them. From then on descriptor 1 is standard error and descriptor 0 is empty, while planrunner has
both streams under other numbers; `sys.stdout` and `sys.stdin` tell by the caller whose they are.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from io import FileIO
from types import FrameType
from typing import Any

_ENTRANCES = frozenset(
    {
        ("planrunner.capabilities.binding", "_call"),
        ("planrunner.capabilities.builtin", "load"),
        ("planrunner.engine.attempts", "finished"),
        ("planrunner.plugins.catalogue", "described"),
        ("planrunner.plugins.catalogue", "take_marked"),
        ("planrunner.plugins.hooks", "call"),
        ("planrunner.plugins.registry", "_take"),
    }
)
"""Module and name of the functions that call code of plugins in the main thread; other threads are for such code."""


def shelter() -> None:
    """Take both streams aside; nothing happens the second time, or where they are not those of the process."""
    if isinstance(sys.stdout, _Shared):
        return
    try:
        sys.stdout.flush()
        _swap("stdout", 1, sys.stderr, os.dup(2))
        _swap("stdin", 0, open(os.devnull, encoding="utf-8"), os.open(os.devnull, os.O_RDONLY))  # noqa: SIM115
    except (OSError, ValueError, AttributeError):
        return  # a stream is closed or something else stands there: it stays as it is


def _swap(name: str, number: int, foreign: Any, instead: int) -> None:
    """Move a stream of planrunner to a descriptor of its own and put another file in the place of the old one. In this
    order nothing is lost or goes astray, whatever other threads write meanwhile."""
    try:
        own = getattr(sys, name)
        raw: FileIO = getattr(own.buffer, "raw", own.buffer)
        if own.fileno() == number and not raw.closefd:
            raw.__init__(os.dup(number), raw.mode, closefd=False)  # type: ignore[misc]
            os.dup2(instead, number)
            shared = _Shared(own, foreign)
            setattr(sys, name, shared)
            setattr(sys, f"__{name}__", shared)
    finally:
        os.close(instead)


class _Shared:
    """A standard stream that is planrunner's ``own`` in its hands and another file in those of plugins."""

    def __init__(self, own: Any, foreign: Any) -> None:
        self.own = own
        self._foreign = foreign

    def __getattr__(self, name: str) -> Any:
        return getattr(self._foreign if _is_foreign() else self.own, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._foreign if _is_foreign() else self.own)

    def close(self) -> None:
        """It stays open whoever closes it: the result is still to be written."""


def _is_foreign() -> bool:
    """Whether code of a plugin asks."""
    if threading.get_ident() != threading.main_thread().ident:
        return True
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) in _ENTRANCES:
            return True
        frame = frame.f_back
    return False
