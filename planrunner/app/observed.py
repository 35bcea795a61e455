"""A run whose plugins are told of every entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.engine.loop import Onlooker
    from planrunner.machine.events import Entry


class Observed:
    """The watch, and the plugins that observe; they are told last and cannot change anything."""

    __slots__ = ("_observe", "_run_id", "_watch")

    def __init__(self, watch: Onlooker, run_id: str, observe: Callable[[str, Entry], None]) -> None:
        self._watch = watch
        self._run_id = run_id
        self._observe = observe

    def event(self, entry: Entry) -> None:
        self._watch.event(entry)
        self._observe(self._run_id, entry)

    def tick(self, now: float) -> None:
        self._watch.tick(now)
