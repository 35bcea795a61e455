"""The lines of plain progress for what few runs meet: retries, gates, stops, budgets, undoing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.machine.events import (
    AttemptStopping,
    BudgetExtended,
    BudgetWarned,
    CheckpointTaken,
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
    TasksReset,
    UndoScheduled,
    UndoSettled,
    UndoStarted,
    Warned,
)
from planrunner.machine.labels import label, labelled
from planrunner.machine.state import State
from planrunner.machine.statuses import SETTLED
from planrunner.views.budget import extension_text, warning_text
from planrunner.views.checkpoint import warning
from planrunner.views.ending import ORDER
from planrunner.views.gates import watchdog_command
from planrunner.views.nesting import opened_text
from planrunner.views.standing import attempt_text, listed, waiting
from planrunner.views.symbols import duration_text, plural
from planrunner.views.terminal import Terminal, foreign


def _name(state: State, event: Any) -> str:
    return label(state, state.index[event.task])


def _retry(terminal: Terminal, state: State, event: RetryScheduled, at: float) -> str:
    number = state.index[event.task]
    found = state.tasks[number]
    outcome = found.outcome
    message = foreign(terminal, outcome.message) if outcome else ""
    why = event.failure + (f": {message}" if message else "")
    attempt = attempt_text(state.specs[number], event.attempt, found.past)
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
    return f"{terminal.sign('retrying')} {names} begin anew ({event.reason}{cause}{said})"


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
    return f"{terminal.sign('paused')} parked ({event.reason})" + (f", waits for {listed(names)}" if names else "")


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
