"""Where stepping through a recorded run stops: a task, a kind of event, or a condition."""

from __future__ import annotations

from typing import Any

from planrunner.app.plans.tasks import unknown
from planrunner.errors import UsageError
from planrunner.journal.codec import event_types
from planrunner.machine.events import Entry
from planrunner.machine.names import picked
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.values import EvaluationError, ExpressionError
from planrunner.plan.nearest import meant, nearest
from planrunner.shell.recording import Recording
from planrunner.views.progress.jsonl import entry_object, event_type

Json = Any

EVENT, WHEN = "event ", "when "


class Breakpoint:
    """A breakpoint as it was typed. ``holds`` tells, after each entry in order, whether to stop there; what it compares
    with is forgotten by ``reset``."""

    __slots__ = ("_before", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._before: Json = None

    def reset(self, state: State) -> None:
        """Compare with this state from here on."""

    def holds(self, state: State, entry: Entry) -> bool:
        raise NotImplementedError


class EventBreakpoint(Breakpoint):
    """Stops at events of a kind."""

    __slots__ = ()

    def holds(self, state: State, entry: Entry) -> bool:
        return event_type(type(entry.event)) == self.text.removeprefix(EVENT).strip()


class TaskBreakpoint(Breakpoint):
    """Stops where the status of a task changes, of one inside it too, or where an attempt of it begins or ends."""

    __slots__ = ()

    def reset(self, state: State) -> None:
        self._before = self._statuses(state)

    def holds(self, state: State, entry: Entry) -> bool:
        before, self._before = self._before, self._statuses(state)
        return before is not None and before != self._before

    def _statuses(self, state: State) -> Json:
        return [
            (number, state.tasks[number].status, state.tasks[number].attempts) for number in picked(state, self.text)
        ]


class ConditionBreakpoint(Breakpoint):
    """Stops where a condition begins to hold. It reads what conditions of the plan read, and the entry as ``event``;
    where a name is missing yet it does not hold."""

    __slots__ = ("_tree",)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        try:
            self._tree = parse(text.removeprefix(WHEN).strip()).tree
        except ExpressionError as error:
            raise UsageError(f"the condition does not parse: {error.message}", error.help) from None

    def reset(self, state: State) -> None:
        self._before = self._truth(state, None)

    def holds(self, state: State, entry: Entry) -> bool:
        before, self._before = self._before, self._truth(state, entry)
        return bool(self._before and not before)

    def _truth(self, state: State, entry: Entry | None) -> bool:
        try:
            return truth(self._tree, Moment(state, entry))
        except EvaluationError:
            return False


class Moment:
    """The names that conditions and ``print`` read: those of the plan, and the last entry as ``event``."""

    __slots__ = ("_entry", "_scope")

    def __init__(self, state: State, entry: Entry | None) -> None:
        self._scope = TaskScope(state, -1)
        self._entry = entry

    def resolve(self, name: str) -> Json:
        if name == "event":
            return {} if self._entry is None else entry_object(self._entry)
        return self._scope.resolve(name)


def breakpoint_of(text: str, recording: Recording) -> Breakpoint:
    """The breakpoint that is typed as ``TASK``, ``event TYPE`` or ``when EXPR``. Raises UsageError, NotFound with the
    nearest name."""
    made: Breakpoint
    if text.startswith(EVENT):
        made, kind = EventBreakpoint(text), text.removeprefix(EVENT).strip()
        if kind not in (known := event_types()):
            raise UsageError(f"no event has the type `{kind}`{meant(nearest(kind, known))}")
    elif text.startswith(WHEN):
        made = ConditionBreakpoint(text)
    else:
        made = TaskBreakpoint(text)
        _require_task(text, recording)
    made.reset(recording.state)
    return made


def _require_task(text: str, recording: Recording) -> None:
    """Raises NotFound for a task that the run never has."""
    here = recording.position
    try:
        recording.go(len(recording.entries))
        if not picked(recording.state, text):
            raise unknown(recording.state, text)
    finally:
        recording.go(here)
