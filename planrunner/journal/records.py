"""What the stores of the journal are given and give back, and the names of runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from planrunner.errors import START_ONE, Hint, NextStep, NotFound
from planrunner.later import Later
from planrunner.machine.events import Entry, RunEnded
from planrunner.records import Struct
from planrunner.source import Notation, Source

if TYPE_CHECKING:
    from planrunner.plan.nearest import nearest
else:
    nearest = Later("planrunner.plan.nearest:nearest")


class StoredPlan(Struct):
    """The text a run is pinned to. ``compiled`` is the loader's own form of it, or None."""

    digest: str
    text: str
    name: str
    notation: Notation
    compiled: bytes | None = None

    def source(self) -> Source:
        """The text as places in it are counted."""
        return Source(self.text, self.name, self.notation)


class NewRun(Struct):
    """A run about to exist. ``created`` is seconds since 1970; ``plan`` is stored unless its digest is known."""

    run: str
    plan_id: str
    plan_digest: str
    created: float
    plan: StoredPlan | None = None


class RunRow(Struct):
    """A run as lists show it.

    ``leased`` is whether a process has the lease of the run this moment. ``status`` and ``ended`` (seconds since
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
    leased: bool = False


class Head(Struct):
    """Where the record of a run ends, without a look at its lease. ``number`` counts runs in the order in which they
    were made; ``last_seq`` is the number of its last entry, ``status`` and ``ended`` are as in ``RunRow``."""

    number: int
    run: str
    plan_id: str
    plan_digest: str
    created: float
    epoch: int
    last_seq: int
    status: str = ""
    ended: float | None = None


class Ended(Struct):
    """The runs that have ended, as two sums that change when one of them ends, acts again or is removed: how many there
    are, and the ``moment`` of each end."""

    runs: int
    moments: int


WHOLE = 1_000_000_007
"""What the microseconds of an end are counted up to, so that a sum of millions stays a number of 64 bits."""


def moment(ended: float | None) -> int:
    """The end of a run (seconds since 1970) for the sum in ``Ended``, as databases count it."""
    return int((ended or 0.0) * 1_000_000) % WHOLE


class Holder(Struct):
    """Who has the lease of a run: ``process`` for people, ``since`` in seconds since 1970."""

    run: str
    process: str
    since: float


class Request(Struct):
    """A request to a run from another process. ``kind`` says what is asked, ``body`` is its JSON data, ``by`` who asks;
    ``id`` and ``at`` (seconds since 1970 by the clock of the one who asks) are given when it is posted. What no
    planrunner of this user made is not ``ours``, and nothing is known of it but its ``id``."""

    kind: str
    body: dict[str, Any]
    by: str = ""
    id: int = 0
    at: float = 0.0
    ours: bool = True


class Answer(Struct):
    """What became of a request: ``applied`` or not, and the sentence that says what was done or why it was refused;
    ``code`` is the exit code for a refusal (0: the call itself is wrong)."""

    applied: bool
    message: str
    code: int = 0


class Lease:
    """The right to write to a run, from ``create_run`` or ``acquire`` until ``release``.

    ``last_seq`` is the last entry that is durable, ``number`` that of the run in the store. ``broken`` is set once a
    write failed: nothing more is written under this lease, because what the store has is known only after the run
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
        return f"Lease({self.run!r}, epoch={self.epoch}, last_seq={self.last_seq})"


def check_order(entries: Sequence[Entry], first: int) -> None:
    """Raise ValueError unless the entries are numbered without a gap from ``first``."""
    for number, entry in enumerate(entries, first):
        if entry.seq != number:
            raise ValueError(f"entry {entry.seq} is given where {number} follows")


def ending(entries: Sequence[Entry]) -> tuple[str, float | None]:
    """Status and time of a run whose last entries these are: empty and None unless the very last is its end."""
    if entries:
        last = entries[-1]
        if isinstance(last.event, RunEnded):
            return last.event.status, last.at
    return "", None


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_SHOWN = 8


def new_run_id(now: float, random: bytes) -> str:
    """A run id such as ``20261121-2259-k3f9qz``: the minute in UTC, two characters that go on counting (60 ms each),
    four that are random. ``now`` is seconds since 1970, ``random`` at least three bytes of ``os.urandom``."""
    slot = int(now % 60 * 1024 / 60)
    number = slot << 20 | int.from_bytes(random[:3], "big") & 0xFFFFF
    letters = "".join(_ALPHABET[number >> shift & 31] for shift in (25, 20, 15, 10, 5, 0))
    return f"{time.strftime('%Y%m%d-%H%M', time.gmtime(now))}-{letters}"


def only_match(wanted: str, matches: Sequence[str]) -> str:
    """The one run that ``wanted`` (a prefix, or the end after the last hyphen) stands for.

    Raises NotFound when there are more, naming them.
    """
    if len(matches) == 1:
        return matches[0]
    shown = ", ".join(f"`{run}`" for run in matches[:_SHOWN])
    rest = f" and {len(matches) - _SHOWN} more" if len(matches) > _SHOWN else ""
    raise NotFound(f"`{wanted}` may be any of these runs: {shown}{rest}", "type more of the run id")


def no_match(wanted: str, known: Sequence[str]) -> NotFound:
    """The error for an unknown run, with the nearest name among ``known``."""
    if not known:
        return NotFound("there are no runs yet", START_ONE)
    near = nearest(wanted, known)
    way = Hint(f"did you mean `{near}`? " if near else "", NextStep("runs"), " lists the runs")
    return NotFound(f"there is no run `{wanted}`", way)
