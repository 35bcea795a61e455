"""Progress as lines: one a state change, the output of tasks, every thirty seconds what still runs; or, quiet,
failures and waits alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import localtime, monotonic
from typing import Any

from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    AttemptStopping,
    BudgetExtended,
    BudgetWarned,
    CheckpointTaken,
    Entry,
    Event,
    FrameClosing,
    FrameOpened,
    GateEscalated,
    GateOpened,
    GateReopened,
    GateVoted,
    RetryScheduled,
    RollbackStarted,
    RunEnded,
    RunParked,
    RunResumed,
    RunStarted,
    StopRequested,
    TaskDelayed,
    TaskSettled,
    TasksReset,
    UndoEnded,
    UndoScheduled,
    UndoSettled,
    UndoStarted,
    Warned,
)
from planrunner.machine.graph import Frame
from planrunner.machine.names import label, labelled
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED
from planrunner.machine.verdicts import asked_retry
from planrunner.plan.model import Plan
from planrunner.views.budget import extension_text, warning_text
from planrunner.views.checkpoint import warning
from planrunner.views.containers import end_text, opened_text, settled
from planrunner.views.ending import ORDER, ending
from planrunner.views.gates import watchdog_command
from planrunner.views.progress.output import Group, TaskOutput
from planrunner.views.status import attempt_text, elapsed, is_dry, listed, shown_counts, waiting
from planrunner.views.terminal import Terminal, duration_text, foreign, harmless, notes, plural

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
        if state.containers:
            self._folds = Folds(state)
            self._folds.resumed()
        which = "dry run" if is_dry(state) else f"run {run_id}"
        noun = "top-level task" if state.containers else "task"
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
        tasks = self._state.tasks
        numbers = list(self._state.running)
        names = [f"{label(self._state, at)} ({duration_text(elapsed(tasks[at], now))})" for at in numbers[:8]]
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
    if number in state.containers:
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


LARGE = 100
"""Items from which on those that go well are told in tenths."""

_QUIET = ("completed", "skipped", "omitted", "cancelled")
"""Ends of items that need no action: one that was never begun says no more than its fan-out does."""


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
        largest = None
        tasks = self._state.tasks
        frame = tasks[number].frame
        while frame.owner >= 0:
            if frame.kind == "items" and frame.size >= LARGE:
                largest = frame
            frame = tasks[frame.owner].frame
        return largest

    def _tenth(self, frame: Frame) -> str:
        done = self._done[frame] = self._done.get(frame, 0) + 1
        if done * 10 // frame.size == (done - 1) * 10 // frame.size or done >= frame.size:
            return ""
        return f"  {label(self._state, frame.owner)}: {done:,} of {frame.size:,} items done"

    def resumed(self) -> None:
        """Begin with the items that were done before this process acted on the run."""
        for number in self._state.containers:
            frame = self._state.tasks[number].inner
            if frame is not None and frame.kind == "items":
                self._done[frame] = settled(frame)


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


def _name(state: State, event: Any) -> str:
    return label(state, state.index[event.task])


def _retry(terminal: Terminal, state: State, event: RetryScheduled, at: float) -> str:
    number = state.index[event.task]
    found = state.tasks[number]
    outcome = found.outcome
    message = foreign(terminal, outcome.message) if outcome else ""
    why = event.failure + (f": {message}" if message else "")
    attempt = attempt_text(state.specs[number], event.attempt, found.past, asked_retry(outcome).attempts)
    wait = duration_text(max(0.0, event.due - at))
    return f"{terminal.sign('retrying')} {_name(state, event)} failed, {attempt}, next in {wait} ({why})"


def _gate(terminal: Terminal, state: State, event: GateOpened, _at: float) -> str:
    return f"{terminal.sign('blocked')} {_name(state, event)} asks: {foreign(terminal, event.ask)}"


def _reopened(terminal: Terminal, state: State, event: GateReopened, _at: float) -> str:
    what = foreign(terminal, ", ".join(event.changed))
    return f"{terminal.sign('blocked')} {_name(state, event)} asks again, what it shows has changed: {what}"


def _escalated(terminal: Terminal, state: State, event: GateEscalated, _at: float) -> str:
    who = " or ".join([*(f"the role {role}" for role in event.roles), *event.people]) or "anybody"
    name = f"{terminal.sign('blocked')} {_name(state, event)}"
    return f"{name} was not decided in time and asks others: {foreign(terminal, who)}"


def _vote(terminal: Terminal, state: State, event: GateVoted, _at: float) -> str:
    word = "approves" if event.verdict == "approve" else "rejects"
    chosen = f" with `{event.choice}`" if event.choice else ""
    line = f"{event.by} {word} {_name(state, event)}{chosen}" + (f": {event.reason}" if event.reason else "")
    return f"{terminal.sign('completed' if event.verdict == 'approve' else 'failed')} {foreign(terminal, line)}"


def _opened(terminal: Terminal, state: State, event: FrameOpened, _at: float) -> str:
    number = state.index[event.task]
    attempt = attempt_text(state.specs[number], event.attempt, state.tasks[number].past) if event.number <= 1 else ""
    return f"{terminal.sign('running')} {_name(state, event)} {opened_text(state, number, event)}" + (
        f" ({attempt})" if attempt else ""
    )


def _closing(terminal: Terminal, state: State, event: FrameClosing, _at: float) -> str:
    runs = "may end" if event.reason == "budget" else "is ended"
    return f"{terminal.sign('cancelled')} {_name(state, event)} is stopped ({event.reason}): what runs in it {runs}"


def _reset(terminal: Terminal, state: State, event: TasksReset, _at: float) -> str:
    names = ", ".join(label(state, state.index[task]) for task in event.tasks[:4])
    names += f" and {len(event.tasks) - 4} more" if len(event.tasks) > 4 else ""
    cause = f", sent back by {event.cause}" if event.cause else f", by {event.by}" if event.by else ""
    said = f": {foreign(terminal, event.comment)}" if event.comment else ""
    return f"{terminal.sign('retrying')} {names} re-run ({event.reason}{cause}{said})"


def resumed_text(counts: dict[str, int]) -> str:
    """How much of a run was done when it was taken up; ``counts`` are those of ``shown_counts`` at that moment."""
    done = [(status, counts[status]) for status in ORDER if status in SETTLED and counts.get(status)]
    total = f"resumed: {sum(count for _, count in done)} of {sum(counts.values())} tasks are done already"
    words = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in done)
    return f"{total}: {words}" if len(done) > 1 else total


def _warned(_terminal: Terminal, _state: State, event: BudgetWarned, _at: float) -> str:
    return warning_text(event)


def _watched(terminal: Terminal, state: State, event: Warned, _at: float) -> str:
    look = ""
    if event.do == "ask":
        look = f": let it go on, or end it with `{watchdog_command(terminal.program, state, event.task)}`"
    return f"{terminal.sign('running')} {_name(state, event)} still runs after {duration_text(event.after)}{look}"


def _stopping(terminal: Terminal, state: State, event: AttemptStopping, _at: float) -> str:
    return f"{terminal.sign('cancelled')} {_name(state, event)} is stopped: {labelled(state, event.detail)}"


def _extended(_terminal: Terminal, _state: State, event: BudgetExtended, _at: float) -> str:
    return extension_text(event)


_STOPS = {
    "interrupted": "interrupted: stopping running tasks (Ctrl-C again to kill)",
    "time": "the time budget of the plan is used up; stopping running tasks",
    "deadline": "deadline passed; stopping running tasks",
    "budget": "a budget is used up: what runs may end, nothing else starts",
    "pause": "pausing{who}: what runs may end, nothing else starts",
    "cancelled": "cancelling{who}: stopping running tasks",
    "killed": "killing running tasks{who}",
}


def _stop(terminal: Terminal, _state: State, event: StopRequested, _at: float) -> str:
    return foreign(terminal, stopping_text(event.reason, event.by, event.comment))


def stopping_text(reason: str, by: str, comment: str) -> str:
    """Why a run that still has running tasks stops, who asked for it, and what was said with it."""
    who = f" for {by}" if by else ""
    if not reason:
        return f"the pause is taken back{who}: the run goes on"
    text = _STOPS.get(reason, f"{reason}: stopping running tasks").replace("{who}", who)
    return text + (f" ({comment})" if comment else "")


def _checkpoint(terminal: Terminal, state: State, event: CheckpointTaken, _at: float) -> str:
    """Only what a checkpoint lacks is told."""
    if not event.problem:
        return ""
    name = f"{_name(state, event)}#{event.round}" if event.round else _name(state, event)
    return f"{terminal.sign('in_doubt')} {warning(name, bool(event.files), event.problem)}"


def _parked(terminal: Terminal, state: State, event: RunParked, _at: float) -> str:
    names = [label(state, state.index[task]) for task in event.waiting or waiting(state)]
    return f"{terminal.sign('paused')} paused ({event.reason})" + (f", waits for {listed(names)}" if names else "")


def _delayed(terminal: Terminal, state: State, event: TaskDelayed, at: float) -> str:
    wait = duration_text(max(0.0, event.due - at))
    return f"{terminal.sign('blocked')} {_name(state, event)} waits {wait}: {labelled(state, event.detail)}"


def _rolling_back(terminal: Terminal, _state: State, event: RollbackStarted, _at: float) -> str:
    what = f" {event.within}" if event.within else ""
    return f"{terminal.sign('rolled_back')} rolling back{what}: {plural(len(event.owed), 'step')} to undo"


_UNDOING = {"action": "undoing", "files": "putting back the files of", "capability": "taking back what was done by"}


def _undoing(terminal: Terminal, state: State, event: UndoStarted, _at: float) -> str:
    what = _UNDOING[event.kind]
    again = " again, its end was not seen" if event.reissue else ""
    return f"{terminal.sign('rolled_back')} {what} {_name(state, event)}{again}"


def _undo_retry(terminal: Terminal, state: State, event: UndoScheduled, at: float) -> str:
    wait = duration_text(max(0.0, event.due - at))
    return f"{terminal.sign('retrying')} undoing {_name(state, event)} failed ({event.failure}), next attempt in {wait}"


def _undo_settled(terminal: Terminal, state: State, event: UndoSettled, _at: float) -> str:
    words = {"undone": ("rolled_back", "undone"), "failed": ("failed", "could not be undone")}
    status, text = words.get(event.status, ("skipped", "left as it is"))
    why = f": {foreign(terminal, event.detail)}" if event.detail else ""
    return f"{terminal.sign(status)} {_name(state, event)} {text}{why}"


DESCRIBE: dict[type, Callable[[Terminal, State, Any, float], str]] = {
    FrameOpened: _opened,
    FrameClosing: _closing,
    TasksReset: _reset,
    RetryScheduled: _retry,
    GateOpened: _gate,
    GateReopened: _reopened,
    GateEscalated: _escalated,
    GateVoted: _vote,
    StopRequested: _stop,
    BudgetWarned: _warned,
    CheckpointTaken: _checkpoint,
    BudgetExtended: _extended,
    Warned: _watched,
    AttemptStopping: _stopping,
    RunParked: _parked,
    TaskDelayed: _delayed,
    RollbackStarted: _rolling_back,
    UndoStarted: _undoing,
    UndoScheduled: _undo_retry,
    UndoSettled: _undo_settled,
}
"""Kinds of event that are told; what is told of one that happened at a time, seconds since 1970, may be empty."""
