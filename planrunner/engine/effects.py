"""The outside world in three verbs. Live, imagined and scripted effects differ; the loop that uses them does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

from planrunner.capabilities.contract import Call
from planrunner.machine.events import AttemptEnded, CheckpointAsked, Event, Outcome, UndoEnded
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.plan.rights import Level

Json = Any


AT_ONCE = "at once"
"""Comment of a StopRequested for which nothing may be waited for: the second Ctrl-C."""


class StartCall(Struct):
    """Run one attempt whose intent is durable."""

    call: Call


class Effects(Protocol):
    """``start`` returns at once; ``wait`` blocks until something happened or ``until`` (seconds since 1970)
    passed and gives the events that arose: AttemptEnded, FactsObserved, GateExamined, DoubtSettled,
    StopRequested."""

    def start(self, effects: Sequence[Effect]) -> None: ...

    def wait(self, until: float | None) -> list[Event]: ...

    def now(self) -> float: ...

    def stop(self, forced: bool = False) -> None:
        """End every running attempt in order (TERM, then KILL), or at once when ``forced``; their outcomes come
        from ``wait`` as ``interrupted``."""
        ...

    def close(self) -> None: ...


class ObserveFacts(Struct):
    """Look up facts for the preconditions of a task."""

    task: str
    names: tuple[str, ...]


class Probe(Struct):
    """Ask a checkable capability whether an attempt of unknown end took effect."""

    call: Call


class Cancel(Struct):
    """Stop one attempt permanently; its outcome is of the class ``failure``, with ``reason`` in its message."""

    task: str
    attempt: int
    reason: str
    failure: str = "cancelled"

    @property
    def message(self) -> str:
        return f"stopped: {self.reason}" if self.failure == "cancelled" else self.reason


class Examine(Struct):
    """Look at the evidence of the gate of a task, below ``directory``, as far as ``rights`` let files be read. ``call``
    is that of the model that judges its criteria; None where none is asked."""

    task: str
    visit: int
    looks: tuple[dict[str, Json], ...]
    directory: str
    call: Call | None = None
    rights: tuple[Level, ...] = ()


class RecheckEvidence(Struct):
    """Read the evidence of a gate again before a vote counts, below ``directory`` and as ``rights`` permit; there is no
    answer, the evidence, with the digest of the project's policy, is appended to ``found``."""

    looks: tuple[dict[str, Json], ...]
    directory: str
    found: list[tuple[tuple[dict[str, Json], ...], str]]
    rights: tuple[Level, ...] = ()


class CheckFreshness(Struct):
    """Check whether a task is done already; the answer is FreshnessSeen.

    ``name`` is what its record goes by, ``call`` the digest of its call. Patterns are relative to ``directory``, which
    lies in ``root``; ``by_files`` False leaves it to a condition. ``fault`` says why the patterns have no value.
    """

    task: str
    name: str
    call: str
    root: str
    directory: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    by_files: bool
    gitignore: bool = False
    fault: str = ""


class RecordFreshness(Struct):
    """Record that a task is done; there is no answer."""

    name: str
    run_id: str
    inputs: str
    outputs: dict[str, Any]
    artifacts: tuple[dict[str, Any], ...]


class DropFreshness(Struct):
    """Drop the record of a task that was undone; there is no answer."""

    name: str


class Save(Struct):
    """Copy files before a task starts, where ``rights`` let them be read, or have its capability note what it needs to
    undo the ``call``; the answer is BackupMade."""

    task: str
    visit: int
    directory: str
    patterns: tuple[str, ...]
    call: Call | None = None
    rights: tuple[Level, ...] = ()


class Restore(Struct):
    """Put files back as they were saved, as far as ``rights`` let them be written: an attempt to undo ``task``."""

    task: str
    attempt: int
    directory: str
    patterns: tuple[str, ...]
    files: tuple[dict[str, Any], ...]
    rights: tuple[Level, ...] = ()


class TakeCheckpoint(Struct):
    """Keep the files below ``directory``; the answer is CheckpointTaken. ``asked`` is the intent."""

    asked: CheckpointAsked
    directory: str


Effect = Union[
    StartCall,
    ObserveFacts,
    Probe,
    Cancel,
    Examine,
    RecheckEvidence,
    CheckFreshness,
    RecordFreshness,
    DropFreshness,
    Save,
    Restore,
    TakeCheckpoint,
]


def ended(call: Call, outcome: Outcome) -> AttemptEnded | UndoEnded:
    """The event with which a call ends."""
    kind = AttemptEnded if call.purpose == "act" else UndoEnded
    return kind(call.task.id, call.attempt, outcome)
