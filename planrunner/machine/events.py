"""Facts and intents: what the journal keeps for ever. Past tense; every field is plain JSON data.

An event is stored as (seq, at, kind, version, body); ``at`` is seconds since 1970,
``version`` the ``EDITION`` that wrote it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Union, get_args

from planrunner.frozen import EMPTY
from planrunner.records import Struct

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


LOST = "sandbox.lost"  # the rule of a row of ``refused`` that names files which are gone with the sandbox: no failure


class Outcome(Struct):
    """How an attempt ended. ``failure`` is a failure class (transient, logic, policy, timeout, interrupted or a
    plugin's own), empty when it went well. ``duration`` is seconds; ``stdout`` and ``stderr`` are tails of the text.
    ``usage`` is what it spent (cost in dollars, tokens, calls); what is not told counts as all that was set aside.
    ``rule`` names the rule that refused what was wanted, such as ``network.private``; the failure is then ``policy``.
    ``refused`` is what its sandbox did not let through meanwhile, also where it went well: ``rule``, ``what`` (host and
    port; empty for all that are not told by name), ``count``, and a ``message`` that says how it is allowed. ``acted``
    is False where nothing was started, so that there is nothing to undo."""

    failure: str = ""
    message: str = ""
    outputs: dict[str, Json] = {}
    exit_code: int | None = None
    duration: float = 0.0
    stdout: str = ""
    stderr: str = ""
    artifacts: tuple[dict[str, Json], ...] = ()
    usage: dict[str, Json] = {}
    rule: str = ""
    refused: tuple[dict[str, Json], ...] = ()
    acted: bool = True
    no_value: bool = False
    """A template or an expression of the plan had no value, or none that fits: another attempt meets the same."""
    retry_after: float | None = None
    """Seconds that the other side asks to be left alone before another attempt."""
    retry: dict[str, Json] = {}
    """The policy by which the capability asks for another attempt where the task's ``retry`` gives none: ``attempts``
    in all, ``delay`` and ``max_delay`` in seconds."""


ENDED = Outcome(outputs=EMPTY, usage=EMPTY, retry=EMPTY)
"""Ended well, with nothing more to say; shared, so its mappings cannot be filled."""


EDITION = 12
"""The rules by which a run is decided and the form of its events, one number for both: every entry bears it. Until a
first release there is one edition at a time, and entries of another one are refused."""


class RunStarted(Struct):
    """The run exists. ``selected`` names the tasks of ``--only`` or ``--until`` (None: all); ``traits`` gives for each
    capability the plan uses its effect class, whether it is instant and whether it has a probe; ``environment`` holds
    engine and schema versions, plugin versions, host, python and platform, policy, profile and the digests of the
    settings. ``boot`` ties the time of this event to a clock that cannot be set: ``id`` of the boot and ``uptime`` in
    seconds. An ``attended`` run has a person at its terminal who answers gates: it waits for them and does not
    pause."""

    plan_digest: str
    params: dict[str, Json]
    seed: int
    selected: tuple[str, ...] | None = None
    max_parallel: int | None = None
    traits: dict[str, Json] = {}
    environment: dict[str, Json] = {}
    boot: dict[str, Json] = {}
    attended: bool = False


class RunResumed(Struct):
    """A runner took the run over; attempts without an end are from now on uncertain. ``boot`` is as in RunStarted;
    ``idle`` are the seconds since the event before, in which no process acted on the run. ``unconfined`` says that a
    person has taken the sandbox away until the run rests again. ``settings`` are the digests of the settings of the
    project, where they differ from those that the run had."""

    epoch: int
    by: str = ""
    boot: dict[str, Json] = {}
    idle: float = 0.0
    attended: bool = False
    unconfined: bool = False
    settings: dict[str, Json] = {}


class TaskQueued(Struct):
    """Ready, but no slot is free."""

    task: str


class AttemptStarted(Struct):
    """The intent to act, durable before the act. ``key`` is the idempotency key ``run:task:attempt``, kept when the
    same attempt is issued again after a crash (``reissue`` counts those); ``inputs`` is the digest of the rendered
    call. ``reserved`` is what it may spend at most (cost in dollars, tokens, calls). With ``undo`` what undoes the task
    is owed from this moment, however the attempt ends."""

    task: str
    attempt: int
    key: str
    inputs: str = ""
    effect: str = "unsafe"
    reissue: int = 0
    reserved: dict[str, Json] = {}
    undo: bool = False


class UndoEnded(Struct):
    """An attempt to undo a task ended."""

    task: str
    attempt: int
    outcome: Outcome


class AttemptEnded(Struct):
    """An attempt ended; what it comes to is decided afterwards."""

    task: str
    attempt: int
    outcome: Outcome


class RetryScheduled(Struct):
    """The failed attempt is followed by another one at ``due`` (seconds since 1970)."""

    task: str
    attempt: int
    due: float
    failure: str


class TaskSettled(Struct):
    """The task reached a final status, or ``blocked`` and ``in_doubt``, which wait for a person. ``reason`` is a short
    code, ``detail`` the sentence people read; ``failure`` is the class of a failed one."""

    task: str
    status: TaskStatus
    reason: str = ""
    detail: str = ""
    failure: str = ""


class FailureResolved(Struct):
    """The handlers of a failed task are done: ``recovered_by`` stands in for it; empty: none does."""

    task: str
    recovered_by: str = ""


class DoubtSettled(Struct):
    """What became of an attempt of unknown end: ``retry`` (issue again), ``completed``, ``failed``, or
    ``unknown`` where a probe could not tell; and who said so. ``failure`` is the class of the failure where it is
    known: of the attempt, or of a probe that gave no answer (timeout, or interrupted: it is asked again)."""

    task: str
    attempt: int
    resolution: Literal["retry", "completed", "failed", "unknown"]
    by: str = ""
    failure: str = ""


class StopRequested(Struct):
    """No task starts from now on. With the ``reason`` pause, budget or revision (the task ``by`` proposes another plan)
    running tasks finish. With interrupted, terminated, hangup, quit (INT, TERM, HUP, QUIT) or storage they are stopped
    and the run pauses. With time (of a budget), deadline, cancelled or killed, open tasks are cancelled and the run
    ends; ``finally`` still runs, except after killed. ``reason`` is empty where a pause is taken back before the run is
    paused. ``by`` and ``comment`` say who asked and why."""

    reason: str
    by: str = ""
    comment: str = ""


class RunParked(Struct):
    """The runner lets go of the run, which can be resumed. ``waiting`` names what it waits for."""

    reason: str
    waiting: tuple[str, ...] = ()


class RunEnded(Struct):
    """``reason`` ``outputs`` is a run that failed since an output of the plan has no value; ``detail`` says why."""

    status: RunStatus
    reason: str = ""
    outputs: dict[str, Json] = {}
    detail: str = ""


class FrameOpened(Struct):
    """A task that holds others begins, or goes into its next round: its tasks exist from now on. ``kind`` is
    ``subplan`` (``values``: parameters), ``round`` (``number`` from 1, ``values``: what is carried) or ``items``
    (``values``: the list of items)."""

    task: str
    attempt: int
    kind: Literal["subplan", "round", "items"]
    number: int = 0
    values: Json = None


class FrameClosing(Struct):
    """Nothing of what a task holds starts any more; what runs is stopped. ``reason`` is timeout, cancelled or
    budget, ``comment`` the sentence people read."""

    task: str
    reason: str
    comment: str = ""


class RunForked(Struct):
    """What came before is a copy of the first ``seq`` entries of the run ``parent``; from here on it is the run
    ``run``, in which attempts that were under way never began. ``params`` are those that are set again, ``idle`` the
    seconds since the entry before."""

    run: str
    parent: str
    seq: int
    params: dict[str, Json] = {}
    idle: float = 0.0
    by: str = ""


class RunRevised(Struct):
    """From here on the run has another plan: revision ``number`` (the first plan is 1), by ``by`` for a ``reason``.
    Each task keeps what it came to; what is reset because of the revision is named by the ``TasksReset`` that
    follows. ``params``, ``traits``, ``environment``, ``max_parallel`` and ``selected`` are as in ``RunStarted`` and
    hold from here on. ``stopped`` are containers under way whose definition changed: what they hold is cancelled. With
    ``asks_again`` what people approved of counts for nothing that has not begun. ``idle`` are the seconds since the
    entry before, in which nothing ran; the run waits to be resumed."""

    number: int
    plan_digest: str
    by: str = ""
    reason: str = ""
    params: dict[str, Json] = {}
    traits: dict[str, Json] = {}
    environment: dict[str, Json] = {}
    max_parallel: int | None = None
    selected: tuple[str, ...] | None = None
    stopped: tuple[str, ...] = ()
    asks_again: bool = False
    idle: float = 0.0


class RevisionDeclined(Struct):
    """The run keeps its plan: what ``task`` proposed as the next revision counts for nothing."""

    task: str
    by: str = ""
    reason: str = ""


class RunReopened(Struct):
    """A run that has ended acts again, for a ``reason``: retry, rerun, rollback, revise or budget (it has
    another plan or more to spend, and waits to be resumed)."""

    reason: str
    by: str = ""


class TasksReset(Struct):
    """Tasks are reset as if they had never run: ``reason`` is rework, retry, rerun, revised or forked (gates whose
    decision was for the other run, with what comes after them), ``cause`` the task that sent back, ``comment`` what was
    said. Those of ``unless_same`` keep their result if they would be called as before and, unless ``by_call``, are of a
    kind whose call tells everything, or (where the plan was revised) come after nothing that runs again; one that holds
    others opens again, and each task inside it keeps its result by the same rule, but for those that are named here as
    well. With ``services_first`` what comes after the services among them by needs, at once or through others, waits
    until these are ready. Those of ``named`` were asked for by name: they begin though their level fails already, as do
    those that went well before; what fails later stops them too.
    ``changed`` says why gates among them and inside them ask again."""

    tasks: tuple[str, ...]
    reason: str
    by: str = ""
    cause: str = ""
    comment: str = ""
    unless_same: tuple[str, ...] = ()
    by_call: bool = True
    services_first: bool = False
    named: tuple[str, ...] = ()
    changed: dict[str, str] = {}


class ResetPlanned(Struct):
    """Tasks are to be reset once those among them that run have ended; until then none of them starts."""

    tasks: tuple[str, ...]
    reason: str
    by: str = ""
    cause: str = ""
    comment: str = ""


class FreshnessAsked(Struct):
    """Is the task done already? ``call`` is the digest of what it would be called with."""

    task: str
    call: str = ""


class FreshnessSeen(Struct):
    """What was seen of a task that may be done already. ``inputs`` is the digest of its input files and its call as
    they are now; with ``same`` they are those of the time when run ``since`` did it, and its outputs exist; ``why``
    tells what is not. ``outputs`` and ``artifacts`` are what it gave then. ``fault`` says why its files could not be
    looked at, which fails the task."""

    task: str
    same: bool = False
    inputs: str = ""
    since: str = ""
    outputs: dict[str, Json] = {}
    artifacts: tuple[dict[str, Json], ...] = ()
    why: str = ""
    fault: str = ""


class TaskDelayed(Struct):
    """Ready, but held back by an open circuit breaker, or by its own ``delay``; looked at again at ``due`` (seconds
    since 1970). ``breaker`` is the pattern of what the breaker watches, empty for a delay."""

    task: str
    due: float
    breaker: str = ""
    detail: str = ""


class LeftAlone(Struct):
    """The run is unattended until it is resumed: tasks in doubt that can be undone are undone."""


class BackupAsked(Struct):
    """The files that fit ``patterns``, relative to the directory of the run, are saved before a task starts; once for
    each ``visit``."""

    task: str
    visit: int
    patterns: tuple[str, ...]


class BackupMade(Struct):
    """What was saved, to be put back when the task is rolled back. Each of ``files`` has a ``path`` relative to the
    directory of the run and ``mode``, with ``sha256`` and ``size`` (kept as an artifact) or ``folder``; or ``link``:
    where it leads. What fits the patterns and is not among them did not exist. Where the capability undoes the task
    itself, the only one holds under ``before`` what it found out. With a ``problem`` nothing was saved, and the task
    cannot start: it fails with the class ``failure``, by ``rule`` where one refuses it; ``interrupted`` tells that a
    stop of the run cut it off."""

    task: str
    visit: int
    patterns: tuple[str, ...]
    files: tuple[dict[str, Json], ...] = ()
    problem: str = ""
    failure: str = "policy"
    rule: str = ""


class RollbackStarted(Struct):
    """What ``tasks`` did is undone from now on, in this order, one after the other. ``owed`` are their positions in the
    list of what the run owes. ``reason`` is failure, doubt or person; ``strict`` stops at the first that fails.
    ``bare`` are tasks that acted as well and do not say how they are undone.

    ``within`` is empty for the run; else the task that links the plan which is undone: its attempt ends after that, as
    ``failure`` (a class) and ``message`` say."""

    reason: Literal["failure", "doubt", "person"]
    tasks: tuple[str, ...]
    owed: tuple[int, ...]
    strict: bool = False
    by: str = ""
    comment: str = ""
    bare: tuple[str, ...] = ()
    within: str = ""
    failure: str = ""
    message: str = ""


class UndoStarted(Struct):
    """The intent to undo a task, durable before the act. ``key`` is ``run:task:undo:attempt``, kept when the same
    attempt is issued again after a crash; ``kind`` is action (what the task's ``rollback`` says), files or capability
    (it takes back itself what it did). ``reserved`` is what it may spend at most of what is reserved for the rollback
    (cost in dollars, tokens, calls)."""

    task: str
    attempt: int
    key: str
    owed: int
    kind: Literal["action", "files", "capability"] = "action"
    inputs: str = ""
    reissue: int = 0
    reserved: dict[str, Json] = {}


class UndoScheduled(Struct):
    """The failed attempt to undo a task is followed by another one at ``due`` (seconds since 1970)."""

    task: str
    attempt: int
    due: float
    failure: str


class UndoSettled(Struct):
    """What a task did is ``undone``; or that ``failed``; or it was ``left`` as it is."""

    task: str
    owed: int
    status: Literal["undone", "failed", "left"]
    detail: str = ""


class RollbackEnded(Struct):
    """Nothing is undone any more. ``status`` is rolled_back (all of it) or rollback_failed; ``within`` is as in
    RollbackStarted."""

    status: Literal["rolled_back", "rollback_failed"]
    within: str = ""


class BudgetWarned(Struct):
    """So much of a limit is spent that people want to know (``reason`` threshold), or an attempt of the task ``scope``
    used more (``spent``) than it had set aside (``limit``; ``reason`` overshoot). ``scope`` is a task with everything
    inside it, empty for the plan; cost is in dollars, time in seconds."""

    scope: str
    what: str
    spent: float
    limit: float
    reason: str = "threshold"


class BudgetExtended(Struct):
    """A person added ``amount`` to the limit of a task (empty: the plan) for ``what``: time (seconds), cost (dollars),
    tokens, calls, attempts or iterations."""

    scope: str
    what: str
    amount: float
    by: str = ""
    comment: str = ""


class BudgetRefused(Struct):
    """A person adds nothing to a limit of a task (empty: the plan) that tasks wait for: what follows is what would have
    without asking, until the limit is extended after all."""

    scope: str
    what: str
    by: str = ""
    comment: str = ""


class PeopleAwaited(Struct):
    """Nothing moves any more inside the task (empty: in the whole run, whose runner stays) before a person has decided:
    its time budget stands still until they have, or an attempt starts."""

    task: str = ""


class PolicyChanged(Struct):
    """From now on the run is held to these levels of the operator's policy, as its start recorded others. ``reason`` is
    changed (the earlier and the current levels apply) or accepted (a person applies only the current ones)."""

    levels: tuple[dict[str, Json], ...]
    reason: str = "changed"
    by: str = ""


class Warned(Struct):
    """A step of the watchdog of a task: its attempt still runs after ``after`` seconds. ``do`` is warn, or ask:
    a person should look and decide."""

    task: str
    attempt: int
    after: float
    do: str


class AttemptStopping(Struct):
    """An attempt has to end now and is stopped: ``failure`` is the class it ends with, unless it was done before the
    stop reached it; ``reason`` is timebox, watchdog, request, failure (of another task) or ended (the plan),
    ``detail`` the sentence people read."""

    task: str
    attempt: int
    failure: str
    reason: str
    detail: str = ""


class SettingsComputed(Struct):
    """A task is about to start, and the settings that its plan computes have these ``values`` on this ``visit``:
    timeout and delay in seconds, retry.attempts, max_parallel, and tolerate (a number, or text with a percentage)."""

    task: str
    visit: int
    values: dict[str, Json] = {}


class PlanRefused(Struct):
    """A plan was not let start, or its run not let go on: no run has this event, it stands in the record ``refused`` of
    the state directory. ``rule`` refused it; ``digest`` is that of the plan, or of the bytes of its file
    (``bytes:sha256:``) where it was not read. ``environment`` says who asked, on which machine. ``quiet`` tells that
    the record says nothing more for an hour: of the same refusal (``same``), or of any (``all``)."""

    plan: str
    rule: str
    message: str
    digest: str = ""
    environment: dict[str, Any] = {}
    quiet: str = ""


class GateRequested(Struct):
    """A task waits for a decision. ``stage`` says of what: ``gate`` (the task is one), ``preconditions`` or
    ``criteria`` (those in plain words), ``label:NAME`` or ``policy`` (demanded before the task starts),
    ``instruction``
    (a person carries the task out and says what came of it). ``request`` is
    what is asked with every template filled in: kind, ask, options, form, words, inputs, and under ``looks`` what has
    to be looked at in the world. ``reserved`` is what a judge may use (cost in dollars, tokens, calls)."""

    task: str
    visit: int
    stage: str
    attempt: int = 0
    request: dict[str, Json] = {}
    reserved: dict[str, Json] = {}


class GateExamined(Struct):
    """What was found of a gate's evidence: for each thing its kind, name, digest, what is shown of it and, where it
    speaks against the gate, the ``problem``. ``policy`` is the digest of the project's policy, ``usage`` what a judge
    used (cost in dollars, tokens, calls). ``failure`` is why a judge gave no answer: timeout, or interrupted (it is
    asked again when the run goes on)."""

    task: str
    visit: int
    evidence: tuple[dict[str, Json], ...] = ()
    policy: str = ""
    usage: dict[str, Json] = {}
    failure: str = ""


class GateOpened(Struct):
    """People are asked; the task is blocked until they have decided. ``need`` of those with one of ``roles`` or among
    ``people`` (anybody where both are empty) decide. ``shown`` is the digest of everything an approval is for: run,
    task, visit, policy, the question, the evidence, and the definition of all that the gate releases. ``expires_at`` is
    seconds since 1970 on the run's time line. ``unchosen`` says why the ``choose`` of the gate took no option; empty
    where it has none."""

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
    unchosen: str = ""


class GateReopened(Struct):
    """What was shown, or what the gate releases, has changed before the decision: votes so far are void, ``shown`` is
    the digest of what there is now, ``changed`` names what changed."""

    task: str
    visit: int
    request: dict[str, Json]
    evidence: tuple[dict[str, Json], ...]
    policy: str
    shown: str
    changed: tuple[str, ...] = ()


class GateVoted(Struct):
    """One person's word on what ``shown`` stands for. ``user`` is who the system says it was, ``by`` the name they
    gave; ``claimed`` are roles that only the voter claims."""

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


class GateEscalated(Struct):
    """The gate expired without a decision: from now on others may decide."""

    task: str
    visit: int
    roles: tuple[str, ...]
    people: tuple[str, ...]
    need: int
    not_starter: bool
    expires_at: float | None


class GateDecided(Struct):
    """``decision`` is passed or failed (by checks), approved, rejected or expired. ``by`` are those whose votes made
    it, ``reason`` is what they said or which check failed; ``outputs`` become those of a task that is a gate, and
    ``problem`` tells which declared one has no value."""

    task: str
    visit: int
    decision: Literal["passed", "failed", "approved", "rejected", "expired"]
    by: tuple[str, ...] = ()
    reason: str = ""
    outputs: dict[str, Json] = {}
    problem: str = ""


class CheckpointAsked(Struct):
    """The working directory is to be kept as it is now: an attempt of ``task`` ended well and the task is not settled
    yet, or ``round`` (from 1) of a loop is over and the next has not begun. ``patterns`` are what the task wants kept,
    relative to the directory of the run (empty: all of it). ``since`` is the manifest of the run's checkpoint before
    with the same patterns, empty for the first one."""

    task: str
    visit: int
    attempt: int
    round: int = 0
    patterns: tuple[str, ...] = ()
    since: str = ""


class CheckpointTaken(Struct):
    """What was kept. ``files`` is the digest of the manifest in the artifact store, empty where nothing could be kept;
    ``held`` is how many files, links and folders it lists, ``size`` their bytes, ``added``, ``changed`` and
    ``removed`` how many paths differ from ``since``. ``git`` has ``head`` and ``branch`` inside a repository. A
    ``problem`` says what could not be kept; the run goes on."""

    task: str
    visit: int
    attempt: int
    round: int = 0
    patterns: tuple[str, ...] = ()
    since: str = ""
    files: str = ""
    held: int = 0
    size: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    git: dict[str, Json] = {}
    problem: str = ""


class FactsRequested(Struct):
    """The preconditions of a task read facts of the world (``memory.has_space``, ``network.online`` …)."""

    task: str
    names: tuple[str, ...]


class FactsObserved(Struct):
    """What was found of the facts that a task asked for."""

    task: str
    facts: dict[str, Json]


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
    CheckpointAsked,
    CheckpointTaken,
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
    RunRevised,
    RevisionDeclined,
    AttemptEnded,
    RetryScheduled,
    TaskSettled,
    FailureResolved,
    DoubtSettled,
    BudgetWarned,
    BudgetExtended,
    BudgetRefused,
    PeopleAwaited,
    PlanRefused,
    PolicyChanged,
    Warned,
    SettingsComputed,
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
EVENTS: tuple[type[Event], ...] = get_args(Event)
"""Every class of ``Event``."""
KINDS = frozenset(event.__name__ for event in EVENTS)


class Entry(NamedTuple):
    """One row of the journal of a run."""

    seq: int
    at: float
    event: Event
    turn: int = 0
    """The seq of the first entry of its turn: what arrived since the last decision, and what was decided on it. 0
    for entries that no loop recorded."""

    def shares_turn(self, other: Entry) -> bool | None:
        """Whether two entries were recorded in one turn; None where that was not recorded."""
        return self.turn == other.turn if self.turn and other.turn else None
