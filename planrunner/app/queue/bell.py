"""Bells: a worker of this process is told at once that its queue has changed; workers of other processes look."""

from __future__ import annotations

import threading
from weakref import WeakSet


class Bell:
    """What a worker waits for. Bells of a state directory ring together."""

    __slots__ = ("__weakref__", "_event")

    def __init__(self, state: str) -> None:
        self._event = threading.Event()
        with _LOCK:
            _BELLS.setdefault(state, WeakSet()).add(self)

    def ring(self) -> None:
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait until it rings, for so long at most; whether it rang."""
        rang = self._event.wait(seconds)
        self._event.clear()
        return rang


def ring(state: str) -> None:
    """Ring the bells of a state directory in this process."""
    with _LOCK:
        bells = list(_BELLS.get(state, ()))
    for bell in bells:
        bell.ring()


_LOCK = threading.Lock()
_BELLS: dict[str, WeakSet[Bell]] = {}
