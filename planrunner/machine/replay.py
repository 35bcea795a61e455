"""The check of a recorded run: which entries come from outside, which must follow from them, and how two events
differ. Pure; ``engine/replay.py`` walks the entries."""

from __future__ import annotations

from typing import Any, NamedTuple

from planrunner.machine.events import (
    AttemptEnded,
    AttemptStopping,
    BackupMade,
    BudgetExtended,
    BudgetRefused,
    CheckpointTaken,
    DoubtSettled,
    Entry,
    Event,
    FactsObserved,
    FreshnessSeen,
    GateExamined,
    GateReopened,
    GateVoted,
    LeftAlone,
    PlanRefused,
    PolicyChanged,
    ResetPlanned,
    RevisionDeclined,
    RollbackStarted,
    RunForked,
    RunReopened,
    RunResumed,
    RunRevised,
    RunStarted,
    StopRequested,
    TaskSettled,
    TasksReset,
    UndoEnded,
)
from planrunner.machine.recovery import BY_RULE
from planrunner.machine.state import State
from planrunner.machine.stops import OUT_OF_BUDGET
from planrunner.records import Struct

Json = Any

INPUTS = frozenset(
    {
        *(AttemptEnded, BudgetExtended, BudgetRefused, DoubtSettled),
        *(FactsObserved, GateExamined, GateReopened, GateVoted),
        *(RevisionDeclined, RunForked, RunReopened, RunResumed, RunRevised, RunStarted),
        *(BackupMade, CheckpointTaken, FreshnessSeen, LeftAlone, PlanRefused, PolicyChanged, UndoEnded),
    }
)
"""Kinds that tell what the world and people did. Every other kind is decided, and must be decided again; some are the
one or the other (``is_input``)."""


class Difference(NamedTuple):
    """Where a replay leaves the record. ``seq`` is the entry, ``kind`` its kind (``task_settled``), ``task`` whose it
    is (empty for the run). ``field`` is a dotted path into the event; ``expected`` is what the record holds and ``got``
    what is decided now, both plain data, None where there is nothing. ``message`` says it in a sentence."""

    seq: int
    kind: str
    task: str
    field: str
    expected: Json
    got: Json
    message: str


class Replayed(Struct):
    """``entries`` were read, of which ``decided`` were decided again and found alike and ``inputs`` taken as they are;
    ``difference`` is the first one, None where the record is exact."""

    entries: int
    decided: int
    inputs: int
    difference: Difference | None = None


def is_input(state: State, event: Event) -> bool:
    """Whether an entry that no decision announced may come from outside, as the run stands."""
    if event.__class__ is AttemptEnded:
        number = state.index.get(event.task)
        return number is None or number not in state.containers  # what a task holds is decided, and so is its end
    if isinstance(event, (ResetPlanned, TasksReset)):
        return event.reason != "rework" and all(planned.tasks != event.tasks for planned in state.resets)
    if isinstance(event, RollbackStarted):
        return event.reason == "person" or bool(event.by)
    if isinstance(event, DoubtSettled) and event.by == BY_RULE:
        return False
    if isinstance(event, AttemptStopping):
        return event.reason == "request"
    if isinstance(event, TaskSettled):
        return event.status == "abandoned" and event.reason == "request"
    if isinstance(event, StopRequested):
        return event.reason not in OUT_OF_BUDGET and event.reason != "revision"
    return event.__class__ in INPUTS


def kind_of(event: Event) -> str:
    """``AttemptStarted`` is called ``attempt_started``, as in the journal."""
    name = event.__class__.__name__
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name).lstrip("_")


def task_of(event: Event) -> str:
    """The task an event is about; empty for those about the run."""
    return str(getattr(event, "task", ""))


def differ(entry: Entry, got: Entry | None) -> Difference:
    """How a recorded entry differs from the one that is decided in its place; None: nothing is decided there."""
    kind, task = kind_of(entry.event), task_of(entry.event)
    if got is None:
        message = f"{_named(entry.event)} is recorded, and nothing that came before leads to it"
        return Difference(entry.seq, kind, task, "kind", kind, None, message)
    if entry.event.__class__ is not got.event.__class__ or task != task_of(got.event):
        same_kind = entry.event.__class__ is got.event.__class__
        expected, decided = (task, task_of(got.event)) if same_kind else (_named(entry.event), _named(got.event))
        message = f"{_named(entry.event)} is recorded, {_named(got.event)} is decided"
        return Difference(entry.seq, kind, task, "task" if same_kind else "kind", expected, decided, message)
    if entry.event == got.event:
        message = f"{_named(entry.event)} is recorded for another time than the decision it belongs to"
        return Difference(entry.seq, kind, task, "at", entry.at, got.at, message)
    field, expected, decided = first_difference(plain(entry.event), plain(got.event))
    return Difference(entry.seq, kind, task, field, expected, decided, f"{_named(entry.event)} has another `{field}`")


def missing(entry: Entry, seq: int) -> Difference:
    """``entry`` is decided where the record has nothing of the kind before ``seq``."""
    event = entry.event
    message = f"{_named(event)} is decided here and the record has none"
    return Difference(seq, kind_of(event), task_of(event), "kind", None, _named(event), message)


def _named(event: Event) -> str:
    task = task_of(event)
    return f"{kind_of(event)} of `{task}`" if task else kind_of(event)


def plain(value: Json) -> Json:
    """Records as mappings and tuples as lists, all the way down."""
    if hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def first_difference(expected: Json, got: Json, path: str = "") -> tuple[str, Json, Json]:
    """The dotted path to the first place where two plain values differ, and what stands there on either side."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for name in [*expected, *(name for name in got if name not in expected)]:
            if expected.get(name, _NOTHING) != got.get(name, _NOTHING):
                return first_difference(expected.get(name), got.get(name), f"{path}.{name}" if path else name)
    if isinstance(expected, list) and isinstance(got, list):
        for number in range(max(len(expected), len(got))):
            one, other = expected[number : number + 1], got[number : number + 1]
            if one != other:
                return first_difference(one[0] if one else None, other[0] if other else None, f"{path}[{number}]")
    return path, expected, got


_NOTHING = object()
