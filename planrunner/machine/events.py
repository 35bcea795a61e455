"""Facts and intents: what the journal keeps for ever. Past tense; every field is plain JSON data.

An event is stored as (seq, at, kind, version, body); ``at`` is seconds since 1970. Kinds and fields change only with a
new version and an upcaster in ``journal/codec.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Literal, Union

    from planrunner.machine.anew_events import FreshnessAsked as FreshnessAsked
    from planrunner.machine.anew_events import FreshnessSeen as FreshnessSeen
    from planrunner.machine.anew_events import LeftAlone as LeftAlone
    from planrunner.machine.anew_events import ResetPlanned as ResetPlanned
    from planrunner.machine.anew_events import RunForked as RunForked
    from planrunner.machine.anew_events import RunReopened as RunReopened
    from planrunner.machine.anew_events import RunRevised as RunRevised
    from planrunner.machine.anew_events import TaskDelayed as TaskDelayed
    from planrunner.machine.anew_events import TasksReset as TasksReset
    from planrunner.machine.checkpoint_events import CheckpointAsked as CheckpointAsked
    from planrunner.machine.checkpoint_events import CheckpointTaken as CheckpointTaken
    from planrunner.machine.fact_events import FactsObserved as FactsObserved
    from planrunner.machine.fact_events import FactsRequested as FactsRequested
    from planrunner.machine.frame_events import FrameClosing as FrameClosing
    from planrunner.machine.frame_events import FrameOpened as FrameOpened
    from planrunner.machine.gate_events import GateDecided as GateDecided
    from planrunner.machine.gate_events import GateEscalated as GateEscalated
    from planrunner.machine.gate_events import GateExamined as GateExamined
    from planrunner.machine.gate_events import GateOpened as GateOpened
    from planrunner.machine.gate_events import GateReopened as GateReopened
    from planrunner.machine.gate_events import GateRequested as GateRequested
    from planrunner.machine.gate_events import GateVoted as GateVoted
    from planrunner.machine.limit_events import AttemptStopping as AttemptStopping
    from planrunner.machine.limit_events import BudgetExtended as BudgetExtended
    from planrunner.machine.limit_events import BudgetRefused as BudgetRefused
    from planrunner.machine.limit_events import BudgetWarned as BudgetWarned
    from planrunner.machine.limit_events import PeopleAwaited as PeopleAwaited
    from planrunner.machine.limit_events import PlanRefused as PlanRefused
    from planrunner.machine.limit_events import PolicyChanged as PolicyChanged
    from planrunner.machine.limit_events import SettingsComputed as SettingsComputed
    from planrunner.machine.limit_events import Warned as Warned
    from planrunner.machine.undo_events import BackupAsked as BackupAsked
    from planrunner.machine.undo_events import BackupMade as BackupMade
    from planrunner.machine.undo_events import RollbackEnded as RollbackEnded
    from planrunner.machine.undo_events import RollbackStarted as RollbackStarted
    from planrunner.machine.undo_events import UndoScheduled as UndoScheduled
    from planrunner.machine.undo_events import UndoSettled as UndoSettled
    from planrunner.machine.undo_events import UndoStarted as UndoStarted

    EVENTS: tuple[type[Event], ...]
    """Every class of ``Event``."""

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


EDITION = 6
"""The rules by which a run that starts now is decided. Edition 1 did not tell apart why a task was omitted, counted an
allowed failure as ``ok``, and let an expression over results wait for all its tasks. Up to edition 2 a loop
went another round after a value that was missing, up to edition 3 a task whose call was not made counted as one that
acted, up to edition 4 a task whose earlier result did not fit could start beside as many as may run, up to edition 5
gates were not held to their own criteria and had no outputs by a ``value``."""


class RunStarted(NamedTuple):
    """The run exists. ``selected`` names the tasks of ``--only`` or ``--until`` (None: all); ``traits`` gives for each
    capability the plan uses its effect class, whether it is instant and whether it has a probe; ``environment`` holds
    engine and schema versions, plugin versions, host, python and platform, policy and profile. ``boot`` ties the time
    of this event to a clock that nobody can set: ``id`` of the boot and ``uptime`` in seconds. An ``attended`` run has
    somebody there who answers gates: it waits for them and does not park. ``edition`` is the version of the rules by
    which the run is decided; it keeps the one that it started with."""

    plan_digest: str
    params: dict[str, Json]
    seed: int
    selected: tuple[str, ...] | None = None
    max_parallel: int | None = None
    traits: dict[str, Json] = {}
    environment: dict[str, Json] = {}
    boot: dict[str, Json] = {}
    attended: bool = False
    edition: int = 1


class RunResumed(NamedTuple):
    """A runner took the run over; attempts without an end are from now on uncertain. ``boot`` is as in RunStarted;
    ``idle`` are the seconds since the event before, in which nobody acted on the run. ``unconfined`` says that a person
    has taken the sandbox away until the run rests again."""

    epoch: int
    by: str = ""
    boot: dict[str, Json] = {}
    idle: float = 0.0
    attended: bool = False
    unconfined: bool = False


class TaskQueued(NamedTuple):
    """Ready, but no slot is free."""

    task: str


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


class UndoEnded(NamedTuple):
    task: str
    attempt: int
    outcome: Outcome


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
    known: of the attempt, or of a probe that gave no answer (timeout, or interrupted: it is asked again)."""

    task: str
    attempt: int
    resolution: Literal["retry", "completed", "failed", "unknown"]
    by: str = ""
    failure: str = ""


class StopRequested(NamedTuple):
    """No task starts from now on. ``reason`` is pause (what runs may end), interrupted, terminated or storage (what
    runs is stopped, and the run parks), budget (what runs may end), time (that budget is used up), deadline, cancelled
    or killed (what is open is cancelled, and the run ends; ``finally`` outlives all but killed); empty where a pause is
    taken back before the run has come to rest. ``by`` and ``comment`` tell who asked and why."""

    reason: str
    by: str = ""
    comment: str = ""


class RunParked(NamedTuple):
    """The runner lets go of the run, which can be resumed. ``waiting`` names what it waits for."""

    reason: str
    waiting: tuple[str, ...] = ()


class RunEnded(NamedTuple):
    """``reason`` ``outputs`` is a run that failed since an output of the plan has no value; ``detail`` says why."""

    status: RunStatus
    reason: str = ""
    outputs: dict[str, Json] = {}
    detail: str = ""


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


_FIRST = (
    "RunStarted RunResumed TaskQueued FactsRequested FactsObserved AttemptStarted UndoEnded FrameOpened FrameClosing"
    " AttemptEnded RetryScheduled TaskSettled FailureResolved DoubtSettled StopRequested RunParked RunEnded"
).split()
"""Kinds that stand first in ``EVENTS``, and so in the schema, about in the order of a run."""

_ANEW = frozenset(
    (
        "RunForked RunReopened RunRevised TasksReset ResetPlanned FreshnessAsked FreshnessSeen TaskDelayed LeftAlone"
    ).split()
)
_UNDO = frozenset("BackupAsked BackupMade RollbackStarted UndoStarted UndoScheduled UndoSettled RollbackEnded".split())
_LIMIT = frozenset(
    "BudgetWarned BudgetExtended BudgetRefused PeopleAwaited PlanRefused PolicyChanged Warned AttemptStopping"
    " SettingsComputed".split()
)
_GATE = frozenset("GateRequested GateExamined GateOpened GateReopened GateVoted GateEscalated GateDecided".split())
_CHECKPOINT = frozenset({"CheckpointAsked", "CheckpointTaken"})
_FRAME = frozenset({"FrameOpened", "FrameClosing"})
_FACT = frozenset({"FactsRequested", "FactsObserved"})
"""Kinds that few runs meet, by the module that holds them; it is loaded when one of them is asked for here."""

_LATE = _ANEW | _UNDO | _LIMIT | _GATE | _CHECKPOINT | _FRAME | _FACT
KINDS: frozenset[str] = _LATE.union(_FIRST)
"""The names of all kinds of events."""


def __getattr__(name: str) -> Any:
    if name == "EVENTS":
        here, names = globals(), (*_FIRST, *sorted(_LATE.difference(_FIRST)))
        return tuple([here[kind] if kind in here else __getattr__(kind) for kind in names])
    if name in _ANEW:
        from planrunner.machine import anew_events as module
    elif name in _UNDO:
        from planrunner.machine import undo_events as module  # type: ignore[no-redef]
    elif name in _LIMIT:
        from planrunner.machine import limit_events as module  # type: ignore[no-redef]
    elif name in _GATE:
        from planrunner.machine import gate_events as module  # type: ignore[no-redef]
    elif name in _CHECKPOINT:
        from planrunner.machine import checkpoint_events as module  # type: ignore[no-redef]
    elif name in _FRAME:
        from planrunner.machine import frame_events as module  # type: ignore[no-redef]
    elif name in _FACT:
        from planrunner.machine import fact_events as module  # type: ignore[no-redef]
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(module, name)


class Entry(NamedTuple):
    """One row of the journal of a run."""

    seq: int
    at: float
    event: Event
