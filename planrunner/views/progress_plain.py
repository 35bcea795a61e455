"""Progress as lines: one a state change, and every thirty seconds what still runs."""

from __future__ import annotations

from time import localtime, monotonic

from planrunner.machine.events import (
    AttemptStarted,
    AttemptStopping,
    BudgetExtended,
    BudgetWarned,
    Entry,
    FrameClosing,
    FrameOpened,
    GateEscalated,
    GateOpened,
    GateReopened,
    GateVoted,
    RetryScheduled,
    RollbackStarted,
    RunParked,
    RunResumed,
    StopRequested,
    TaskDelayed,
    TaskSettled,
    TasksReset,
    UndoScheduled,
    UndoSettled,
    UndoStarted,
    Warned,
)
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.record import TYPE_CHECKING
from planrunner.views.run import attempt_text, elapsed, listed, waiting
from planrunner.views.symbols import duration_text, plural
from planrunner.views.terminal import Terminal, cut, harmless

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from planrunner.views.progress_folded import Folds

HEARTBEAT = 30.0
GATHERED = 500


class PlainProgress:
    """A watch of a run for pipes, files and continuous integration.

    Lines are gathered and written at every tick, so that ten thousand short tasks do not cost ten thousand writes.
    """

    def __init__(self, terminal: Terminal, heartbeat: float = HEARTBEAT) -> None:
        self._terminal = terminal
        self._heartbeat = heartbeat
        self._lines: list[str] = []
        self._state: State | None = None
        self._folds: Folds | None = None
        self._run_id = ""
        self._wrote = monotonic()
        self._second = -1
        self._clock = ""

    def started(self, run_id: str, plan: Plan, state: State) -> None:
        self._state = state
        self._run_id = run_id
        if state.holders:
            from planrunner.views.progress_folded import Folds  # late: many plans are flat

            self._folds = Folds(state)
            self._folds.resumed()
        self._lines.append(f"run {run_id} of {plan.id}: {plural(len(plan.tasks), 'task')}")
        self._flush()

    def event(self, entry: Entry) -> None:
        kind = type(entry.event)
        describe = _checkpoint if kind.__name__ == "CheckpointTaken" else _DESCRIBE.get(kind)  # loads no module for it
        if describe is None or self._state is None:
            return
        line = describe(self._terminal, self._state, entry.event, entry.at)
        if self._folds is not None:
            line = self._folds.line(entry.event, line)
        if not line:
            return
        second = int(entry.at)
        if second != self._second:
            self._second, self._clock = second, _clock(entry.at)
        self._lines.append(f"{self._clock} {line}")
        if len(self._lines) >= GATHERED:
            self._flush()

    def output(self, _task: str, _attempt: int, _stream: str, _data: bytes) -> None:
        """Output is kept with the attempt; a failure shows its last lines at the end."""

    def tick(self, now: float) -> None:
        if self._lines:
            self._flush()
        elif monotonic() - self._wrote >= self._heartbeat:
            self._lines.append(self._still_running(now))
            self._flush()

    def ended(self, result: Any) -> None:
        if self._state is None:
            return
        # Late: only the end of a run needs it.
        from planrunner.views.ending import ending

        self._lines += ending(self._terminal, self._state, self._run_id, result and result.source)
        self._flush()

    def _still_running(self, now: float) -> str:
        assert self._state is not None
        tasks, found = self._state.specs, self._state.tasks
        numbers = list(self._state.running)
        names = [f"{tasks[at].id} ({duration_text(elapsed(found[at], now))})" for at in numbers[:8]]
        more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
        return f"{_clock(now)} still running: {', '.join(names) or 'nothing'}{more}"

    def _flush(self) -> None:
        if self._lines:
            self._terminal.write("\n".join(self._lines) + "\n")
            self._lines.clear()
            self._wrote = monotonic()


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
    return f"{terminal.sign('running')} {event.task} started{again}" + (f" ({attempt})" if attempt else "") + instead


def _foreign(terminal: Terminal, text: str) -> str:
    return cut(harmless(text), terminal.edge(), terminal.unicode)


def _retry(terminal: Terminal, state: State, event: RetryScheduled, at: float) -> str:
    number = state.index[event.task]
    found = state.tasks[number]
    outcome = found.outcome
    message = _foreign(terminal, outcome.message) if outcome else ""
    why = event.failure + (f": {message}" if message else "")
    attempt = attempt_text(state.specs[number], event.attempt, found.past)
    wait = duration_text(max(0.0, event.due - at))
    return f"{terminal.sign('retrying')} {event.task} failed, {attempt}, next in {wait} ({why})"


def _settled(terminal: Terminal, state: State, event: TaskSettled, at: float) -> str:
    number = state.index[event.task]
    found = state.tasks[number]
    status = event.status.replace("_", " ")
    took = f" in {duration_text(max(0.0, at - found.started))}" if found.started is not None else ""
    line = f"{terminal.sign(event.status)} {event.task} {status}{took}"
    if found.attempts - found.past > 1:
        line += f", {attempt_text(state.specs[number], found.attempts, found.past)}"
    if found.inner is not None and event.status == "completed":
        from planrunner.views.nesting import end_text  # late: many plans are flat

        line += f", {end_text(state, found.inner)}"
    silent = event.status == "completed" and event.reason != "fresh"
    why = "" if silent else _foreign(terminal, event.detail or event.reason)
    return f"{line}: {why}" if why else line


def _gate(terminal: Terminal, _state: State, event: GateOpened, _at: float) -> str:
    return f"{terminal.sign('blocked')} {event.task} asks: {_foreign(terminal, event.ask)}"


def _reopened(terminal: Terminal, _state: State, event: GateReopened, _at: float) -> str:
    what = _foreign(terminal, ", ".join(event.changed))
    return f"{terminal.sign('blocked')} {event.task} asks again, what it shows has changed: {what}"


def _escalated(terminal: Terminal, _state: State, event: GateEscalated, _at: float) -> str:
    who = " or ".join([*(f"the role {role}" for role in event.roles), *event.people]) or "anybody"
    return f"{terminal.sign('blocked')} {event.task} was not decided in time and asks others: {_foreign(terminal, who)}"


def _vote(terminal: Terminal, _state: State, event: GateVoted, _at: float) -> str:
    word = "approves" if event.verdict == "approve" else "rejects"
    chosen = f" with `{event.choice}`" if event.choice else ""
    line = f"{event.by} {word} {event.task}{chosen}" + (f": {event.reason}" if event.reason else "")
    return f"{terminal.sign('completed' if event.verdict == 'approve' else 'failed')} {_foreign(terminal, line)}"


def _opened(terminal: Terminal, state: State, event: FrameOpened, _at: float) -> str:
    from planrunner.views.nesting import opened_text  # late: many plans are flat

    number = state.index[event.task]
    attempt = attempt_text(state.specs[number], event.attempt, state.tasks[number].past) if event.number <= 1 else ""
    return f"{terminal.sign('running')} {event.task} {opened_text(state, number, event)}" + (
        f" ({attempt})" if attempt else ""
    )


def _closing(terminal: Terminal, _state: State, event: FrameClosing, _at: float) -> str:
    runs = "may end" if event.reason == "budget" else "is ended"
    return f"{terminal.sign('cancelled')} {event.task} is stopped ({event.reason}): what runs in it {runs}"


def _reset(terminal: Terminal, _state: State, event: TasksReset, _at: float) -> str:
    names = ", ".join(event.tasks[:4]) + (f" and {len(event.tasks) - 4} more" if len(event.tasks) > 4 else "")
    cause = f", sent back by {event.cause}" if event.cause else f", by {event.by}" if event.by else ""
    said = f": {_foreign(terminal, event.comment)}" if event.comment else ""
    return f"{terminal.sign('retrying')} {names} begin anew ({event.reason}{cause}{said})"


def _resumed(_terminal: Terminal, state: State, _event: RunResumed, _at: float) -> str:
    done = sum(state.counts.get(status, 0) for status in ("completed", "skipped", "omitted"))
    return f"resumed: {done} of {len(state.tasks)} tasks are done already"


def _warned(_terminal: Terminal, _state: State, event: BudgetWarned, _at: float) -> str:
    from planrunner.views.budget import warning_text  # late: few runs have limits

    return warning_text(event)


def _watched(terminal: Terminal, _state: State, event: Warned, _at: float) -> str:
    look = ": somebody should look" if event.do == "ask" else ""
    return f"{terminal.sign('running')} {event.task} still runs after {duration_text(event.after)}{look}"


def _stopping(terminal: Terminal, _state: State, event: AttemptStopping, _at: float) -> str:
    return f"{terminal.sign('cancelled')} {event.task} is stopped: {event.detail}"


def _extended(_terminal: Terminal, _state: State, event: BudgetExtended, _at: float) -> str:
    from planrunner.views.budget import extension_text  # late, as above

    return extension_text(event)


_STOPS = {
    "deadline": "the time of the plan is used up: what runs is ended in order",
    "budget": "a budget is used up: what runs may end, nothing else starts",
    "pause": "pausing{who}: what runs may end, nothing else starts",
    "cancelled": "cancelling{who}: what runs is ended in order",
    "killed": "killing{who}: what runs is ended at once",
}


def _stop(terminal: Terminal, _state: State, event: StopRequested, _at: float) -> str:
    who = f" for {event.by}" if event.by else ""
    text = _STOPS.get(event.reason, f"stopping ({event.reason}): what runs is ended in order").format(who=who)
    return text + (f" ({_foreign(terminal, event.comment)})" if event.comment else "")


def _checkpoint(terminal: Terminal, _state: State, event: Any, _at: float) -> str:
    """Only what a checkpoint lacks is told."""
    if not event.problem:
        return ""
    from planrunner.views.checkpoint import warning  # late: few tasks ask for a checkpoint

    name = f"{event.task}#{event.round}" if event.round else event.task
    return f"{terminal.sign('in_doubt')} {warning(name, bool(event.files), event.problem)}"


def _parked(terminal: Terminal, state: State, event: RunParked, _at: float) -> str:
    names = list(event.waiting) or waiting(state)
    return f"{terminal.sign('paused')} parked ({event.reason})" + (f", waits for {listed(names)}" if names else "")


def _delayed(terminal: Terminal, _state: State, event: TaskDelayed, at: float) -> str:
    wait = duration_text(max(0.0, event.due - at))
    return f"{terminal.sign('blocked')} {event.task} waits {wait}: {event.detail}"


def _rolling_back(terminal: Terminal, _state: State, event: RollbackStarted, _at: float) -> str:
    return f"{terminal.sign('rolled_back')} rolling back: {plural(len(event.owed), 'step')} to undo"


def _undoing(terminal: Terminal, _state: State, event: UndoStarted, _at: float) -> str:
    what = "putting back the files of" if event.kind == "files" else "undoing"
    again = " again, its end was not seen" if event.reissue else ""
    return f"{terminal.sign('rolled_back')} {what} {event.task}{again}"


def _undo_retry(terminal: Terminal, _state: State, event: UndoScheduled, at: float) -> str:
    wait = duration_text(max(0.0, event.due - at))
    return f"{terminal.sign('retrying')} undoing {event.task} failed ({event.failure}), next attempt in {wait}"


def _undo_settled(terminal: Terminal, _state: State, event: UndoSettled, _at: float) -> str:
    words = {"undone": ("rolled_back", "undone"), "failed": ("failed", "could not be undone")}
    status, text = words.get(event.status, ("skipped", "left as it is"))
    why = f": {_foreign(terminal, event.detail)}" if event.detail else ""
    return f"{terminal.sign(status)} {event.task} {text}{why}"


_DESCRIBE: dict[type, Callable[[Terminal, State, Any, float], str]] = {
    AttemptStarted: _started,
    FrameOpened: _opened,
    FrameClosing: _closing,
    TasksReset: _reset,
    RetryScheduled: _retry,
    TaskSettled: _settled,
    GateOpened: _gate,
    GateReopened: _reopened,
    GateEscalated: _escalated,
    GateVoted: _vote,
    RunResumed: _resumed,
    StopRequested: _stop,
    BudgetWarned: _warned,
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
