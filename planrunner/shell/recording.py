"""A recorded run at a moment of its journal, moved forwards and backwards; nothing of it is carried out."""

from __future__ import annotations

from collections.abc import Callable

from planrunner.app.history.replay import History
from planrunner.app.history.state import plan_of
from planrunner.machine.events import Entry
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State


class Recording:
    """A run after the first ``position`` entries of its journal. ``state`` is how it stood then."""

    __slots__ = ("_history", "_plan", "_plans", "entries", "position", "state")

    def __init__(self, history: History) -> None:
        self._history = history
        self._plan = plan_of(history.plan)
        self._plans = {stored.digest: plan_of(stored) for stored in history.revisions}
        self.entries = history.entries
        self.position = 0
        self.state = self._begun()

    @property
    def run_id(self) -> str:
        return self._history.run_id

    @property
    def entry(self) -> Entry | None:
        """The entry that was folded last; None at the beginning."""
        return self.entries[self.position - 1] if self.position else None

    @property
    def now(self) -> float:
        """The moment of the recording, in seconds since 1970."""
        return self.entry.at if self.entry is not None else 0.0

    @property
    def is_over(self) -> bool:
        """Whether every entry is folded."""
        return self.position == len(self.entries)

    def step(self) -> Entry | None:
        """Fold the next entry and give it; None at the end."""
        if self.is_over:
            return None
        entry = self.entries[self.position]
        evolve(self.state, entry.event, entry.at)
        self.position += 1
        return entry

    def go(self, position: int) -> None:
        """Move to the moment after so many entries, as far as there are."""
        position = max(0, min(position, len(self.entries)))
        if position < self.position:
            self.state = self._begun()
            self.position = 0
        while self.position < position:
            self.step()

    def forward(self, stops: Callable[[Entry], bool]) -> bool:
        """Fold entries up to the first one at which ``stops`` holds; False where the end came before."""
        while (entry := self.step()) is not None:
            if stops(entry):
                return True
        return False

    def back(self, stops: Callable[[Entry], bool]) -> bool:
        """Move backwards to the last entry before this one at which ``stops`` held; False at the beginning, which is
        where the recording is then."""
        end, found = self.position, 0
        self.go(0)
        while self.position < end - 1:
            entry = self.step()
            assert entry is not None
            if stops(entry):
                found = self.position
        self.go(found)
        return found > 0

    def _begun(self) -> State:
        return State(self._plan, self._history.run_id, self._plans)
