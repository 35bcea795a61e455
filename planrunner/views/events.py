"""What an event tells people: one row for each kind, from which the terminal, the page and the postmortem read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from planrunner.escapes import harmless
from planrunner.later import Later
from planrunner.machine import events
from planrunner.machine.events import Entry
from planrunner.machine.names import label, labelled
from planrunner.machine.state import State, TaskState
from planrunner.machine.statuses import SETTLED
from planrunner.plan.expressions.quantities import duration_text
from planrunner.records import Struct
from planrunner.statuses import status_verb, status_word
from planrunner.views.runs import run_words
from planrunner.views.status import attempt_text, counts_text, listed, waiting
from planrunner.views.terminal import Terminal, foreign, plural

if TYPE_CHECKING:
    from planrunner.machine.gates import asking
    from planrunner.machine.questions import who_may
    from planrunner.machine.verdicts import asked_retry
    from planrunner.views.budget import extension_text, warning_text
    from planrunner.views.checkpoint import warning
    from planrunner.views.containers import call_text, end_text, is_of_calls, opened_text
    from planrunner.views.gates import watchdog_command
else:
    asking = Later("planrunner.machine.gates:asking")
    who_may = Later("planrunner.machine.questions:who_may")
    asked_retry = Later("planrunner.machine.verdicts:asked_retry")
    extension_text = Later("planrunner.views.budget:extension_text")
    warning_text = Later("planrunner.views.budget:warning_text")
    warning = Later("planrunner.views.checkpoint:warning")
    call_text = Later("planrunner.views.containers:call_text")
    end_text = Later("planrunner.views.containers:end_text")
    is_of_calls = Later("planrunner.views.containers:is_of_calls")
    opened_text = Later("planrunner.views.containers:opened_text")
    watchdog_command = Later("planrunner.views.gates:watchdog_command")


NAMED = 4
"""Tasks that are listed by name."""


class Telling(Struct):
    """An event that is told, with the state of its run, which may be ahead of it; ``at`` is seconds since 1970, and
    ``duration`` how durations are written. Without a ``terminal`` it is told on a page."""

    state: State
    event: Any
    at: float
    duration: Callable[[float], str] = duration_text
    terminal: Terminal | None = None

    @property
    def number(self) -> int:
        return self.state.index[self.event.task]

    @property
    def task(self) -> TaskState:
        return self.state.tasks[self.number]

    @property
    def name(self) -> str:
        return self.named(self.event.task)

    @property
    def wait(self) -> str:
        return self.duration(max(0.0, self.event.due - self.at))

    @property
    def by(self) -> str:
        return f" by {self.event.by}" if self.event.by else ""

    def named(self, path: str) -> str:
        """A task as people call it: items of a matrix by their values."""
        number = self.state.index.get(path)
        return path if number is None else label(self.state, number)

    def listed(self, paths: tuple[str, ...]) -> str:
        return listed([self.named(path) for path in paths], NAMED)

    def attempt(self, asked: int = 1, around: str = " ({})") -> str:
        """``attempt 2 of 3`` in its place; nothing where there is only one."""
        number, attempt = self.state.index.get(self.event.task), self.event.attempt
        if number is None or attempt <= self.state.tasks[number].past:
            return ""  # a revision or a reset has come since
        text = attempt_text(self.state.specs[number], attempt, self.state.tasks[number].past, asked)
        return around.format(text) if text else ""

    def cut(self, text: str) -> str:
        """Text of a task or a person; a page cuts its sentences as a whole."""
        return text if self.terminal is None else foreign(self.terminal, text)

    def labelled(self, text: str) -> str:
        """The same with tasks as people call them; a page does that with its sentences as a whole."""
        return text if self.terminal is None else labelled(self.state, text)


Text = Callable[[Telling], str]


class Row(Struct):
    """How a kind of event is told: the ``text`` of a page, and the ``tone`` of its tick there (empty, ``bad``,
    ``wait``, ``gate``, ``undone`` or ``ok``); the status whose ``sign`` stands before its line at a terminal, None
    where it has none there; and the ``line`` itself, where that says more or less. An empty text says nothing."""

    text: Text
    tone: str | Text = ""
    sign: str | Text | None = None
    line: Text | None = None


def line_of(terminal: Terminal, state: State, entry: Entry) -> str:
    """The line that tells of an event, without its time; empty where nothing is shown."""
    row = ROWS.get(type(entry.event))
    if row is None or row.sign is None:
        return ""
    told = Telling(state, entry.event, entry.at, terminal=terminal)
    text = (row.line or row.text)(told)
    if not text:
        return ""
    sign = row.sign if isinstance(row.sign, str) else row.sign(told)
    return f"{terminal.sign(sign)} {harmless(text)}" if sign else harmless(text)


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
_UNRECORDED = " again, since its result was not recorded"


def _then(text: str) -> str:
    """What follows a colon, where there is anything."""
    return f": {text}" if text else ""


def _started(told: Telling) -> str:
    return f"{told.name} started{_UNRECORDED if told.event.reissue else ''}{told.attempt()}"


def _started_line(told: Telling) -> str:
    if told.number in told.state.containers:
        return ""  # what it opens follows, and says more
    return _started(told) + _then(call_text(told.state, told.number))


def _attempt_ended(told: Telling) -> str:
    outcome = told.event.outcome
    if told.state.index.get(told.event.task) in told.state.containers:
        return ""  # how it was settled says the same
    if not outcome.failure:
        return f"{told.name} finished in {told.duration(outcome.duration)}"
    why = outcome.message or outcome.failure
    if outcome.failure in ("cancelled", "interrupted"):  # by people, not by a fault of its own
        return f"{told.name} was {why if why.startswith('stopped') else f'stopped: {why}'}{told.attempt()}"
    return f"{told.name} failed{told.attempt()}: {why}"


def _attempt_tone(told: Telling) -> str:
    return "" if told.event.outcome.failure in ("", "cancelled", "interrupted") else "bad"


def _retry_line(told: Telling) -> str:
    outcome = told.task.outcome
    attempt = told.attempt(asked_retry(outcome).attempts, "{}")
    why = told.event.failure + _then(told.cut(outcome.message) if outcome else "")
    return f"{told.name} failed, {attempt}, next in {told.wait} ({why})"


def _settled(told: Telling) -> str:
    event = told.event
    if event.status == "completed":
        how = {"reused": "kept its earlier result", "fresh": "was done already"}.get(event.reason, "completed")
        return f"{told.name} {how}"
    return f"{told.name} {status_verb(event.status)}{_then(event.detail or event.reason.replace('_', ' '))}"


def _settled_line(told: Telling) -> str:
    state, event, task = told.state, told.event, told.task
    if event.status == "completed" and is_of_calls(state, told.number):
        return ""  # its calls have lines of their own
    timed = task.started is not None and event.status != "in_doubt"  # how long an attempt took is not known either
    took = f" in {duration_text(max(0.0, told.at - (task.started or 0.0) - task.idle))}" if timed else ""
    line = f"{told.name} {status_word(event.status)}{took}"
    if task.attempts - task.past > 1:
        line += f", {attempt_text(state.specs[told.number], task.attempts, task.past)}"
    if task.inner is not None and event.status == "completed":
        line += f", {end_text(state, task.inner)}"
    silent = event.status == "completed" and event.reason not in ("fresh", "reused")
    return line + _then("" if silent else told.cut(told.labelled(event.detail or event.reason)))


def _opened(told: Telling) -> str:
    return f"{told.name} {opened_text(told.state, told.number, told.event)}"


def _opened_line(told: Telling) -> str:
    if is_of_calls(told.state, told.number):
        return ""
    return _opened(told) + (told.attempt() if told.event.number <= 1 else "")


def _closing(told: Telling) -> str:
    running = "running tasks may finish" if told.event.reason == "budget" else "stopping running tasks"
    return f"{told.name} stops ({told.event.reason}): {running}"


def _reset(told: Telling) -> str:
    event = told.event
    cause = f", sent back by {event.cause}" if event.cause else f", by {event.by}" if event.by else ""
    return f"{told.listed(event.tasks)} re-run ({event.reason}{cause}{_then(told.cut(event.comment))})"


def _vote(told: Telling) -> str:
    event = told.event
    verb, choice = "approves" if event.verdict == "approve" else "rejects", f" with `{event.choice}`"
    return told.cut(f"{event.by} {verb} {told.name}{choice if event.choice else ''}{_then(event.reason)}")


def _gate_decided(told: Telling) -> str:
    event = told.event
    words = {"passed": "passed its checks", "failed": "failed its checks", "expired": "expired without a decision"}
    by = f" by {', '.join(event.by)}" if event.by else ""
    return f"{told.name} {words.get(event.decision, f'was {event.decision}')}{by}{_then(event.reason)}"


def _watched_line(told: Telling) -> str:
    ask = ""
    if told.event.do == "ask" and told.terminal is not None:
        command = watchdog_command(told.terminal.program, told.state, told.event.task)
        ask = f": let it continue, or end it with `{command}`"
    return f"{told.name} still runs after {duration_text(told.event.after)}{ask}"


def _checkpoint(told: Telling) -> str:
    return f"checkpoint after {told.name}: {told.event.problem or plural(told.event.held, 'file')}"


def _checkpoint_line(told: Telling) -> str:
    """Only what a checkpoint lacks is shown."""
    event = told.event
    name = f"{told.name}#{event.round}" if event.round else told.name
    return warning(name, bool(event.files), event.problem) if event.problem else ""


def _stop(told: Telling) -> str:
    event = told.event
    words = {
        "": "took the pause back",
        "pause": "asked to pause",
        "cancelled": "asked to cancel",
        "killed": "asked to kill what runs",
        "revision": "proposes another plan",
    }
    what = (words.get(event.reason) if event.by else None) or f"is stopped ({event.reason})"
    return f"{event.by or 'the run'} {what}{_then(event.comment)}"


def _stop_line(told: Telling) -> str:
    return told.cut(stopping_text(told.event.reason, told.event.by, told.event.comment))


def _parked(told: Telling) -> str:
    names = told.event.waiting or (() if told.terminal is None else waiting(told.state))
    return f"paused ({told.event.reason})" + (
        f", waits for {listed([told.named(task) for task in names])}" if names else ""
    )


def _run_ended(told: Telling) -> str:
    status, why = told.event.status, told.event.detail or told.event.reason.replace("_", " ")
    stands = run_words(status, told.event.reason if told.event.reason == "rolled_back" else "")
    return f"run {stands}{_then(why if status != 'completed' and why not in (status, stands) else '')}"


def _resumed(told: Telling) -> str:
    idle = f" after {told.duration(told.event.idle)}" if told.event.idle else ""
    return f"run resumed{told.by}{idle}{', with other settings' if told.event.settings else ''}"


def _rolling_back(told: Telling) -> str:
    within = f" {told.event.within}" if told.event.within else ""
    return f"rolling back{within}: {plural(len(told.event.owed), 'step')} to undo"


def _undoing(told: Telling) -> str:
    what = "restoring files of" if told.event.kind == "files" else "undoing"
    return f"{what} {told.name}{_UNRECORDED if told.event.reissue else ''}"


_UNDONE = {"undone": ("rolled_back", "undone"), "failed": ("failed", "could not be undone")}
_KEPT = ("skipped", "left as it is")


def _undo_settled(told: Telling) -> str:
    return f"{told.name} {_UNDONE.get(told.event.status, _KEPT)[1]}{_then(told.cut(told.event.detail))}"


def _rolled_back(told: Telling) -> str:
    within = f" of {told.event.within}" if told.event.within else ""
    return f"rollback{within} {'complete' if told.event.status == 'rolled_back' else 'incomplete'}"


def _of_status(tones: dict[str, str], other: str = "") -> Text:
    return lambda told: tones.get(told.event.status, other)


ROWS: dict[type, Row] = {
    events.RunStarted: Row(lambda told: "run started"),
    events.RunResumed: Row(_resumed),
    events.LeftAlone: Row(lambda told: "run continues unattended"),
    events.RunForked: Row(lambda told: f"forked from {told.event.parent} after event {told.event.seq}", "gate"),
    events.RunRevised: Row(
        lambda told: f"plan revised to revision {told.event.number}{told.by}{_then(told.event.reason)}", "gate"
    ),
    events.RevisionDeclined: Row(lambda told: f"{told.name} proposal of another plan declined", "bad"),
    events.RunReopened: Row(lambda told: f"run reopened ({told.event.reason}){told.by}"),
    events.RunParked: Row(
        lambda told: f"run {_parked(told)}",
        lambda told: "gate" if told.event.reason == "waiting" else "wait",
        "paused",
        _parked,
    ),
    events.RunEnded: Row(_run_ended, _of_status({"completed": "ok", "failed": "bad"})),
    events.StopRequested: Row(_stop, "wait", "", _stop_line),
    events.AttemptStarted: Row(_started, sign="running", line=_started_line),
    events.AttemptEnded: Row(_attempt_ended, _attempt_tone),
    events.AttemptStopping: Row(
        lambda told: f"stopping {told.name}: {told.labelled(told.event.detail or told.event.reason)}",
        "wait",
        "cancelled",
    ),
    events.RetryScheduled: Row(
        lambda told: f"{told.name} waits {told.wait} before its next attempt", "wait", "retrying", _retry_line
    ),
    events.TaskQueued: Row(lambda told: f"{told.name} waits for a slot"),
    events.TaskDelayed: Row(
        lambda told: f"{told.name} waits {told.wait}: {told.labelled(told.event.detail or 'delay')}", "wait", "blocked"
    ),
    events.TaskSettled: Row(
        _settled,
        _of_status({"failed": "bad", "blocked": "gate", "in_doubt": "wait"}),
        lambda told: str(told.event.status),
        _settled_line,
    ),
    events.FailureResolved: Row(
        lambda told: f"{told.event.recovered_by} stands in for {told.name}" if told.event.recovered_by else ""
    ),
    events.DoubtSettled: Row(lambda told: f"unknown end of {told.name}: {told.event.resolution}{told.by}", "wait"),
    events.FrameOpened: Row(_opened, sign="running", line=_opened_line),
    events.FrameClosing: Row(_closing, "wait", "cancelled"),
    events.TasksReset: Row(_reset, "gate", "retrying"),
    events.GateOpened: Row(
        lambda told: f"{told.name} asks: {told.cut(asking(told.event.ask, told.event.unchosen))}", "gate", "blocked"
    ),
    events.GateReopened: Row(
        lambda told: f"{told.name} asks again: {told.cut(', '.join(told.event.changed))} changed", "gate", "blocked"
    ),
    events.GateVoted: Row(_vote, "gate", lambda told: "completed" if told.event.verdict == "approve" else "failed"),
    events.GateEscalated: Row(
        lambda told: f"{told.name} was not decided in time; it now asks {told.cut(who_may(told.event))}",
        "gate",
        "blocked",
    ),
    events.GateDecided: Row(
        _gate_decided,
        lambda told: {"rejected": "gate", "approved": "gate", "failed": "bad", "expired": "bad"}.get(
            told.event.decision, ""
        ),
    ),
    events.BudgetWarned: Row(lambda told: warning_text(told.event), "wait", ""),
    events.BudgetExtended: Row(lambda told: extension_text(told.event), "gate", ""),
    events.BudgetRefused: Row(lambda told: f"no more {told.event.what} for {told.event.scope or 'the plan'}", "bad"),
    events.PolicyChanged: Row(lambda told: "the policy of the operator changed", "wait"),
    events.Warned: Row(
        lambda told: f"{told.name} still runs after {told.duration(told.event.after)}", "wait", "running", _watched_line
    ),
    events.CheckpointTaken: Row(
        _checkpoint, lambda told: "bad" if told.event.problem else "", "in_doubt", _checkpoint_line
    ),
    events.RollbackStarted: Row(lambda told: f"{_rolling_back(told)}{told.by}", "undone", "rolled_back", _rolling_back),
    events.UndoStarted: Row(_undoing, "undone", "rolled_back"),
    events.UndoScheduled: Row(
        lambda told: f"undoing {told.name} failed ({told.event.failure}), next attempt in {told.wait}",
        "wait",
        "retrying",
    ),
    events.UndoSettled: Row(
        _undo_settled,
        _of_status({"failed": "bad"}, "undone"),
        lambda told: _UNDONE.get(told.event.status, _KEPT)[0],
    ),
    events.RollbackEnded: Row(_rolled_back, _of_status({"rolled_back": "undone"}, "bad")),
}
"""Every kind of event that people are told of; of the others only the machine knows."""
