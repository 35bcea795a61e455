"""The line that tells of an event, for a watch that shows a run as lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from planrunner.escapes import harmless
from planrunner.machine.deciders import who_may
from planrunner.machine.events import (
    AttemptStarted,
    AttemptStopping,
    BudgetExtended,
    BudgetWarned,
    CheckpointTaken,
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
    StopRequested,
    TaskDelayed,
    TaskSettled,
    TasksReset,
    UndoScheduled,
    UndoSettled,
    UndoStarted,
    Warned,
)
from planrunner.machine.gates import asking
from planrunner.machine.names import label, labelled
from planrunner.machine.state import State, TaskState
from planrunner.machine.statuses import SETTLED, status_word
from planrunner.machine.verdicts import asked_retry
from planrunner.views.budget import extension_text, warning_text
from planrunner.views.checkpoint import warning
from planrunner.views.containers import call_text, end_text, is_of_calls, opened_text
from planrunner.views.gates import watchdog_command
from planrunner.views.status import attempt_text, counts_text, listed, waiting
from planrunner.views.terminal import Terminal, duration_text, foreign, plural


class ShownEvent(NamedTuple):
    """An event that is told, with the state of its run, which may be ahead of it; ``at`` is seconds since 1970."""

    terminal: Terminal
    state: State
    event: Any
    at: float

    @property
    def number(self) -> int:
        return self.state.index[self.event.task]

    @property
    def task(self) -> TaskState:
        return self.state.tasks[self.number]

    @property
    def name(self) -> str:
        return label(self.state, self.number)

    @property
    def wait(self) -> str:
        return duration_text(max(0.0, self.event.due - self.at))

    def attempt(self, number: int, asked: int = 1) -> str:
        return attempt_text(self.state.specs[self.number], number, self.task.past, asked)

    def cut(self, text: str) -> str:
        return foreign(self.terminal, text)


def line_of(terminal: Terminal, state: State, entry: Entry) -> str:
    """The line that tells of an event, without its time; empty where nothing is shown."""
    describe = _LINES.get(type(entry.event))
    if describe is None:
        return ""
    status, text = describe(ShownEvent(terminal, state, entry.event, entry.at))
    return f"{terminal.sign(status)} {harmless(text)}" if status else harmless(text)


def resumed_text(counts: dict[str, int]) -> str:
    """How much of a run was done when it was resumed; ``counts`` are those of ``shown_counts`` at that moment."""
    settled: frozenset[str] = SETTLED - {"rolled_back"}
    done = {status: count for status, count in counts.items() if status in settled and count}
    total = f"resumed: {sum(done.values())} of {sum(counts.values())} tasks are done already"
    return f"{total}: {counts_text(done)}" if len(done) > 1 else total


def stopping_text(reason: str, by: str, comment: str) -> str:
    """Why a run that still has running tasks stops, who asked for it, and the comment."""
    who = f" for {by}" if by else ""
    if not reason:
        return f"pause withdrawn{who}: the run continues"
    text = _STOPS.get(reason, f"{reason}: stopping running tasks").replace("{who}", who)
    return text + (f" ({comment})" if comment else "")


_STOPS = {
    "interrupted": "interrupted: stopping running tasks (Ctrl-C again to kill)",
    "time": "time budget of the plan used up; stopping running tasks",
    "deadline": "deadline passed; stopping running tasks",
    "budget": "budget used up: running tasks may finish, no more start",
    "revision": "another plan is proposed{who}: running tasks may finish, no more start",
    "pause": "pausing{who}: running tasks may finish, no more start",
    "cancelled": "cancelling{who}: stopping running tasks",
    "killed": "killing running tasks{who}",
}


def _started(shown: ShownEvent) -> tuple[str, str]:
    if shown.number in shown.state.containers:
        return "", ""  # what it opens follows, and says more
    attempt = shown.attempt(shown.event.attempt)
    again = " again, since its result was not recorded" if shown.event.reissue else ""
    called = call_text(shown.state, shown.number)
    text = f"{shown.name} started{again}" + (f" ({attempt})" if attempt else "")
    return "running", f"{text}: {called}" if called else text


def _settled(shown: ShownEvent) -> tuple[str, str]:
    state, event, task = shown.state, shown.event, shown.task
    if event.status == "completed" and is_of_calls(state, shown.number):
        return "", ""  # its calls have lines of their own
    timed = task.started is not None and event.status != "in_doubt"  # how long an attempt took is not known either
    took = f" in {duration_text(max(0.0, shown.at - (task.started or 0.0) - task.idle))}" if timed else ""
    line = f"{shown.name} {status_word(event.status)}{took}"
    if task.attempts - task.past > 1:
        line += f", {shown.attempt(task.attempts)}"
    if task.inner is not None and event.status == "completed":
        line += f", {end_text(state, task.inner)}"
    silent = event.status == "completed" and event.reason not in ("fresh", "reused")
    why = "" if silent else shown.cut(labelled(state, event.detail or event.reason))
    return event.status, f"{line}: {why}" if why else line


def _opened(shown: ShownEvent) -> tuple[str, str]:
    if is_of_calls(shown.state, shown.number):
        return "", ""
    attempt = shown.attempt(shown.event.attempt) if shown.event.number <= 1 else ""
    text = f"{shown.name} {opened_text(shown.state, shown.number, shown.event)}"
    return "running", text + (f" ({attempt})" if attempt else "")


def _closing(shown: ShownEvent) -> tuple[str, str]:
    running = "running tasks may finish" if shown.event.reason == "budget" else "stopping running tasks"
    return "cancelled", f"{shown.name} stops ({shown.event.reason}): {running}"


def _reset(shown: ShownEvent) -> tuple[str, str]:
    event, state = shown.event, shown.state
    names = ", ".join(label(state, state.index[task]) for task in event.tasks[:4])
    names += f" and {len(event.tasks) - 4} more" if len(event.tasks) > 4 else ""
    cause = f", sent back by {event.cause}" if event.cause else f", by {event.by}" if event.by else ""
    comment = f": {shown.cut(event.comment)}" if event.comment else ""
    return "retrying", f"{names} re-run ({event.reason}{cause}{comment})"


def _retry(shown: ShownEvent) -> tuple[str, str]:
    outcome = shown.task.outcome
    message = shown.cut(outcome.message) if outcome else ""
    attempt = shown.attempt(shown.event.attempt, asked_retry(outcome).attempts)
    why = shown.event.failure + (f": {message}" if message else "")
    return "retrying", f"{shown.name} failed, {attempt}, next in {shown.wait} ({why})"


def _escalated(shown: ShownEvent) -> tuple[str, str]:
    return "blocked", f"{shown.name} was not decided in time; it now asks {shown.cut(who_may(shown.event))}"


def _vote(shown: ShownEvent) -> tuple[str, str]:
    event = shown.event
    verdict, status = ("approves", "completed") if event.verdict == "approve" else ("rejects", "failed")
    chosen = f" with `{event.choice}`" if event.choice else ""
    return status, shown.cut(
        f"{event.by} {verdict} {shown.name}{chosen}" + (f": {event.reason}" if event.reason else "")
    )


def _watched(shown: ShownEvent) -> tuple[str, str]:
    ask = ""
    if shown.event.do == "ask":
        command = watchdog_command(shown.terminal.program, shown.state, shown.event.task)
        ask = f": let it continue, or end it with `{command}`"
    return "running", f"{shown.name} still runs after {duration_text(shown.event.after)}{ask}"


def _checkpoint(shown: ShownEvent) -> tuple[str, str]:
    """Only what a checkpoint lacks is shown."""
    event = shown.event
    name = f"{shown.name}#{event.round}" if event.round else shown.name
    return ("in_doubt", warning(name, bool(event.files), event.problem)) if event.problem else ("", "")


def _parked(shown: ShownEvent) -> tuple[str, str]:
    state = shown.state
    names = [label(state, state.index[task]) for task in shown.event.waiting or waiting(state)]
    return "paused", f"paused ({shown.event.reason})" + (f", waits for {listed(names)}" if names else "")


def _rolling_back(shown: ShownEvent) -> tuple[str, str]:
    within = f" {shown.event.within}" if shown.event.within else ""
    return "rolled_back", f"rolling back{within}: {plural(len(shown.event.owed), 'step')} to undo"


def _undoing(shown: ShownEvent) -> tuple[str, str]:
    again = " again, since its result was not recorded" if shown.event.reissue else ""
    return "rolled_back", f"{'restoring files of' if shown.event.kind == 'files' else 'undoing'} {shown.name}{again}"


def _undo_settled(shown: ShownEvent) -> tuple[str, str]:
    results = {"undone": ("rolled_back", "undone"), "failed": ("failed", "could not be undone")}
    status, text = results.get(shown.event.status, ("skipped", "left as it is"))
    return status, f"{shown.name} {text}" + (f": {shown.cut(shown.event.detail)}" if shown.event.detail else "")


_LINES: dict[type, Callable[[ShownEvent], tuple[str, str]]] = {
    AttemptStarted: _started,
    TaskSettled: _settled,
    FrameOpened: _opened,
    FrameClosing: _closing,
    TasksReset: _reset,
    RetryScheduled: _retry,
    GateOpened: lambda shown: (
        "blocked",
        f"{shown.name} asks: {shown.cut(asking(shown.event.ask, shown.event.unchosen))}",
    ),
    GateReopened: lambda shown: (
        "blocked",
        f"{shown.name} asks again: {shown.cut(', '.join(shown.event.changed))} changed",
    ),
    GateEscalated: _escalated,
    GateVoted: _vote,
    StopRequested: lambda shown: (
        "",
        shown.cut(stopping_text(shown.event.reason, shown.event.by, shown.event.comment)),
    ),
    BudgetWarned: lambda shown: ("", warning_text(shown.event)),
    BudgetExtended: lambda shown: ("", extension_text(shown.event)),
    CheckpointTaken: _checkpoint,
    Warned: _watched,
    AttemptStopping: lambda shown: ("cancelled", f"stopping {shown.name}: {labelled(shown.state, shown.event.detail)}"),
    RunParked: _parked,
    TaskDelayed: lambda shown: (
        "blocked",
        f"{shown.name} waits {shown.wait}: {labelled(shown.state, shown.event.detail)}",
    ),
    RollbackStarted: _rolling_back,
    UndoStarted: _undoing,
    UndoScheduled: lambda shown: (
        "retrying",
        f"undoing {shown.name} failed ({shown.event.failure}), next attempt in {shown.wait}",
    ),
    UndoSettled: _undo_settled,
}
"""Event → the status whose sign stands before the line, and its text; both may be empty."""
