"""What holds for the whole process: what its door says once, and its standard streams, which plugins do not get."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import FileIO
from typing import Any, NoReturn

_own: list[bool] = []
_without_plugins: list[bool] = []


def set_own_process() -> None:
    """This process does nothing but what planrunner was called for: loading a plugin keeps the standard streams away
    from it, and a run may change what belongs to the whole process."""
    _own.append(True)


def share_process() -> None:
    """From here on this process acts on many runs, for a door such as a service: none of them changes what belongs to
    the whole process, and what the command line left aside to start quickly, collecting garbage, goes on."""
    _own.clear()
    collect_rarely()


def collect_rarely() -> None:
    """Collect garbage again, but seldom: what is there stays, and what runs are made of holds no cycles. Looking for
    some would cost a tenth of a run, and two thirds of folding a long history."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def is_own_process() -> bool:
    """Whether this process is planrunner's alone. Where it is not, a run changes nothing that is the whole process's:
    signals, the garbage collector, and who adopts orphans."""
    return bool(_own)


def disable_plugins() -> None:
    """Registries of this process know the built-in capabilities alone (``--no-plugins``)."""
    _without_plugins.append(True)


def plugins_disabled() -> bool:
    """Whether ``disable_plugins`` was called."""
    return bool(_without_plugins)


_in_plugin: ContextVar[bool] = ContextVar("in plugin code", default=False)


@contextmanager
def plugin_code() -> Iterator[None]:
    """Around calls of code that a plugin may have brought, in the main thread; other threads are for such code."""
    before = _in_plugin.set(True)
    try:
        yield
    finally:
        _in_plugin.reset(before)


def keep_streams() -> None:
    """Keep standard output and input away from plugins: what they print goes to standard error, and nothing is there to
    read. Nothing happens the second time, or where they are not the streams of the process."""
    if isinstance(sys.stdout, _Shared):
        return
    try:
        sys.stdout.flush()
        _share("stdout", 1, sys.stderr, os.dup(2))
        _share("stdin", 0, open(os.devnull, encoding="utf-8"), os.open(os.devnull, os.O_RDONLY))  # noqa: SIM115
    except (OSError, ValueError, AttributeError):
        return  # a stream is closed or something else stands there: it stays as it is


def _share(name: str, number: int, foreign: Any, instead: int) -> None:
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

    def _file(self) -> Any:
        is_foreign = _in_plugin.get() or threading.get_ident() != threading.main_thread().ident
        return self._foreign if is_foreign else self.own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file(), name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._file())

    def close(self) -> None:
        """It stays open: the result is still to be written."""


def stopped_by_signals() -> threading.Event:
    """Set by TERM, INT, QUIT and HUP from here on, for a command that works until it is stopped; HUP not where it is
    ignored, as below ``nohup``."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: stopped.set())
    return stopped


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Inside, TERM and HUP end the main thread by SystemExit, so that what it started is put away."""
    before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
