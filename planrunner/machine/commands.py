"""What ``decide`` asks for. A command is never stored: the driver turns it into its event first and acts afterwards.

In books on event sourcing a command goes into the decider; here, as in durable-execution engines, it comes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

from planrunner.frozen import EMPTY
from planrunner.machine.events import (
    AttemptStopping,
    BudgetWarned,
    DoubtSettled,
    FailureResolved,
    FrameClosing,
    GateDecided,
    GateEscalated,
    GateOpened,
    PeopleAwaited,
    ResetPlanned,
    RetryScheduled,
    RollbackEnded,
    RollbackStarted,
    RunParked,
    SettingsComputed,
    StopRequested,
    TaskDelayed,
    TaskQueued,
    TaskSettled,
    TasksReset,
    TaskStatus,
    UndoScheduled,
    UndoSettled,
    Warned,
)
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.plan.model import Task


Json = Any


class Compare(Struct):
    """A task that is reset is about to start: where it would be called as before, it keeps its result instead."""

    number: int


class Open(Struct):
    """Begin a task that holds others, or its next round (``round`` above 1)."""

    number: int
    attempt: int
    round: int = 1


class Close(Struct):
    """What a task holds is settled: its attempt ends. ``failure`` and ``message`` say how, empty when it went well."""

    number: int
    failure: str = ""
    message: str = ""


class AskPeople(Struct):
    """Find out what a gate asks and shows; ``stage`` is as in GateRequested."""

    number: int
    stage: str


class AskFacts(Struct):
    """Look at the facts that a task's preconditions read."""

    number: int
    names: tuple[str, ...]


class AskFresh(Struct):
    """Look whether a task is done already."""

    number: int


class AskProbe(Struct):
    """Let the capability find out whether an attempt of unknown end took effect."""

    number: int
    attempt: int


class Save(Struct):
    """Save the files that a task names, or what its capability needs to undo it, before it starts."""

    number: int


class TakeCheckpoint(Struct):
    """Keep the files of the working directory, before a task counts as completed (``round`` 0) or after a round of a
    loop."""

    number: int
    round: int = 0


class Undo(Struct):
    """Undo what stands at the position ``owed``; ``reissue`` above 0 begins the same attempt again, with the same
    key. ``reserved`` is as in UndoStarted."""

    owed: int
    attempt: int
    reissue: int = 0
    reserved: dict[str, Json] = EMPTY


class Start(Struct):
    """Begin an attempt; ``reissue`` above 0 begins the same attempt again, with the same key. ``reserved`` is as
    in AttemptStarted."""

    number: int
    attempt: int
    reissue: int = 0
    reserved: dict[str, Json] = EMPTY


class Record(Struct):
    """A decision with no effect outside: its event is all there is to it."""

    event: (
        TaskQueued
        | TaskDelayed
        | TaskSettled
        | RetryScheduled
        | FailureResolved
        | DoubtSettled
        | RunParked
        | StopRequested
        | FrameClosing
        | ResetPlanned
        | TasksReset
        | RollbackStarted
        | RollbackEnded
        | UndoScheduled
        | UndoSettled
        | BudgetWarned
        | Warned
        | SettingsComputed
        | PeopleAwaited
        | AttemptStopping
        | GateOpened
        | GateEscalated
        | GateDecided
    )


class End(Struct):
    """Everything is settled; ``reason`` is empty, ``failed``, ``budget``, ``deadline``, ``cancelled``, ``killed``,
    ``task``, ``rolled_back`` or ``rollback_failed``."""

    status: str
    reason: str = ""


Asks = Union[AskFacts, AskFresh, AskPeople, AskProbe]
Involved = Union[Compare, Open, Close, Asks, Save, TakeCheckpoint, Undo]
"""Commands that are more than a start, an event or the end."""
Command = Union[Start, Record, End, Involved]


def settle(task: Task, status: TaskStatus, reason: str, detail: str = "", failure: str = "") -> Record:
    """The record of a task that reaches a status."""
    return Record(TaskSettled(task.id, status, reason, detail, failure))
