"""Progress as lines: one a state change, and every thirty seconds what still runs."""

from __future__ import annotations

from time import localtime, monotonic

from planrunner.machine.events import AttemptEnded, AttemptStarted, RunEnded, RunStarted, TaskSettled
from planrunner.machine.labels import label, labelled
from planrunner.record import TYPE_CHECKING
from planrunner.views.standing import attempt_text, elapsed, is_dry
from planrunner.views.symbols import duration_text, plural
from planrunner.views.terminal import Terminal, foreign, notes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from planrunner.machine.events import Entry
    from planrunner.machine.state import State
    from planrunner.plan.model import Plan
    from planrunner.views.progress_folded import Folds

HEARTBEAT = 30.0
GATHERED = 500
FEW = 4
"""Tasks that a failure kept from starting which have a line each; of more there is one line for all."""


class PlainProgress:
    """A watch of a run for pipes, files and continuous integration.

    Lines are gathered and written at every tick, so that ten thousand short tasks do not cost ten thousand writes.
    """

    def __init__(self, terminal: Terminal, heartbeat: float = HEARTBEAT) -> None:
        self._terminal = terminal
        self._heartbeat = heartbeat
        self._lines: list[str] = []
        self._idle: list[str] = []
        """Lines of tasks that were just given up without a start."""
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
        which = "dry run" if is_dry(state) else f"run {run_id}"
        self._lines.append(f"{which} of {plan.id}: {plural(len(plan.tasks), 'task')}")
        self._flush()

    def warn(self, texts: Sequence[str]) -> None:
        notes(self._terminal, texts)

    def event(self, entry: Entry) -> None:
        kind = type(entry.event)
        describe = _DESCRIBE[kind] if kind in _DESCRIBE else _seldom(kind)
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
        if isinstance(entry.event, TaskSettled) and _never_started(self._state, entry.event):
            self._idle.append(f"{self._clock} {line}")
            return
        self._tell_idle()
        self._lines.append(f"{self._clock} {line}")
        if len(self._lines) >= GATHERED:
            self._flush()

    def output(self, _task: str, _attempt: int, _stream: str, _data: bytes) -> None:
        """Output is kept with the attempt; a failure shows its last lines at the end."""

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
        from planrunner.views.ending import ending

        self._tell_idle()
        self._lines += ending(self._terminal, self._state, self._run_id, result and result.source)
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
            self._lines += self._idle
        else:
            clock = self._idle[0].partition(" ")[0]
            self._lines.append(f"{clock} {self._terminal.sign('cancelled')} {len(self._idle):,} tasks not started")
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
        from planrunner.views.nesting import end_text  # late: many plans are flat

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
}
"""What every run meets; the rest is added when it is met."""


def _seldom(kind: type) -> Callable[[Terminal, State, Any, float], str] | None:
    from planrunner.views.progress_rare import DESCRIBE  # late: many runs meet none of these

    return _DESCRIBE.setdefault(kind, DESCRIBE.get(kind))
