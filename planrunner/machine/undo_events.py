"""Events that few runs meet. Undone: files saved beforehand, and the steps of a rollback."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Literal

    Json = Any


class BackupAsked(NamedTuple):
    """The files that fit ``patterns``, relative to the directory of the run, are saved before a task starts; once for
    each ``visit``."""

    task: str
    visit: int
    patterns: tuple[str, ...]


class BackupMade(NamedTuple):
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


class RollbackStarted(NamedTuple):
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


class UndoStarted(NamedTuple):
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
    """Nothing is undone any more. ``status`` is rolled_back (all of it) or rollback_failed; ``within`` is as in
    RollbackStarted."""

    status: Literal["rolled_back", "rollback_failed"]
    within: str = ""
