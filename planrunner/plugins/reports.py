"""What is said about plugins: problems, each sentence once, and a trace of what loading them takes."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType

from planrunner.capabilities.faults import said

_told: dict[str, bool] = {}
"""Sentence to whether it was fetched."""


def tell(problem: str) -> None:
    """Keep a sentence for the end of the command."""
    _told.setdefault(problem, False)


def fetch() -> list[str]:
    """The sentences not fetched so far."""
    problems = [problem for problem, fetched in _told.items() if not fetched]
    _told.update(dict.fromkeys(problems, True))
    return problems


class Problems:
    """The sentences of one registry, by plugin; each is told as well."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []

    def add(self, plugin: str, problem: str) -> None:
        """Keep a sentence about a plugin."""
        self._found.append((plugin, problem))
        tell(problem)

    def of(self, plugin: str | None = None) -> tuple[str, ...]:
        """The sentences about a plugin, or all of them."""
        return tuple(problem for name, problem in self._found if plugin is None or name == plugin)


def fault_of(plugin: str, hook: str, error: BaseException) -> str:
    """The sentence about a hook that raised."""
    return f"the plugin {plugin} failed in `{hook}`: {one_line(error)}"


def one_line(error: BaseException) -> str:
    """Class and message of an exception in one line."""
    return said(error).strip().partition("\n")[0]


PATIENCE = 5.0
"""Seconds after which an import that goes on is named."""


class Loading:
    """Around the import of one plugin; ``what`` says what is imported and for whom, ``without`` how to do without it
    permanently, where it is not by removing a package."""

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
            always = f", and {self._without} permanently" if self._without else ""
            again = f"Ctrl-C stops it, and `planrunner --no-plugins …` does without plugins{always}"
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
        return  # standard error is closed
