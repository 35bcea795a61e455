"""Progress as lines: one a state change, what tasks write, and every thirty seconds what still runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import localtime, monotonic
from typing import Any

from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    Entry,
    RunEnded,
    RunResumed,
    RunStarted,
    TaskSettled,
    UndoEnded,
)
from planrunner.machine.labels import label, labelled
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.views.ending import ending
from planrunner.views.nesting import end_text
from planrunner.views.progress_folded import Folds
from planrunner.views.progress_rare import DESCRIBE, resumed_text
from planrunner.views.standing import attempt_text, elapsed, is_dry, shown_counts
from planrunner.views.symbols import duration_text, plural
from planrunner.views.task_output import Group, TaskOutput
from planrunner.views.terminal import Terminal, foreign, notes

HEARTBEAT = 30.0
GATHERED = 500
FEW = 4
"""Tasks that a failure kept from starting which have a line each; of more there is one line for all."""


class PlainProgress:
    """A watch of a run for pipes, files and continuous integration.

    Lines are gathered and written at every tick, so that ten thousand short tasks do not cost ten thousand writes.
    ``output`` is how the output of tasks is shown: ``grouped`` after each attempt, ``prefixed`` line by line, ``none``.
    """

    def __init__(self, terminal: Terminal, heartbeat: float = HEARTBEAT, output: str = "grouped") -> None:
        self._terminal = terminal
        self._heartbeat = heartbeat
        self._output = output
        self._written: TaskOutput | None = None
        self._lines: list[str] = []
        self._idle: list[str] = []
        """Lines of tasks that were just given up without a start; empty for items of a large fan-out."""
        self._state: State | None = None
        self._folds: Folds | None = None
        self._run_id = ""
        self._before: dict[str, int] = {}
        """How many tasks had each status when this process took the run up; empty for one that had ended."""
        self._wrote = monotonic()
        self._second = -1
        self._clock = ""

    def started(self, run_id: str, plan: Plan, state: State) -> None:
        self._state = state
        self._run_id = run_id
        self._before = shown_counts(state) if state.ended_at is None else {}
        if state.holders:
            self._folds = Folds(state)
            self._folds.resumed()
        which = "dry run" if is_dry(state) else f"run {run_id}"
        noun = "top-level task" if state.holders else "task"
        self._lines.append(f"{which} of {plan.id}: {plural(len(plan.tasks), noun)}")
        self._flush()

    def warn(self, texts: Sequence[str]) -> None:
        notes(self._terminal, texts)

    def event(self, entry: Entry) -> None:
        if isinstance(entry.event, (AttemptEnded, UndoEnded)) and self._output != "none":
            self._take_end(entry.event)
        if self._state is None:
            return
        second = int(entry.at)
        if second != self._second:
            self._second, self._clock = second, _clock(entry.at)
        line = self._line(self._state, entry)
        if self._folds is not None:
            line = self._folds.line(entry.event, line)
        if isinstance(entry.event, TaskSettled) and _never_started(self._state, entry.event):
            self._idle.append(f"{self._clock} {line}" if line else "")
            return
        if not line:
            if isinstance(entry.event, TaskSettled) and self._written is not None:
                self._written.due(entry.event)  # of what has no line the output is not shown either
            return
        self._tell_idle()
        self._lines.append(f"{self._clock} {line}")
        for group in self._written.due(entry.event) if self._written is not None else ():
            self._lines += self._grouped(group)
        if len(self._lines) >= GATHERED:
            self._flush()

    def _line(self, state: State, entry: Entry) -> str:
        if type(entry.event) is not RunResumed:
            return line_of(self._terminal, state, entry)
        # the state has gone on since, as entries are shown in batches; what a run that had ended does again has a line
        return resumed_text(self._before) if self._before else ""

    def output(self, task: str, attempt: int, _stream: str, data: bytes) -> None:
        if self._output != "none" and self._state is not None:
            self._lines += self._verbatim(self._tasks_output(self._state).take(task, attempt, data))

    def _take_end(self, event: AttemptEnded | UndoEnded) -> None:
        if self._state is not None and (self._written or event.outcome.stdout or event.outcome.stderr):
            self._lines += self._verbatim(self._tasks_output(self._state).end(event))

    def _tasks_output(self, state: State) -> TaskOutput:
        if self._written is None:
            self._written = TaskOutput(self._terminal, state, self._run_id, self._output == "prefixed")
        return self._written

    def _grouped(self, group: Group) -> list[str]:
        """The lines of the output of an attempt below the line that tells of its end."""
        return group.indented()

    def _verbatim(self, lines: list[str]) -> list[str]:
        """Lines that begin as tasks wrote them."""
        return lines

    def tick(self, now: float) -> None:
        if self._lines or self._idle:
            self._flush()
        elif monotonic() - self._wrote >= self._heartbeat:
            self._lines.append(self._still_running(now))
            self._flush()

    def ended(self, result: Any) -> None:
        if self._state is None:
            return
        # Late: only the end of a run needs it.
        self._tell_idle()
        for group in self._written.rest() if self._written is not None else ():
            self._lines += [f"output of {group.name}:", *self._grouped(group)]
        self._lines += self._verbatim(ending(self._terminal, self._state, self._run_id, result and result.source))
        self._flush()

    def _still_running(self, now: float) -> str:
        assert self._state is not None
        found = self._state.tasks
        numbers = list(self._state.running)
        names = [f"{label(self._state, at)} ({duration_text(elapsed(found[at], now))})" for at in numbers[:8]]
        more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
        return f"{_clock(now)} still running: {', '.join(names) or 'nothing'}{more}"

    def _tell_idle(self) -> None:
        """What a failure or a stop kept from starting: a line each of a few, else one line."""
        if len(self._idle) <= FEW:
            self._lines += filter(None, self._idle)
        else:
            sign = self._terminal.sign("cancelled")
            self._lines.append(f"{self._clock} {sign} {len(self._idle):,} tasks not started")
        self._idle.clear()

    def _flush(self) -> None:
        self._tell_idle()
        if self._lines:
            self._terminal.write("\n".join(self._lines) + "\n")
            self._lines.clear()
            self._wrote = monotonic()


def _never_started(state: State, event: TaskSettled) -> bool:
    return event.status in ("omitted", "cancelled") and state.tasks[state.index[event.task]].started is None


def _clock(at: float) -> str:
    moment = localtime(at)
    return f"{moment.tm_hour:02d}:{moment.tm_min:02d}:{moment.tm_sec:02d}"


def _started(terminal: Terminal, state: State, event: AttemptStarted, _at: float) -> str:
    number = state.index[event.task]
    if number in state.holders:
        return ""  # what it opens follows, and says more
    attempt = attempt_text(state.specs[number], event.attempt, state.tasks[number].past)
    again = " again, its end was not seen" if event.reissue else ""
    instead = ": a budget runs short, its `degraded` action runs instead" if event.degraded else ""
    return (
        f"{terminal.sign('running')} {label(state, number)} started{again}"
        + (f" ({attempt})" if attempt else "")
        + instead
    )


def _settled(terminal: Terminal, state: State, event: TaskSettled, at: float) -> str:
    number = state.index[event.task]
    found = state.tasks[number]
    status = event.status.replace("_", " ")
    took = f" in {duration_text(max(0.0, at - found.started - found.idle))}" if found.started is not None else ""
    line = f"{terminal.sign(event.status)} {label(state, number)} {status}{took}"
    if found.attempts - found.past > 1:
        line += f", {attempt_text(state.specs[number], found.attempts, found.past)}"
    if found.inner is not None and event.status == "completed":
        line += f", {end_text(state, found.inner)}"
    silent = event.status == "completed" and event.reason not in ("fresh", "reused")
    why = "" if silent else foreign(terminal, labelled(state, event.detail or event.reason))
    return f"{line}: {why}" if why else line


_DESCRIBE: dict[type, Callable[[Terminal, State, Any, float], str] | None] = {
    RunStarted: None,
    AttemptStarted: _started,
    AttemptEnded: None,
    TaskSettled: _settled,
    RunEnded: None,
    RunResumed: None,
}
"""What every run meets; the rest is added when it is met."""


def line_of(terminal: Terminal, state: State, entry: Entry) -> str:
    """The line that tells of an event, without its time; empty where nothing is to be told."""
    kind = type(entry.event)
    describe = _DESCRIBE[kind] if kind in _DESCRIBE else _seldom(kind)
    return "" if describe is None else describe(terminal, state, entry.event, entry.at)


def _seldom(kind: type) -> Callable[[Terminal, State, Any, float], str] | None:
    return _DESCRIBE.setdefault(kind, DESCRIBE.get(kind))
