"""What a journal is, as four ports: events of runs, leases of runs, an inbox for each run, and a cache of plans.

``JournalPort`` is what a run needs; ``sqlite.Journal`` and ``memory.MemoryJournal`` pass the same tests. ``Journal`` is
what a project needs in addition: a journal that outlives its processes, is proven, searched and pruned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from planrunner.journal.records import (
    Answer,
    Ended,
    Head,
    Holder,
    Lease,
    NewRun,
    Request,
    RunRow,
    StoredPlan,
)
from planrunner.machine.events import Entry


class EventStore(Protocol):
    """Runs and their entries, numbered from 1 without gaps."""

    def create_run(self, new: NewRun, entries: Sequence[Entry] = ()) -> Lease:
        """Acquire the lease of a new run and store it, its plan and its first entries, all or nothing.

        Raises UsageError for an id that is taken or cannot be used, RunHeld, StorageFailed.
        """

    def append(self, run: Lease, entries: Sequence[Entry], answers: Sequence[tuple[int, Answer]] = ()) -> None:
        """Store entries that follow ``run.last_seq``, all or nothing; they survive power loss on return. ``answers``
        (by the ids of requests) become durable with the entries that follow from those requests, or not at all.

        Raises Fenced when another process acquired the run, StorageFailed when the entries could not be stored: none
        of them is acknowledged then and the lease writes no more. TypeError and ValueError are for entries that are
        not JSON data or are numbered wrongly; they leave the lease as it was.
        """

    def require_there(self, run: str) -> None:
        """Raises StorageFailed where the store of the run was removed or replaced since it was opened."""

    def entries(self, run: str, after: int = 0) -> Iterator[Entry]:
        """The entries of a run with a seq above ``after``; ends with what is durable at that time. Raises StorageFailed
        for a damaged entry or one of a newer program."""

    def runs(self, limit: int = 100, offset: int = 0) -> list[RunRow]:
        """Runs, the newest first."""

    def run(self, run: str) -> RunRow:
        """One run by its whole id; raises NotFound."""

    def find_run(self, wanted: str) -> str:
        """The id of the run that people mean: ``last``, a whole id, the id of a plan for its newest run, a unique
        prefix, or what follows its last hyphen; the first of these that fits.

        Raises NotFound naming the candidates or the nearest name.
        """


class RunLease(Protocol):
    """Leases: one process at a time acts on a run. Each lease has a higher epoch than the one before."""

    def acquire(self, run: str) -> Lease:
        """The lease of a run; every earlier one is fenced off. Raises NotFound, RunHeld naming the holder,
        StorageFailed."""

    def renew(self, run: Lease) -> None:
        """Confirm a lease; a store whose leases expire extends it. Raises Fenced where another process acquired the
        run, StorageFailed for a lease that was released."""

    def release(self, run: Lease) -> None:
        """Give a lease back. Nothing can be appended under it afterwards."""

    def holders(self) -> list[Holder]:
        """The leases that living processes have, this one included, by the names of their runs."""

    def is_leased(self, run: str) -> bool:
        """Whether a living process has the lease of a run, this one included."""


class Inbox(Protocol):
    """Requests that other processes make of a run, answered by the holder of its lease."""

    def post(self, run: str, request: Request) -> int:
        """Leave a request for the holder of a run; gives its number, for ``answered``. Raises StorageFailed."""

    def waiting(self, run: str) -> list[Request]:
        """The requests for a run that have no answer yet, in the order in which they were posted."""

    def answered(self, request: int) -> Answer | None:
        """The answer to a request; None while it waits. Raises NotFound."""

    def touched(self) -> bool:
        """Whether another process may have written since the last call; True at the first one. Costs microseconds."""


class PlanCache(Protocol):
    """The texts that runs are pinned to, and the loader's form of plans."""

    def plan(self, digest: str) -> StoredPlan:
        """The plan a run is pinned to; raises NotFound."""

    def keep_plan(self, plan: StoredPlan) -> None:
        """Store the text of a plan, as a revision needs it; what is known under the digest stays."""

    def compiled_get(self, key: str) -> bytes | None:
        """The value that ``compiled_put`` stored under the key; None where there is none that can be trusted."""

    def compiled_put(self, key: str, value: bytes) -> None:
        """Keep the loader's form of a plan. It is a cache: only the last stay, if power lasts."""


class JournalPort(EventStore, RunLease, Inbox, PlanCache, Protocol):
    """What a run needs. ``notices`` are for people; ``unchained`` says why events are not chained, empty where they
    are."""

    notices: tuple[str, ...]
    unchained: str

    def close(self) -> None: ...


class Retention(Protocol):
    """Takes runs that have ended out of a journal."""

    def remove(self, row: RunRow, at: float, by: str) -> None:
        """Take a run that has ended, as ``row`` says, out of the journal; a record of it stays. Durable on return.
        Raises RunHeld, UsageError for a run that was acquired since, RecordMismatch, StorageFailed."""

    def drop_plans(self) -> None:
        """Remove the plans that no run has, unless another process is at work: it may be about to use one. Raises
        StorageFailed."""

    def pruned(self) -> list[str]:
        """The ids of the runs that were removed."""


class Heads(Protocol):
    """How far every run has got, for those that follow all of them."""

    def heads(self, after: int = 0) -> list[Head]:
        """The runs with a number above ``after`` and every one that has not ended, the oldest first; 0 gives all."""

    def head(self, number: int) -> Head | None:
        """One run by its number; None for one that was removed."""

    def ended(self) -> Ended:
        """The runs that have ended, as sums; costs less than a millisecond for each thousand of them."""

    def leased(self) -> frozenset[str]:
        """The runs that living processes act on, this one included."""


class Journal(JournalPort, Heads, Protocol):
    """The journal of a project."""

    def kept(self) -> Iterator[tuple[RunRow, Entry]]:
        """Every end of an attempt that kept artifacts, with its run, in the order of runs and entries."""

    def texts(self) -> Iterator[tuple[str, str]]:
        """All that is stored as text, with the kind of event that it is the body of (empty for plans and requests)."""

    def prove(self, run: str) -> None:
        """Raises RecordMismatch where a run is not what was written here."""

    def check_free(self, run: str) -> None:
        """Raises RunHeld naming the holder where a living process has the lease of the run."""

    def retention(self) -> Retention:
        """Prunes this journal, which is open for writing."""
