"""The line that tells of an event, for a watch that shows a run as lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from planrunner.escapes import harmless
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
from planrunner.machine.names import label, labelled
from planrunner.machine.state import State, TaskState
from planrunner.machine.statuses import SETTLED, status_word
from planrunner.machine.verdicts import asked_retry
from planrunner.views.budget import extension_text, warning_text
from planrunner.views.checkpoint import warning
from planrunner.views.containers import end_text, opened_text
from planrunner.views.gates import watchdog_command
from planrunner.views.status import attempt_text, counts_text, listed, waiting
from planrunner.views.terminal import Terminal, duration_text, foreign, plural


class Told(NamedTuple):
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
    """The line that tells of an event, without its time; empty where nothing is told."""
    describe = _LINES.get(type(entry.event))
    if describe is None:
        return ""
    status, text = describe(Told(terminal, state, entry.event, entry.at))
    return f"{terminal.sign(status)} {harmless(text)}" if status else harmless(text)


def resumed_text(counts: dict[str, int]) -> str:
    """How much of a run was done when it was resumed; ``counts`` are those of ``shown_counts`` at that moment."""
    done: dict[str, int] = {status: count for status, count in counts.items() if status in SETTLED and count}
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
    "pause": "pausing{who}: running tasks may finish, no more start",
    "cancelled": "cancelling{who}: stopping running tasks",
    "killed": "killing running tasks{who}",
}


def _started(told: Told) -> tuple[str, str]:
    if told.number in told.state.containers:
        return "", ""  # what it opens follows, and says more
    attempt = told.attempt(told.event.attempt)
    again = " again, since its result was not recorded" if told.event.reissue else ""
    return "running", f"{told.name} started{again}" + (f" ({attempt})" if attempt else "")


def _settled(told: Told) -> tuple[str, str]:
    state, event, task = told.state, told.event, told.task
    took = f" in {duration_text(max(0.0, told.at - task.started - task.idle))}" if task.started is not None else ""
    line = f"{told.name} {status_word(event.status)}{took}"
    if task.attempts - task.past > 1:
        line += f", {told.attempt(task.attempts)}"
    if task.inner is not None and event.status == "completed":
        line += f", {end_text(state, task.inner)}"
    silent = event.status == "completed" and event.reason not in ("fresh", "reused")
    why = "" if silent else told.cut(labelled(state, event.detail or event.reason))
    return event.status, f"{line}: {why}" if why else line


def _opened(told: Told) -> tuple[str, str]:
    attempt = told.attempt(told.event.attempt) if told.event.number <= 1 else ""
    text = f"{told.name} {opened_text(told.state, told.number, told.event)}"
    return "running", text + (f" ({attempt})" if attempt else "")


def _closing(told: Told) -> tuple[str, str]:
    running = "running tasks may finish" if told.event.reason == "budget" else "stopping running tasks"
    return "cancelled", f"{told.name} stops ({told.event.reason}): {running}"


def _reset(told: Told) -> tuple[str, str]:
    event, state = told.event, told.state
    names = ", ".join(label(state, state.index[task]) for task in event.tasks[:4])
    names += f" and {len(event.tasks) - 4} more" if len(event.tasks) > 4 else ""
    cause = f", sent back by {event.cause}" if event.cause else f", by {event.by}" if event.by else ""
    comment = f": {told.cut(event.comment)}" if event.comment else ""
    return "retrying", f"{names} re-run ({event.reason}{cause}{comment})"


def _retry(told: Told) -> tuple[str, str]:
    outcome = told.task.outcome
    message = told.cut(outcome.message) if outcome else ""
    attempt = told.attempt(told.event.attempt, asked_retry(outcome).attempts)
    why = told.event.failure + (f": {message}" if message else "")
    return "retrying", f"{told.name} failed, {attempt}, next in {told.wait} ({why})"


def _escalated(told: Told) -> tuple[str, str]:
    asked = " or ".join([*(f"the role {role}" for role in told.event.roles), *told.event.people]) or "anybody"
    return "blocked", f"{told.name} was not decided in time; it now asks {told.cut(asked)}"


def _vote(told: Told) -> tuple[str, str]:
    event = told.event
    verdict, status = ("approves", "completed") if event.verdict == "approve" else ("rejects", "failed")
    chosen = f" with `{event.choice}`" if event.choice else ""
    return status, told.cut(f"{event.by} {verdict} {told.name}{chosen}" + (f": {event.reason}" if event.reason else ""))


def _watched(told: Told) -> tuple[str, str]:
    ask = ""
    if told.event.do == "ask":
        command = watchdog_command(told.terminal.program, told.state, told.event.task)
        ask = f": let it continue, or end it with `{command}`"
    return "running", f"{told.name} still runs after {duration_text(told.event.after)}{ask}"


def _checkpoint(told: Told) -> tuple[str, str]:
    """Only what a checkpoint lacks is told."""
    event = told.event
    name = f"{told.name}#{event.round}" if event.round else told.name
    return ("in_doubt", warning(name, bool(event.files), event.problem)) if event.problem else ("", "")


def _parked(told: Told) -> tuple[str, str]:
    state = told.state
    names = [label(state, state.index[task]) for task in told.event.waiting or waiting(state)]
    return "paused", f"paused ({told.event.reason})" + (f", waits for {listed(names)}" if names else "")


def _rolling_back(told: Told) -> tuple[str, str]:
    within = f" {told.event.within}" if told.event.within else ""
    return "rolled_back", f"rolling back{within}: {plural(len(told.event.owed), 'step')} to undo"


def _undoing(told: Told) -> tuple[str, str]:
    again = " again, since its result was not recorded" if told.event.reissue else ""
    return "rolled_back", f"{'restoring files of' if told.event.kind == 'files' else 'undoing'} {told.name}{again}"


def _undo_settled(told: Told) -> tuple[str, str]:
    results = {"undone": ("rolled_back", "undone"), "failed": ("failed", "could not be undone")}
    status, text = results.get(told.event.status, ("skipped", "left as it is"))
    return status, f"{told.name} {text}" + (f": {told.cut(told.event.detail)}" if told.event.detail else "")


_LINES: dict[type, Callable[[Told], tuple[str, str]]] = {
    AttemptStarted: _started,
    TaskSettled: _settled,
    FrameOpened: _opened,
    FrameClosing: _closing,
    TasksReset: _reset,
    RetryScheduled: _retry,
    GateOpened: lambda told: ("blocked", f"{told.name} asks: {told.cut(told.event.ask)}"),
    GateReopened: lambda told: (
        "blocked",
        f"{told.name} asks again: {told.cut(', '.join(told.event.changed))} changed",
    ),
    GateEscalated: _escalated,
    GateVoted: _vote,
    StopRequested: lambda told: (
        "",
        told.cut(stopping_text(told.event.reason, told.event.by, told.event.comment)),
    ),
    BudgetWarned: lambda told: ("", warning_text(told.event)),
    BudgetExtended: lambda told: ("", extension_text(told.event)),
    CheckpointTaken: _checkpoint,
    Warned: _watched,
    AttemptStopping: lambda told: ("cancelled", f"stopping {told.name}: {labelled(told.state, told.event.detail)}"),
    RunParked: _parked,
    TaskDelayed: lambda told: (
        "blocked",
        f"{told.name} waits {told.wait}: {labelled(told.state, told.event.detail)}",
    ),
    RollbackStarted: _rolling_back,
    UndoStarted: _undoing,
    UndoScheduled: lambda told: (
        "retrying",
        f"undoing {told.name} failed ({told.event.failure}), next attempt in {told.wait}",
    ),
    UndoSettled: _undo_settled,
}
"""Event → the status whose sign stands before the line, and its text; both may be empty."""
