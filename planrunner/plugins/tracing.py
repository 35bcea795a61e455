"""What loading plugins does and how long it takes, on standard error, where somebody asks for it or it takes too long.

``PLANRUNNER_TRACE_PLUGINS=1`` tells of each plugin that is loaded. One that is still being imported after some seconds
is named in any case: the command waits for it, and whoever sits there should know for what.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType

PATIENCE = 5.0
"""Seconds after which an import that goes on is named."""


class Loading:
    """Around the import of one plugin; ``what`` says what is imported and for whom, ``without`` how to do without it
    for good, where it is not by removing a package."""

    __slots__ = ("_began", "_over", "_plugin", "_what", "_without")

    def __init__(self, plugin: str, what: str, without: str = "") -> None:
        self._plugin = plugin
        self._what = what
        self._without = without

    def __enter__(self) -> Loading:
        self._began = time.monotonic()
        self._over = threading.Event()
        trace(f"{self._what} of {self._plugin}: begins")  # an import may end the process
        threading.Thread(target=self._watch, name="planrunner-loading", daemon=True).start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: TracebackType | None) -> None:
        self._over.set()
        took = (time.monotonic() - self._began) * 1000
        trace(f"{self._what} of {self._plugin}: {'failed after ' if error else ''}{took:.1f} ms")

    def _watch(self) -> None:
        if not self._over.wait(PATIENCE):
            for_good = f", and {self._without} for good" if self._without else ""
            again = f"Ctrl-C stops it, and `planrunner --no-plugins …` does without plugins{for_good}"
            _write(f"the plugin {self._plugin} has been loading for {PATIENCE:.0f} s ({self._what}); {again}")


def trace(text: str) -> None:
    """A line of the trace, where it is asked for."""
    if os.environ.get("PLANRUNNER_TRACE_PLUGINS", "") not in ("", "0"):
        _write(f"plugins: {text}")


def _write(line: str) -> None:
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # standard error is closed: there is nobody to tell
