"""Facts and intents: what the journal keeps for ever. Past tense; every field is plain JSON data.

An event is stored as (seq, at, kind, version, body); ``at`` is seconds since 1970. Kinds and fields change only with a
new version and an upcaster in ``journal/codec.py``.
"""

from __future__ import annotations

from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Literal, Union

    Json = Any
    TaskStatus = Literal[
        "pending",
        "queued",
        "running",
        "blocked",
        "completed",
        "failed",
        "skipped",
        "omitted",
        "cancelled",
        "abandoned",
        "in_doubt",
        "rolled_back",
    ]
    RunStatus = Literal["pending", "running", "paused", "blocked", "completed", "failed", "cancelled"]


class Outcome(NamedTuple):
    """How an attempt ended. ``failure`` is a failure class (transient, logic, policy, timeout, interrupted or a
    plugin's
    own), empty when it went well. ``duration`` is seconds; ``stdout`` and ``stderr`` are bounded tails of the text.
    ``usage`` is what it spent (cost in dollars, tokens, calls); what is not told counts as all that was set aside."""

    failure: str = ""
    message: str = ""
    outputs: dict[str, Json] = {}
    exit_code: int | None = None
    duration: float = 0.0
    stdout: str = ""
    stderr: str = ""
    artifacts: tuple[dict[str, Json], ...] = ()
    usage: dict[str, Json] = {}


class RunStarted(NamedTuple):
    """The run exists. ``selected`` names the tasks of ``--only`` or ``--until`` (None: all); ``traits`` gives for each
    capability the plan uses its effect class, whether it is instant and whether it has a probe; ``environment`` holds
    engine and schema versions, plugin versions, host, python and platform. ``boot`` ties the time of this event to a
    clock that nobody can set: ``id`` of the boot and ``uptime`` in seconds. An
    ``attended`` run has somebody there who answers gates: it waits for them and does not park."""

    plan_digest: str
    params: dict[str, Json]
    seed: int
    selected: tuple[str, ...] | None = None
    max_parallel: int | None = None
    traits: dict[str, Json] = {}
    environment: dict[str, Json] = {}
    boot: dict[str, Json] = {}
    attended: bool = False


class RunResumed(NamedTuple):
    """A runner took the run over; attempts without an end are from now on uncertain. ``boot`` is as in RunStarted;
    ``idle`` are the seconds since the event before, in which nobody acted on the run."""

    epoch: int
    by: str = ""
    boot: dict[str, Json] = {}
    idle: float = 0.0
    attended: bool = False


class RunForked(NamedTuple):
    """What came before is a copy of the first ``seq`` entries of the run ``parent``; from here on it is the run
    ``run``, in which attempts that were under way never began. ``params`` are those that are set anew, ``idle`` the
    seconds since the entry before."""

    run: str
    parent: str
    seq: int
    params: dict[str, Json] = {}
    idle: float = 0.0
    by: str = ""


class LeftAlone(NamedTuple):
    """Nobody is there to ask until the run is taken up again: what is in doubt and can be undone is undone."""


class TaskQueued(NamedTuple):
    """Ready, but no slot is free."""

    task: str


class TaskDelayed(NamedTuple):
    """Ready, but held back by an open circuit breaker; looked at again at ``due`` (seconds since 1970). ``breaker`` is
    the pattern of what it watches."""

    task: str
    due: float
    breaker: str
    detail: str = ""


class FactsRequested(NamedTuple):
    """The preconditions of a task read facts of the world (``memory.has_space``, ``network.online`` …)."""

    task: str
    names: tuple[str, ...]


class FactsObserved(NamedTuple):
    task: str
    facts: dict[str, Json]


class FreshnessAsked(NamedTuple):
    """Is the task done already? ``call`` is the digest of what it would be called with."""

    task: str
    call: str = ""


class FreshnessSeen(NamedTuple):
    """What was seen of a task that may be done already. ``inputs`` is the digest of its input files and its call as
    they are now; with ``same`` they are those of the time when run ``since`` did it, and its outputs exist; ``why``
    tells what is not. ``outputs`` and ``artifacts`` are what it gave then."""

    task: str
    same: bool = False
    inputs: str = ""
    since: str = ""
    outputs: dict[str, Json] = {}
    artifacts: tuple[dict[str, Json], ...] = ()
    why: str = ""


class AttemptStarted(NamedTuple):
    """The intent to act, durable before the act. ``key`` is the idempotency key ``run:task:attempt``, kept when the
    same
    attempt is issued again after a crash (``reissue`` counts those); ``inputs`` is the digest of the rendered call.
    ``reserved`` is what it may spend at most (cost in dollars, tokens, calls); ``degraded`` is an attempt that does
    what the task declares for when a budget runs short. With ``undo`` what
    undoes the task is owed from this moment, however the attempt ends."""

    task: str
    attempt: int
    key: str
    inputs: str = ""
    effect: str = "unsafe"
    reissue: int = 0
    reserved: dict[str, Json] = {}
    degraded: bool = False
    undo: bool = False


class BackupAsked(NamedTuple):
    """The files that fit ``patterns``, relative to the directory of the run, are saved before a task starts; once for
    each ``visit``."""

    task: str
    visit: int
    patterns: tuple[str, ...]


class BackupMade(NamedTuple):
    """What was saved, to be put back when the task is rolled back. Each of ``files`` has a ``path`` relative to the
    directory of the run and ``mode``, with ``sha256`` and ``size`` (kept as an artifact) or ``folder``; or ``link``:
    where it leads. What fits the patterns and is not among them did not exist. With a ``problem`` nothing was saved,
    and the task cannot start."""

    task: str
    visit: int
    patterns: tuple[str, ...]
    files: tuple[dict[str, Json], ...] = ()
    problem: str = ""


class RollbackStarted(NamedTuple):
    """What ``tasks`` did is undone from now on, in this order, one after the other. ``owed`` are their positions in the
    list of what the run owes. ``reason`` is failure, doubt or person; ``strict`` stops at the first that fails.
    ``bare`` are tasks that acted as well and do not say how they are undone."""

    reason: Literal["failure", "doubt", "person"]
    tasks: tuple[str, ...]
    owed: tuple[int, ...]
    strict: bool = False
    by: str = ""
    comment: str = ""
    bare: tuple[str, ...] = ()


class UndoStarted(NamedTuple):
    """The intent to undo a task, durable before the act. ``key`` is ``run:task:undo:attempt``, kept when the same
    attempt is issued again after a crash; ``kind`` is action (what the task's ``rollback`` says) or files."""

    task: str
    attempt: int
    key: str
    owed: int
    kind: Literal["action", "files"] = "action"
    inputs: str = ""
    reissue: int = 0


class UndoEnded(NamedTuple):
    task: str
    attempt: int
    outcome: Outcome


class UndoScheduled(NamedTuple):
    """The failed attempt to undo a task is followed by another one at ``due`` (seconds since 1970)."""

    task: str
    attempt: int
    due: float
    failure: str


class UndoSettled(NamedTuple):
    """What a task did is ``undone``; or that ``failed``; or it was ``left`` as it is."""

    task: str
    owed: int
    status: Literal["undone", "failed", "left"]
    detail: str = ""


class RollbackEnded(NamedTuple):
    """Nothing is undone any more. ``status`` is rolled_back (all of it) or rollback_failed."""

    status: Literal["rolled_back", "rollback_failed"]


class FrameOpened(NamedTuple):
    """A task that holds others begins, or goes into its next round: its tasks exist from now on. ``kind`` is
    ``subplan`` (``values``: parameters), ``round`` (``number`` from 1, ``values``: what is carried) or ``items``
    (``values``: the list of items)."""

    task: str
    attempt: int
    kind: Literal["subplan", "round", "items"]
    number: int = 0
    values: Json = None


class FrameClosing(NamedTuple):
    """Nothing of what a task holds starts any more; what runs is stopped. ``reason`` is timeout, cancelled or
    budget."""

    task: str
    reason: str


class TasksReset(NamedTuple):
    """Tasks begin anew as if they had never run: ``reason`` is rework, retry or rerun, ``cause`` the task that sent
    back, ``comment`` what was said. Those of ``unless_same`` keep their result if they would be called as before."""

    tasks: tuple[str, ...]
    reason: str
    by: str = ""
    cause: str = ""
    comment: str = ""
    unless_same: tuple[str, ...] = ()


class RunReopened(NamedTuple):
    """A run that has ended acts again, for a ``reason``: retry, rerun or rollback."""

    reason: str
    by: str = ""


class ResetPlanned(NamedTuple):
    """Tasks are to begin anew once those among them that run have ended; until then none of them starts."""

    tasks: tuple[str, ...]
    reason: str
    by: str = ""
    cause: str = ""
    comment: str = ""


class AttemptEnded(NamedTuple):
    task: str
    attempt: int
    outcome: Outcome


class RetryScheduled(NamedTuple):
    """The failed attempt is followed by another one at ``due`` (seconds since 1970)."""

    task: str
    attempt: int
    due: float
    failure: str


class TaskSettled(NamedTuple):
    """The task reached a final status, or ``blocked`` and ``in_doubt``, which wait for somebody. ``reason`` is a short
    code, ``detail`` the sentence people read; ``failure`` is the class of a failed one."""

    task: str
    status: TaskStatus
    reason: str = ""
    detail: str = ""
    failure: str = ""


class FailureResolved(NamedTuple):
    """The handlers of a failed task are done: ``recovered_by`` stands in for it, or nobody (empty)."""

    task: str
    recovered_by: str = ""


class DoubtSettled(NamedTuple):
    """What became of an attempt whose end nobody saw: ``retry`` (issue again), ``completed``, ``failed``, or
    ``unknown`` where a probe could not tell; and who said so. ``failure`` is the class of the failure where it is
    known."""

    task: str
    attempt: int
    resolution: Literal["retry", "completed", "failed", "unknown"]
    by: str = ""
    failure: str = ""


class BudgetWarned(NamedTuple):
    """So much of a limit is spent that people want to know (``reason`` threshold), or an attempt of the task ``scope``
    used more (``spent``) than it had set aside (``limit``; ``reason`` overshoot). ``scope`` is a task with everything
    inside it, empty for the plan; cost is in dollars, time in seconds."""

    scope: str
    what: str
    spent: float
    limit: float
    reason: str = "threshold"


class BudgetExtended(NamedTuple):
    """A person added ``amount`` to the limit of a task (empty: the plan) for ``what``: time (seconds), cost (dollars),
    tokens, calls, attempts or iterations."""

    scope: str
    what: str
    amount: float
    by: str = ""
    comment: str = ""


class Warned(NamedTuple):
    """A step of the watchdog of a task: its attempt still runs after ``after`` seconds. ``do`` is warn, or ask:
    somebody should look and decide."""

    task: str
    attempt: int
    after: float
    do: str


class AttemptStopping(NamedTuple):
    """An attempt has to end now and is stopped: ``failure`` is the class it ends with, unless it was done before the
    stop reached it; ``reason`` is timebox, watchdog or request, ``detail`` the sentence people read."""

    task: str
    attempt: int
    failure: str
    reason: str
    detail: str = ""


class GateRequested(NamedTuple):
    """A task waits for a decision. ``stage`` says of what: ``gate`` (the task is one), ``preconditions`` or
    ``criteria`` (those in plain words), ``label:NAME`` (a label demands one before the task starts). ``request`` is
    what is asked with every template filled in: kind, ask, options, form, words, inputs, and under ``looks`` what has
    to be looked at in the world."""

    task: str
    visit: int
    stage: str
    attempt: int = 0
    request: dict[str, Json] = {}


class GateExamined(NamedTuple):
    """What was found of a gate's evidence: for each thing its kind, name, digest, what is shown of it and, where it
    speaks against the gate, the ``problem``. ``policy`` is the digest of the project's policy."""

    task: str
    visit: int
    evidence: tuple[dict[str, Json], ...] = ()
    policy: str = ""


class GateOpened(NamedTuple):
    """People are asked; the task is blocked until they have decided. ``need`` of those with one of ``roles`` or among
    ``people`` (anybody where both are empty) decide. ``shown`` is the digest of everything an approval is for: run,
    task, visit, plan, policy, the question and the evidence. ``expires_at`` is seconds since 1970 on the run's time
    line."""

    task: str
    visit: int
    attempt: int
    stage: str
    kind: str
    ask: str
    shown: str
    options: tuple[dict[str, Json], ...] = ()
    form: tuple[dict[str, Json], ...] = ()
    evidence: tuple[dict[str, Json], ...] = ()
    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    need: int = 1
    not_starter: bool = False
    expires_at: float | None = None


class GateReopened(NamedTuple):
    """What was shown has changed before the decision: votes so far are void, ``shown`` is the digest of what there is
    now."""

    task: str
    visit: int
    request: dict[str, Json]
    evidence: tuple[dict[str, Json], ...]
    policy: str
    shown: str
    changed: tuple[str, ...] = ()


class GateVoted(NamedTuple):
    """One person's word on what ``shown`` stands for. ``user`` is who the system says it was, ``by`` the name they
    gave; ``claimed`` are roles nobody but the voter vouches for."""

    task: str
    visit: int
    verdict: Literal["approve", "reject"]
    by: str
    shown: str
    user: str = ""
    roles: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    reason: str = ""
    choice: str = ""
    fields: dict[str, Json] = {}


class GateEscalated(NamedTuple):
    """Nobody decided in time: from now on others may."""

    task: str
    visit: int
    roles: tuple[str, ...]
    people: tuple[str, ...]
    need: int
    not_starter: bool
    expires_at: float | None


class GateDecided(NamedTuple):
    """``decision`` is passed or failed (by checks), approved, rejected or expired. ``by`` are those whose votes made
    it, ``reason`` is what they said or which check failed; ``outputs`` become those of a task that is a gate."""

    task: str
    visit: int
    decision: Literal["passed", "failed", "approved", "rejected", "expired"]
    by: tuple[str, ...] = ()
    reason: str = ""
    outputs: dict[str, Json] = {}


class StopRequested(NamedTuple):
    """No task starts from now on. ``reason`` is pause (what runs may end), interrupted, terminated or storage (what
    runs is stopped, and the run parks), budget (what runs may end), deadline, cancelled or killed (what is open is
    cancelled, and the run ends; ``finally`` outlives all but killed). ``by`` and ``comment`` tell who asked and why."""

    reason: str
    by: str = ""
    comment: str = ""


class RunParked(NamedTuple):
    """The runner lets go of the run, which can be resumed. ``waiting`` names what it waits for."""

    reason: str
    waiting: tuple[str, ...] = ()


class RunEnded(NamedTuple):
    status: RunStatus
    reason: str = ""
    outputs: dict[str, Json] = {}


if TYPE_CHECKING:
    Event = Union[
        RunStarted,
        RunResumed,
        LeftAlone,
        RunForked,
        TaskQueued,
        TaskDelayed,
        FactsRequested,
        FactsObserved,
        FreshnessAsked,
        FreshnessSeen,
        AttemptStarted,
        BackupAsked,
        BackupMade,
        RollbackStarted,
        UndoStarted,
        UndoEnded,
        UndoScheduled,
        UndoSettled,
        RollbackEnded,
        FrameOpened,
        FrameClosing,
        ResetPlanned,
        TasksReset,
        RunReopened,
        AttemptEnded,
        RetryScheduled,
        TaskSettled,
        FailureResolved,
        DoubtSettled,
        BudgetWarned,
        BudgetExtended,
        Warned,
        AttemptStopping,
        GateRequested,
        GateExamined,
        GateOpened,
        GateReopened,
        GateVoted,
        GateEscalated,
        GateDecided,
        StopRequested,
        RunParked,
        RunEnded,
    ]


EVENTS = (
    RunStarted,
    RunResumed,
    LeftAlone,
    RunForked,
    TaskQueued,
    TaskDelayed,
    FactsRequested,
    FactsObserved,
    FreshnessAsked,
    FreshnessSeen,
    AttemptStarted,
    BackupAsked,
    BackupMade,
    RollbackStarted,
    UndoStarted,
    UndoEnded,
    UndoScheduled,
    UndoSettled,
    RollbackEnded,
    FrameOpened,
    FrameClosing,
    ResetPlanned,
    TasksReset,
    RunReopened,
    AttemptEnded,
    RetryScheduled,
    TaskSettled,
    FailureResolved,
    DoubtSettled,
    BudgetWarned,
    BudgetExtended,
    Warned,
    AttemptStopping,
    GateRequested,
    GateExamined,
    GateOpened,
    GateReopened,
    GateVoted,
    GateEscalated,
    GateDecided,
    StopRequested,
    RunParked,
    RunEnded,
)
"""Every class of ``Event``."""


class Entry(NamedTuple):
    """One row of the journal of a run."""

    seq: int
    at: float
    event: Event
