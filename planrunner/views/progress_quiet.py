"""Progress for those who want none: failures, and what a parked run waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planrunner.machine.events import Entry, StopRequested
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.views.ending import ending
from planrunner.views.progress_rare import stopping_text
from planrunner.views.terminal import Terminal, harmless, notes


class QuietProgress:
    """A watch of a run that says nothing unless something is wrong."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._state: State | None = None
        self._run_id = ""

    def started(self, run_id: str, _plan: Plan, state: State) -> None:
        self._state = state
        self._run_id = run_id

    def warn(self, texts: Sequence[str]) -> None:
        notes(self._terminal, texts)

    def event(self, entry: Entry) -> None:
        """Nothing is printed before the end, except that an interrupted run stops."""
        if isinstance(entry.event, StopRequested) and entry.event.reason in ("interrupted", "killed"):
            told = entry.event
            self._terminal.write(harmless(stopping_text(told.reason, told.by, told.comment)) + "\n")

    def output(self, _task: str, _attempt: int, _stream: str, _data: bytes) -> None:
        """Output is kept with the attempt."""

    def tick(self, _now: float) -> None:
        """Nothing is drawn."""

    def ended(self, result: Any) -> None:
        if self._state is None or self._state.status == "completed":
            return
        # Late: only a run that did not complete needs it.
        lines = ending(self._terminal, self._state, self._run_id, result and result.source)
        self._terminal.write("\n".join(lines) + "\n")
