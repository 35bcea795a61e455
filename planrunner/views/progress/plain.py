"""Progress as lines: one for each state change, the output of tasks, every thirty seconds what still runs; for GitHub
Actions with folded groups and annotations; or, quiet, failures and waits alone."""

from __future__ import annotations

from collections.abc import Sequence
from os import urandom
from time import localtime, monotonic
from typing import TYPE_CHECKING, Any

from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    Entry,
    Event,
    FrameOpened,
    RunResumed,
    StopRequested,
    TaskSettled,
    UndoEnded,
)
from planrunner.machine.names import by_its_own, label
from planrunner.machine.state import State, TaskState
from planrunner.plan.expressions.quantities import duration_text
from planrunner.statuses import status_word
from planrunner.views.containers import settled
from planrunner.views.ending import ending
from planrunner.views.events import line_of, resumed_text
from planrunner.views.progress.output import Group, TaskOutput
from planrunner.views.status import elapsed, is_dry, shown_counts
from planrunner.views.terminal import Terminal, notes, plural

if TYPE_CHECKING:
    from planrunner.machine.graph import Frame
    from planrunner.plan.model import Plan


HEARTBEAT = 30.0
GATHERED = 500
FEW = 4
"""Tasks that a failure kept from starting which have a line each; of more there is one line for all."""


class PlainProgress:
    """A watch of a run for pipes, files and continuous integration.

    Lines are gathered and written at every tick, so that ten thousand short tasks do not cost ten thousand writes.
    ``output`` is how the output of tasks is shown: ``grouped`` after each attempt, ``prefixed`` line by line, ``none``.
    """

    def __init__(self, terminal: Terminal, output: str = "grouped", heartbeat: float = HEARTBEAT) -> None:
        self._terminal = terminal
        self._heartbeat = heartbeat
        self._output = output
        self._written: TaskOutput | None = None
        self._lines: list[str] = []
        self._not_started: list[str] = []
        """Lines of tasks that were just given up without a start; empty for items of a large fan-out."""
        self._state: State | None = None
        self._large: LargeFanouts | None = None
        self._run_id = ""
        self._before: dict[str, int] = {}
        """How many tasks had each status when this process resumed the run; empty for one that had ended."""
        self._wrote = monotonic()
        self._second = -1
        self._clock = ""

    def started(self, run_id: str, plan: Plan, state: State) -> None:
        self._state = state
        self._run_id = run_id
        self._before = shown_counts(state) if state.ended_at is None else {}
        if self._output != "none":
            self._written = TaskOutput(self._terminal, state, run_id, self._output == "prefixed")
        if state.containers:
            self._large = LargeFanouts(state)
        which = "dry run" if is_dry(state) else f"run {run_id}"
        noun = "top-level task" if state.containers else "task"
        self._lines.append(f"{which} of {plan.id}: {plural(len(plan.tasks), noun)}")
        self._flush()

    def warn(self, texts: Sequence[str]) -> None:
        notes(self._terminal, texts)

    def event(self, entry: Entry) -> None:
        event, state, written = entry.event, self._state, self._written
        if state is None:
            return
        if isinstance(event, (AttemptEnded, UndoEnded)) and written is not None:
            self._lines += self._verbatim(written.end(event))
        if int(entry.at) != self._second:
            self._second, self._clock = int(entry.at), _clock(entry.at)
        if isinstance(event, RunResumed):
            # the state has gone on since, as entries are shown in batches; a run that had ended says what it re-runs
            line = resumed_text(self._before) if self._before else ""
        else:
            line = line_of(self._terminal, state, entry)
        if self._large is not None:
            line = self._large.line(event, line)
        if (
            isinstance(event, TaskSettled)
            and event.status in ("omitted", "cancelled")
            and _is_unbegun(state.tasks[state.index[event.task]])
        ):
            self._not_started.append(f"{self._clock} {line}" if line else "")
            return
        if not line:
            if isinstance(event, TaskSettled) and written is not None:
                written.due(event)  # of what has no line the output is not shown either
            return
        self._list_not_started()
        self._lines.append(f"{self._clock} {line}")
        for group in written.due(event) if written is not None else ():
            self._lines += self._grouped(group)
        if len(self._lines) >= GATHERED:
            self._flush()

    def output(self, task: str, attempt: int, _stream: str, data: bytes) -> None:
        if self._written is not None:
            self._lines += self._verbatim(self._written.take(task, attempt, data))

    def _grouped(self, group: Group) -> list[str]:
        """The lines of the output of an attempt below the line that tells of its end."""
        return group.indented()

    def _verbatim(self, lines: list[str]) -> list[str]:
        """Lines that begin as tasks wrote them."""
        return lines

    def tick(self, now: float) -> None:
        if self._lines or self._not_started:
            self._flush()
        elif monotonic() - self._wrote >= self._heartbeat and self._state is not None:
            tasks, numbers = self._state.tasks, list(self._state.running)
            names = [f"{label(self._state, at)} ({duration_text(elapsed(tasks[at], now))})" for at in numbers[:8]]
            more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
            self._lines.append(f"{_clock(now)} still running: {', '.join(names) or 'nothing'}{more}")
            self._flush()

    def ended(self, result: Any) -> None:
        if self._state is None:
            return
        self._list_not_started()
        for group in self._written.rest() if self._written is not None else ():
            self._lines += [f"output of {group.name}:", *self._grouped(group)]
        self._lines += self._verbatim(ending(self._terminal, self._state, self._run_id, result and result.source))
        self._flush()

    def _list_not_started(self) -> None:
        """What a failure or a stop kept from starting: a line each of a few, else one line."""
        if len(self._not_started) <= FEW:
            self._lines += filter(None, self._not_started)
        else:
            sign = self._terminal.sign("cancelled")
            self._lines.append(f"{self._clock} {sign} {len(self._not_started):,} tasks not started")
        self._not_started.clear()

    def _flush(self) -> None:
        self._list_not_started()
        if self._lines:
            self._terminal.write("\n".join(self._lines) + "\n")
            self._lines.clear()
            self._wrote = monotonic()


def _is_unbegun(task: TaskState) -> bool:
    """Whether a task neither began nor asked."""
    return task.started is None and not (task.gate is not None and task.gate.opened)


def _clock(at: float) -> str:
    moment = localtime(at)
    return f"{moment.tm_hour:02d}:{moment.tm_min:02d}:{moment.tm_sec:02d}"


LARGE = 100
"""Items from which on those that succeed are told in tenths."""

_UNEVENTFUL = ("completed", "skipped", "omitted", "cancelled")
"""Ends of items that need no action: one that never started says no more than its fan-out does."""


class LargeFanouts:
    """Folds the lines of large fan-outs into tenths. The state runs ahead of the entries that are told, so the items
    that are done are counted here, from those that were done before this process acted on the run."""

    __slots__ = ("_done", "_state")

    def __init__(self, state: State) -> None:
        self._state = state
        frames = [state.tasks[number].inner for number in state.containers]
        self._done = {frame: settled(frame) for frame in frames if frame is not None and frame.kind == "items"}

    def line(self, event: Event, line: str) -> str:
        """The line as it is outside of large fan-outs; inside, that of a failure, or one at each tenth of the items."""
        if not isinstance(event, (AttemptStarted, TaskSettled, FrameOpened)):
            return line
        state = self._state
        number = state.index[event.task]
        large, frame = None, state.tasks[number].frame
        while frame.owner >= 0:
            if frame.kind == "items" and frame.size >= LARGE:
                large = frame
            frame = state.tasks[frame.owner].frame
        if large is None:
            return line
        if not isinstance(event, TaskSettled):
            return ""
        tenth = self._tenth(large) if state.tasks[number].frame is large else ""
        return tenth if event.status in _UNEVENTFUL else line

    def _tenth(self, frame: Frame) -> str:
        done = self._done[frame] = self._done.get(frame, 0) + 1
        if done * 10 // frame.size == (done - 1) * 10 // frame.size or done >= frame.size:
            return ""
        return f"  {label(self._state, frame.owner)}: {done:,} of {frame.size:,} items done"


ANNOTATIONS = 10
"""What the service shows of each kind in one step; what is left out is counted."""


class GithubProgress(PlainProgress):
    """A watch of a run whose output is read by the runner of the service.

    Lines of tasks that look like commands to that runner are printed while commands are switched off by an
    unguessable token.
    """

    def __init__(self, terminal: Terminal, output: str = "grouped") -> None:
        super().__init__(terminal, output)
        self._annotated = 0

    def event(self, entry: Entry) -> None:
        super().event(entry)
        event, state = entry.event, self._state
        if state is None or not isinstance(event, TaskSettled) or event.status not in ("failed", "in_doubt"):
            return
        number = state.index[event.task]
        if not by_its_own(state, number):
            return  # the task inside that failed has an annotation
        self._annotated += 1
        if self._annotated < ANNOTATIONS:
            title = f"{label(state, number)} {status_word(event.status)}"
            title = _data(title).replace(":", "%3A").replace(",", "%2C")
            self._lines.append(f"::error title={title}::{_data(event.detail or event.reason)}")
        elif self._annotated == ANNOTATIONS:
            self._lines.append("::error title=more failures::further failures are in the log only")

    def _grouped(self, group: Group) -> list[str]:
        return [f"::group::output of {_data(group.name)}", *self._verbatim(group.lines), "::endgroup::"]

    def _verbatim(self, lines: list[str]) -> list[str]:
        if not any("::" in line or "##[" in line for line in lines):
            return lines
        token = urandom(12).hex()
        return [f"::stop-commands::{token}", *lines, f"::{token}::"]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


class QuietProgress(PlainProgress):
    """A watch of a run that writes nothing unless something is wrong: how it ended, or that it was interrupted."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__(terminal, "none")

    def started(self, run_id: str, plan: Plan, state: State) -> None:
        self._state = state
        self._run_id = run_id

    def event(self, entry: Entry) -> None:
        if isinstance(entry.event, StopRequested) and entry.event.reason in ("interrupted", "killed"):
            assert self._state is not None
            self._terminal.write(line_of(self._terminal, self._state, entry) + "\n")

    def tick(self, now: float) -> None:
        """Nothing is drawn."""

    def ended(self, result: Any) -> None:
        if self._state is not None and self._state.status != "completed":
            super().ended(result)
