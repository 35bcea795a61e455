"""Commands that few tasks call for: about what holds others, what is asked first, what is saved and undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    Json = Any


class Compare(NamedTuple):
    """A task that begins anew is about to start: where it would be called as before, it keeps its result instead."""

    number: int


class Open(NamedTuple):
    """Begin a task that holds others, or its next round (``round`` above 1)."""

    number: int
    attempt: int
    round: int = 1


class Close(NamedTuple):
    """What a task holds is settled: its attempt ends. ``failure`` and ``message`` say how, empty when it went well."""

    number: int
    failure: str = ""
    message: str = ""


class AskPeople(NamedTuple):
    """Find out what a gate asks and shows; ``stage`` is as in GateRequested."""

    number: int
    stage: str


class AskFacts(NamedTuple):
    """Look at the facts that a task's preconditions read."""

    number: int
    names: tuple[str, ...]


class AskFresh(NamedTuple):
    """Look whether a task is done already."""

    number: int


class AskProbe(NamedTuple):
    """Let the capability find out whether an attempt of unknown end took effect."""

    number: int
    attempt: int


class Save(NamedTuple):
    """Save the files that a task names, or what its capability needs to undo it, before it starts."""

    number: int


class TakeCheckpoint(NamedTuple):
    """Keep the files of the working directory, before a task counts as completed (``round`` 0) or after a round of a
    loop."""

    number: int
    round: int = 0


class Undo(NamedTuple):
    """Undo what stands at the position ``owed``; ``reissue`` above 0 begins the same attempt again, with the same
    key. ``reserved`` is as in UndoStarted."""

    owed: int
    attempt: int
    reissue: int = 0
    reserved: dict[str, Json] = {}
