"""What capabilities keep open beyond a call, such as the connection to a server: it ends with the run."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from planrunner.capabilities.contract import Failure, Lasting


class RunResources:
    """The lasting things of one run, by their names. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._things: dict[str, Lasting] = {}
        self._closed = False

    def __bool__(self) -> bool:
        """Whether there ever was one."""
        return bool(self._things)

    def get(self, name: str, make: Callable[[], Lasting]) -> Lasting:
        """The one of that name, made where there is none that goes on. Raises Failure once the run ends."""
        with self._lock:
            if self._closed:
                raise Failure("the run ends", "interrupted")
            thing = self._things.get(name)
            if thing is None or thing.over:
                thing = self._things[name] = make()
            return thing

    def pids(self) -> list[int]:
        """The processes behind them."""
        return [thing.pid for thing in list(self._things.values()) if thing.pid]

    def close(self, forced: bool) -> None:
        """End all of them at once, and see them gone."""
        with self._lock:
            self._closed = True
        for thing in self._things.values():
            thing.end(forced)
        for thing in self._things.values():
            thing.wait()
