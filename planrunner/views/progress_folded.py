"""Lines for large fan-outs: a start and an end for each of ten thousand items tell nobody anything. What goes well is
told in tenths, what was never begun not at all; whatever else happens has its line."""

from __future__ import annotations

from planrunner.machine.events import AttemptStarted, Event, FrameOpened, TaskSettled
from planrunner.machine.frame import Frame
from planrunner.machine.labels import label
from planrunner.machine.state import State
from planrunner.views.nesting import settled

LARGE = 100
"""Items from which on those that go well are told in tenths."""

_QUIET = ("completed", "skipped", "omitted", "cancelled")
"""Ends of items that nobody has to do anything about: one that was never begun says no more than its fan-out does."""


class Folds:
    """What was told of the large fan-outs of a run. The state runs ahead of the entries that are told, so how many
    items are done is counted here."""

    __slots__ = ("_done", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        self._done: dict[Frame, int] = {}

    def line(self, event: Event, line: str) -> str:
        """The line as it is for what stands in no large fan-out; for what goes well in one, another line at each tenth
        of it and none else."""
        if not isinstance(event, (AttemptStarted, TaskSettled, FrameOpened)):
            return line
        state = self._state
        number = state.index[event.task]
        frame = self._large(number)
        if frame is None:
            return line
        if not isinstance(event, TaskSettled):
            return ""
        tenth = self._tenth(frame) if state.tasks[number].frame is frame else ""
        return tenth if event.status in _QUIET else line

    def _large(self, number: int) -> Frame | None:
        """The outermost large fan-out around a task."""
        found = None
        tasks = self._state.tasks
        frame = tasks[number].frame
        while frame.owner >= 0:
            if frame.kind == "items" and frame.size >= LARGE:
                found = frame
            frame = tasks[frame.owner].frame
        return found

    def _tenth(self, frame: Frame) -> str:
        done = self._done[frame] = self._done.get(frame, 0) + 1
        if done * 10 // frame.size == (done - 1) * 10 // frame.size or done >= frame.size:
            return ""
        return f"  {label(self._state, frame.owner)}: {done:,} of {frame.size:,} items done"

    def resumed(self) -> None:
        """Begin with the items that were done before this process acted on the run."""
        for number in self._state.holders:
            frame = self._state.tasks[number].inner
            if frame is not None and frame.kind == "items":
                self._done[frame] = settled(frame)
