"""What the stores of the journal are given and give back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from planrunner.machine.events import Entry, RunEnded
from planrunner.source import Notation, Source


class StoredPlan(NamedTuple):
    """The text a run is pinned to. ``compiled`` is the loader's own form of it, or None."""

    digest: str
    text: str
    name: str
    notation: Notation
    compiled: bytes | None = None

    def source(self) -> Source:
        """The text as places in it are counted."""
        return Source(self.text, self.name, self.notation)


class NewRun(NamedTuple):
    """A run about to exist. ``created`` is seconds since 1970; ``plan`` is stored unless its digest is known."""

    run: str
    plan_id: str
    plan_digest: str
    created: float
    plan: StoredPlan | None = None


class RunRow(NamedTuple):
    """A run as lists show it.

    ``held`` is whether a process acts on it this moment, asked of the kernel. ``status`` and ``ended`` (seconds since
    1970) are known of a run whose last event is RunEnded; of any other the status is empty: fold its events.
    """

    run: str
    plan_id: str
    plan_digest: str
    created: float
    epoch: int
    last_seq: int
    status: str = ""
    ended: float | None = None
    held: bool = False


class Request(NamedTuple):
    """What somebody asks of a run from another process. ``kind`` says what, ``body`` is its JSON data, ``by`` who asks;
    ``id`` and ``at`` (seconds since 1970 by the clock of the one who asks) are given when it is posted. What no
    planrunner of this user made is not ``ours``, and nothing is known of it but its ``id``."""

    kind: str
    body: dict[str, Any]
    by: str = ""
    id: int = 0
    at: float = 0.0
    ours: bool = True


class Answer(NamedTuple):
    """What became of a request: ``applied`` or not, and the sentence that says what was done or why it was refused;
    ``code`` is the exit code for a refusal that is no wrong call (0: it is one)."""

    applied: bool
    message: str
    code: int = 0


class RunHandle:
    """The right to write to a run, from ``create_run`` or ``hold`` until ``release``.

    ``last_seq`` is the last entry that is durable, ``number`` that of the run in the database. ``broken`` is set once a
    write failed: nothing more is written through this handle, because what the disk holds is known only after the run
    is opened again.
    """

    __slots__ = ("broken", "epoch", "last_seq", "link", "lock", "number", "row", "run")

    def __init__(self, run: str, epoch: int, last_seq: int, lock: int = -1) -> None:
        self.run = run
        self.epoch = epoch
        self.last_seq = last_seq
        self.lock = lock
        """Descriptor of the locked file, -1 where there is none or it is released."""
        self.broken = False
        self.number = 0
        self.link = b""
        """The link of the last entry, of which the chain goes on."""
        self.row: tuple[object, ...] = ()
        """What never changes in the row of the run: number, run, plan_id, plan_digest, created, since."""

    def __repr__(self) -> str:
        return f"RunHandle({self.run!r}, epoch={self.epoch}, last_seq={self.last_seq})"


def check_order(entries: Sequence[Entry], first: int) -> None:
    """Raise ValueError unless the entries are numbered without a gap from ``first``."""
    for number, entry in enumerate(entries, first):
        if entry.seq != number:
            raise ValueError(f"entry {entry.seq} is given where {number} follows")


def ending(entries: Sequence[Entry]) -> tuple[str, float | None]:
    """Status and time of a run whose last entries these are: empty and None unless the very last is its end."""
    if entries:
        _, at, event = entries[-1]
        if isinstance(event, RunEnded):
            return event.status, at
    return "", None
