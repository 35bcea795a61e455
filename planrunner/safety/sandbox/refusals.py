"""What a sandbox refused, counted. The confined program can make any number of requests, so the record is
bounded."""

from __future__ import annotations

import os
from collections.abc import Iterable
from threading import Lock
from typing import Any

from planrunner.machine.events import LOST

Json = Any

MOST = 16
"""What is told by name; what comes after it is counted together, by its rule."""
_NAMED, _NAME = 5, 200
"""Lost files that are told by name, and the characters of such a name."""
_LONGEST = 1000
"""Characters of a message. A longer one is left out: cut in the middle of a secret, it would not be known as one."""


class Tally:
    """Refusals by their rule and by what was wanted, such as a host and its port; any thread may add to it."""

    __slots__ = ("_lock", "_lost", "_rows")

    def __init__(self) -> None:
        self._lock = Lock()
        self._lost: dict[str, None] = {}
        self._rows: dict[tuple[str, str], dict[str, Json]] = {}

    def add(self, rule: str, what: str, message: str) -> None:
        """Count one; ``message`` is kept the first time."""
        key = (rule, what.lower())
        with self._lock:
            if key not in self._rows and len(self._rows) >= MOST:
                key, what, message = (rule, ""), "", ""
            row = self._rows.setdefault(key, {"rule": rule, "what": what, "count": 0})
            row["count"] += 1
            if row["count"] == 1 and 0 < len(message) <= _LONGEST:
                row["message"] = message

    def rows(self) -> tuple[dict[str, Json], ...]:
        """As the journal keeps them, in the order in which they were first met."""
        with self._lock:
            rows = tuple(dict(row) for row in self._rows.values())
            return (*rows, _lost(tuple(self._lost))) if self._lost else rows

    def lose(self, names: Iterable[str]) -> None:
        """Count files that are gone with the sandbox, each name once."""
        with self._lock:
            self._lost.update(dict.fromkeys(names))


def _lost(names: tuple[str, ...]) -> dict[str, Json]:
    plain = (os.fsencode(name).decode("utf-8", "replace") for name in names)
    told = [name for name in plain if len(name) <= _NAME][:_NAMED]
    more = [f"{len(names) - len(told)} more"] if len(names) > len(told) else []
    words = "the home and the temporary folder of a sandbox are gone when it ends"
    words += "; write to the project (`policy: {files: {write: …}}`)"
    return {"rule": LOST, "what": ", ".join([*told, *more]), "count": len(names), "message": words}
