"""What an event says to people, in one clause, with the tone of its tick on the scrubber."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.escapes import harmless
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    AttemptStopping,
    BudgetExtended,
    BudgetRefused,
    BudgetWarned,
    CheckpointTaken,
    DoubtSettled,
    Event,
    FailureResolved,
    FrameClosing,
    FrameOpened,
    GateDecided,
    GateEscalated,
    GateOpened,
    GateReopened,
    GateVoted,
    LeftAlone,
    PolicyChanged,
    RetryScheduled,
    RevisionDeclined,
    RollbackEnded,
    RollbackStarted,
    RunEnded,
    RunForked,
    RunParked,
    RunReopened,
    RunResumed,
    RunRevised,
    RunStarted,
    StopRequested,
    TaskDelayed,
    TaskQueued,
    TaskSettled,
    TasksReset,
    UndoScheduled,
    UndoSettled,
    UndoStarted,
    Warned,
)
from planrunner.machine.gates import asking
from planrunner.machine.names import label, labelled
from planrunner.machine.state import State
from planrunner.machine.statuses import said
from planrunner.views.budget import extension_text, warning_text
from planrunner.views.containers import opened_text
from planrunner.views.page.figures import count, duration
from planrunner.views.page.signs import task_sign
from planrunner.views.status import listed
from planrunner.views.terminal import cut

NAMED = 4
"""Tasks that a sentence lists by name."""
LONGEST = 160
"""Characters of a sentence."""

Said = tuple[str, str]
"""The sentence, and a tone: empty, ``bad``, ``wait``, ``gate``, ``undone`` or ``ok``."""


def sentence(state: State, event: Event, at: float) -> Said:
    """What an event at that time says; both empty for one that only the machine needs. The state may be ahead of it."""
    tell = _TELLERS.get(type(event))
    if tell is None:
        return "", ""
    text, tone = tell(state, event, at)
    return cut(harmless(labelled(state, text)), LONGEST), tone


def name_of(state: State, path: str) -> str:
    """A task as people call it: items of a matrix by their values."""
    number = state.index.get(path)
    return path if number is None else label(state, number)


def _again(state: State, task: str, attempt: int) -> str:
    number = state.index.get(task)
    past = state.tasks[number].past if number is not None else 0
    return f", attempt {attempt - past}" if attempt - past > 1 else ""


def _attempt_started(state: State, event: AttemptStarted, at: float) -> Said:
    again = " again: its result was not recorded" if event.reissue else ""
    return f"{name_of(state, event.task)} started{_again(state, event.task, event.attempt)}{again}", ""


def _attempt_ended(state: State, event: AttemptEnded, at: float) -> Said:
    name, outcome = name_of(state, event.task), event.outcome
    if state.index.get(event.task) in state.containers:
        return "", ""  # how it was settled says the same
    if not outcome.failure:
        return f"{name} finished in {duration(outcome.duration)}", ""
    attempt = _again(state, event.task, event.attempt).replace(",", "")
    why = outcome.message or outcome.failure
    if outcome.failure in ("cancelled", "interrupted"):  # by people, not by a fault of its own
        return f"{name}{attempt} was {why if why.startswith('stopped') else f'stopped: {why}'}", ""
    return f"{name}{attempt} failed: {why}", "bad"


def _retry(state: State, event: RetryScheduled, at: float) -> Said:
    return f"{name_of(state, event.task)} waits {duration(max(0.0, event.due - at))} before its next attempt", "wait"


def _settled(state: State, event: TaskSettled, at: float) -> Said:
    name = name_of(state, event.task)
    if event.status == "completed":
        how = {"reused": "kept its earlier result", "fresh": "was done already"}.get(event.reason, "succeeded")
        return f"{name} {how}", ""
    why = f": {event.detail or event.reason.replace('_', ' ')}" if event.detail or event.reason else ""
    tone = {"bad": "bad", "gate": "gate", "doubt": "wait"}.get(task_sign(event.status).state, "")
    return f"{name} {said(event.status)}{why}", tone


def _opened(state: State, event: FrameOpened, at: float) -> Said:
    return f"{name_of(state, event.task)} {opened_text(state, state.index[event.task], event)}", ""


def _reset(state: State, event: TasksReset, at: float) -> Said:
    cause = f", sent back by {event.cause}" if event.cause else f", by {event.by}" if event.by else ""
    comment = f": {event.comment}" if event.comment else ""
    return (
        f"{listed([name_of(state, path) for path in event.tasks], NAMED)} run again ({event.reason}{cause}){comment}",
        "gate",
    )


def _voted(state: State, event: GateVoted, at: float) -> Said:
    verdict = "approved" if event.verdict == "approve" else "rejected"
    chosen = f" with {event.choice}" if event.choice else ""
    comment = f": {event.reason}" if event.reason else ""
    return f"{event.by} {verdict} {name_of(state, event.task)}{chosen}{comment}", "gate"


def _decided(state: State, event: GateDecided, at: float) -> Said:
    name, tone = name_of(state, event.task), {"rejected": "gate", "approved": "gate"}.get(event.decision, "")
    tone = "bad" if event.decision in ("failed", "expired") else tone
    by = f" by {', '.join(event.by)}" if event.by else ""
    why = f": {event.reason}" if event.reason else ""
    words = {"passed": "passed its checks", "failed": "failed its checks", "expired": "expired without a decision"}
    return f"{name} {words.get(event.decision, f'was {event.decision}')}{by}{why}", tone


def _stop(state: State, event: StopRequested, at: float) -> Said:
    words = {"pause": "asked to pause", "cancel": "asked to cancel", "rollback": "asked to roll back"}
    what = words.get(event.reason, f"is stopped ({event.reason})")
    comment = f": {event.comment}" if event.comment else ""
    return f"{event.by or 'the run'} {what}{comment}", "wait"


def _parked(state: State, event: RunParked, at: float) -> Said:
    if event.reason == "waiting":
        names = listed([name_of(state, path) for path in event.waiting], NAMED)
        return f"run paused: it waits for people{f' at {names}' if names else ''}", "gate"
    return f"run paused ({event.reason})", "wait"


def _ended(state: State, event: RunEnded, at: float) -> Said:
    tone = {"completed": "ok", "failed": "bad"}.get(event.status, "")
    why = event.detail or event.reason.replace("_", " ")
    told = why and why != event.status and event.status != "completed"
    return f"run {event.status}" + (f": {why}" if told else ""), tone


def _resumed(state: State, event: RunResumed, at: float) -> Said:
    by = f" by {event.by}" if event.by else ""
    away = f" after {duration(event.idle)}" if event.idle else ""
    return f"run resumed{by}{away}{', with other settings' if event.settings else ''}", ""


def _revised(state: State, event: RunRevised, at: float) -> Said:
    why = f": {event.reason}" if event.reason else ""
    return f"plan revised to revision {event.number}{f' by {event.by}' if event.by else ''}{why}", "gate"


def _undo_settled(state: State, event: UndoSettled, at: float) -> Said:
    name = name_of(state, event.task)
    if event.status == "failed":
        return f"{name} could not be undone{f': {event.detail}' if event.detail else ''}", "bad"
    return f"{name} {'undone' if event.status == 'undone' else 'left as it is'}", "undone"


def _rolled_back(state: State, event: RollbackEnded, at: float) -> Said:
    if event.status == "rolled_back":
        return f"rollback{f' of {event.within}' if event.within else ''} complete", "undone"
    return f"rollback{f' of {event.within}' if event.within else ''} incomplete", "bad"


def _of_task(words: str, tone: str = "") -> Callable[[State, Any, float], Said]:
    return lambda state, event, at: (f"{name_of(state, event.task)} {words}", tone)


_TELLERS: dict[type, Callable[[State, Any, float], Said]] = {
    RunStarted: lambda state, event, at: ("run started", ""),
    RunResumed: _resumed,
    LeftAlone: lambda state, event, at: ("run continues unattended", ""),
    RunForked: lambda state, event, at: (f"forked from {event.parent} after event {event.seq}", "gate"),
    RunRevised: _revised,
    RevisionDeclined: _of_task("proposal of another plan declined", "bad"),
    RunReopened: lambda state, event, at: (f"run reopened ({event.reason}){f' by {event.by}' if event.by else ''}", ""),
    RunParked: _parked,
    RunEnded: _ended,
    StopRequested: _stop,
    AttemptStarted: _attempt_started,
    AttemptEnded: _attempt_ended,
    AttemptStopping: lambda state, event, at: (
        f"stopping {name_of(state, event.task)}: {event.detail or event.reason}",
        "wait",
    ),
    RetryScheduled: _retry,
    TaskQueued: _of_task("waits for a slot"),
    TaskDelayed: lambda state, event, at: (
        f"{name_of(state, event.task)} waits {duration(max(0.0, event.due - at))}: {event.detail or 'delay'}",
        "wait",
    ),
    TaskSettled: _settled,
    FailureResolved: lambda state, event, at: (
        f"{event.recovered_by} stands in for {name_of(state, event.task)}" if event.recovered_by else "",
        "",
    ),
    DoubtSettled: lambda state, event, at: (
        f"unknown end of {name_of(state, event.task)}: {event.resolution}{f' by {event.by}' if event.by else ''}",
        "wait",
    ),
    FrameOpened: _opened,
    FrameClosing: lambda state, event, at: (f"{name_of(state, event.task)} stops ({event.reason})", "wait"),
    TasksReset: _reset,
    GateOpened: lambda state, event, at: (
        f"{name_of(state, event.task)} asks: {asking(event.ask, event.unchosen)}",
        "gate",
    ),
    GateReopened: lambda state, event, at: (
        f"{name_of(state, event.task)} asks again: {', '.join(event.changed)} changed",
        "gate",
    ),
    GateVoted: _voted,
    GateEscalated: _of_task("was not decided in time and now asks others", "gate"),
    GateDecided: _decided,
    BudgetWarned: lambda state, event, at: (warning_text(event), "wait"),
    BudgetExtended: lambda state, event, at: (extension_text(event), "gate"),
    BudgetRefused: lambda state, event, at: (f"no more {event.what} for {event.scope or 'the plan'}", "bad"),
    PolicyChanged: lambda state, event, at: ("the policy of the operator changed", "wait"),
    Warned: lambda state, event, at: (
        f"{name_of(state, event.task)} still runs after {duration(event.after)}",
        "wait",
    ),
    CheckpointTaken: lambda state, event, at: (
        f"checkpoint after {name_of(state, event.task)}: {event.problem or count(event.held, 'file')}",
        "bad" if event.problem else "",
    ),
    RollbackStarted: lambda state, event, at: (
        f"rollback started: {count(len(event.owed), 'step')}{f', by {event.by}' if event.by else ''}",
        "undone",
    ),
    UndoStarted: _of_task("is being undone", "undone"),
    UndoScheduled: _of_task("could not be undone yet; it is tried again", "wait"),
    UndoSettled: _undo_settled,
    RollbackEnded: _rolled_back,
}

TOLD = frozenset(_TELLERS)
"""The events that may say something."""
