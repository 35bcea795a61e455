"""The list of the runs of a state directory, for all who show one: no history is folded twice, and none where the last
entry of a run tells what is asked."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

from planrunner.errors import NotFound
from planrunner.journal.ports import Journal
from planrunner.journal.records import Ended, Head, moment, no_match
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state
from planrunner.later import Later
from planrunner.machine.events import (
    BudgetExtended,
    BudgetRefused,
    Event,
    GateReopened,
    GateVoted,
    RunEnded,
    RunForked,
    RunParked,
    RunReopened,
    RunRevised,
)
from planrunner.records import Struct
from planrunner.views.runs import RunSummary

if TYPE_CHECKING:
    from planrunner.app.follow.folds import Folds
    from planrunner.app.follow.summary import Summary
else:
    Folds = Later("planrunner.app.follow.folds:Folds")  # few lists need it

Json = Any

STATUSES = ("running", "paused", "blocked", "completed", "failed", "cancelled")
"""The statuses of a run."""
ANSWERS = (BudgetExtended, BudgetRefused, GateReopened, GateVoted)
"""What people may say to a run that is parked; whether they are asked more shows only in the whole of it."""


class RunFilter(Struct):
    """Which runs are wanted; what is empty or None asks for nothing.

    They stand as one of ``status``, are of the plan with the id ``plan``, were started by ``by``, began from ``since``
    on and before ``until`` (seconds since 1970). ``text`` is part of the id of the run, or of the id, title or file of
    its plan. With ``waiting`` they ask people something, with
    ``doubt`` what became of a task.
    """

    status: tuple[str, ...] = ()
    plan: str = ""
    by: str = ""
    text: str = ""
    since: float | None = None
    until: float | None = None
    waiting: bool = False
    doubt: bool = False

    def fits_head(self, head: Head) -> bool:
        """What the row of a run answers, without its entries."""
        return (
            (not self.plan or head.plan_id == self.plan)
            and (self.since is None or head.created >= self.since)
            and (self.until is None or head.created < self.until)
            and not ((self.waiting or self.doubt) and head.status)
        )

    def asks_state(self) -> bool:
        """Whether anything is asked that only the state of a run answers."""
        return bool(self.by or self.text or self.waiting or self.doubt)

    def fits(self, summary: Summary) -> bool:
        """What only the state of a run answers."""
        words = (summary.run, summary.plan_id, summary.title, summary.plan_file)
        return (
            (not self.status or summary.status in self.status)
            and (not self.by or summary.started_by == self.by)
            and (not self.text or any(self.text.casefold() in word.casefold() for word in words))
            and (not self.waiting or bool(summary.questions))
            and (not self.doubt or any(question.kind == "doubt" for question in summary.questions))
        )


ALL = RunFilter()


class Page(Struct):
    """Some runs, the newest first. ``after`` asks for those that follow (None: there are no more); ``newest`` is the
    number of the newest run there is, whatever the filter."""

    runs: tuple[Summary, ...]
    after: int | None
    newest: int


def recent(state: str | None, wanted: RunFilter = ALL, limit: int = 20, skip: int = 0) -> list[RunSummary]:
    """The runs that a filter asks for, the newest first. A place without runs gives an empty list."""
    try:
        journal = open_journal(find_state(None, state), readonly=True)
    except NotFound:
        return []
    with closing(journal):
        return Summaries.of(journal).listed(wanted, limit, skip)


class Summaries:
    """What lists, counts and the inbox are made of. Any thread may ask; the ``Follower`` brings it up to date.

    ``read`` gives a journal that is open for reading in the thread that asks. ``version`` goes up with every change.
    """

    def __init__(self, read: Callable[[], Journal]) -> None:
        self._lock = threading.RLock()
        self._read = read
        self._folds: Folds | None = None
        self._parked: dict[int, tuple[int, tuple[str, str]]] = {}
        self._heads: dict[int, Head] = {}
        self._numbers: dict[str, int] = {}
        self._leased: frozenset[str] = frozenset()
        self._sums = Ended(0, 0)
        self.version = 0

    @classmethod
    def of(cls, journal: Journal) -> Summaries:
        """Those of a journal as it is now, for the thread that opened it. What no process acts on and was written to
        since it was read is read again: a process that ends its run gives the lease up afterwards."""
        summaries = cls(lambda: journal)
        changed = summaries.refresh(journal)
        while changed:
            summaries.lease(leased := journal.leased())
            changed = summaries.refresh(journal) - leased
        return summaries

    def listed(self, wanted: RunFilter = ALL, limit: int | None = None, skip: int = 0) -> list[RunSummary]:
        """The runs that a filter asks for, the newest first, as their rows and last entries tell: ``limit`` of them
        (None: all), without the first ``skip``."""
        last = None if limit is None else skip + limit
        return [self._row(head) for head in islice(self._matching(wanted), skip, last)]

    def row(self, run: str) -> RunSummary:
        """The same of one run by its whole id."""
        return self._row(self._heads[self._numbers[run]])

    def page(self, wanted: RunFilter = ALL, limit: int = 25, after: int | None = None) -> Page:
        """The first ``limit`` runs that a filter asks for, the newest first, or those below the number ``after``."""
        found: list[Summary] = []
        for head in self._matching(wanted, after):
            if len(found) == limit:
                return Page(tuple(found), found[-1].number, self.newest)
            found.append(self._summary(head))
        return Page(tuple(found), None, self.newest)

    def one(self, run: str) -> Summary:
        """A run by its whole id; raises NotFound with the nearest one."""
        with self._lock:
            number = self._numbers.get(run)
            if number is None:
                raise no_match(run, tuple(self._numbers))
            return self._summary(self._heads[number])

    def counts(self) -> dict[str, int]:
        """How many runs there are of each status."""
        with self._lock:
            return dict(Counter(self._status(head) for head in self._heads.values()))

    def plans(self) -> dict[str, int]:
        """How many runs there are of each plan, by its id."""
        with self._lock:
            return dict(Counter(head.plan_id for head in self._heads.values()))

    def waiting(self) -> tuple[Summary, ...]:
        """The runs that ask people something, or have an answer and wait to be resumed, the newest first."""
        return tuple(self._asking())

    def page_waiting(self, limit: int, after: int | None = None) -> Page:
        """The first runs of ``waiting``, or those below the number ``after``, which ask ``limit`` questions at most,
        answered ones among them. A run stays whole: one that asks more stands alone on its page."""
        found: list[Summary] = []
        asked = 0
        for summary in self._asking(after):
            asked += len(summary.questions) + len(summary.decided)
            if found and asked > limit:
                return Page(tuple(found), found[-1].number, self.newest)
            found.append(summary)
        return Page(tuple(found), None, self.newest)

    def going(self) -> tuple[Summary, ...]:
        """The runs that have not ended, the newest first."""
        return tuple(self._going())

    def last_seq(self, run: str) -> int:
        """The number of the last known entry of a run; 0 for one that is not known."""
        with self._lock:
            number = self._numbers.get(run)
            return 0 if number is None else self._heads[number].last_seq

    def heads(self) -> tuple[Head, ...]:
        """The rows of all runs, the oldest first."""
        return tuple(self._all())

    def some(self, runs: Iterable[str]) -> list[Head]:
        """The rows of those of some runs that there are."""
        with self._lock:
            return [self._heads[self._numbers[run]] for run in runs if run in self._numbers]

    @property
    def newest(self) -> int:
        """The number of the newest run; 0 without any."""
        with self._lock:
            return next(reversed(self._heads), 0)

    # What the follower calls

    def refresh(self, journal: Journal) -> frozenset[str]:
        """Take up what was written since; gives the runs that have new entries or are gone."""
        heads = journal.heads(self.newest)
        with self._lock:
            changed = self._take(heads, journal)
            if self._sums != journal.ended():
                changed |= self._replace(journal.heads())
        self.version += bool(changed)
        return frozenset(changed)

    def lease(self, leased: frozenset[str]) -> frozenset[str]:
        """Say which runs processes act on; gives those of which that has changed."""
        with self._lock:
            changed = frozenset((self._leased ^ leased) & self._numbers.keys())
            self._leased = leased
        self.version += bool(changed)
        return changed

    def fold(self, run: str, most: int) -> bool:
        """Fold the next entries of a run that is going on, ``most`` at most, before a caller asks for it; whether there
        are more."""
        with self._lock:
            number = self._numbers.get(run)
            return number is not None and self._folded().advance(self._heads[number], run in self._leased, most)

    def clear(self) -> frozenset[str]:
        """Forget all runs; gives those there were."""
        with self._lock:
            gone = frozenset(self._numbers)
            for number in tuple(self._heads):
                self._drop(number)
        self.version += bool(gone)
        return gone

    # Inside

    def _take(self, heads: Iterable[Head], journal: Journal) -> set[str]:
        """New rows and those of runs that go on; of one that is not among these any more the row is read again."""
        open_before = {number for number, head in self._heads.items() if not head.status}
        changed = set()
        there = set()
        for head in heads:
            there.add(head.number)
            if self._put(head):
                changed.add(head.run)
        for number in open_before - there:
            changed.add(self._heads[number].run)
            again = journal.head(number)
            if again is None:
                self._drop(number)
            else:
                self._put(again)
        return changed

    def _replace(self, heads: list[Head]) -> set[str]:
        """Take all rows, after one of a run that had ended changed."""
        gone = self._heads.keys() - {head.number for head in heads}
        changed = {self._heads[number].run for number in gone}
        for number in gone:
            self._drop(number)
        return changed | {head.run for head in heads if self._put(head)}

    def _put(self, head: Head) -> bool:
        known = self._heads.get(head.number)
        if known == head:
            return False
        self._count(known, -1)
        self._count(head, 1)
        self._heads[head.number] = head
        self._numbers[head.run] = head.number
        if self._folds is not None:
            self._folds.outdate(head.number)
        return True

    def _drop(self, number: int) -> None:
        head = self._heads.pop(number)
        self._count(head, -1)
        self._numbers.pop(head.run, None)
        self._parked.pop(number, None)
        if self._folds is not None:
            self._folds.drop(number)

    def _count(self, head: Head | None, sign: int) -> None:
        if head is not None and head.status:
            self._sums = Ended(self._sums.runs + sign, self._sums.moments + sign * moment(head.ended))

    def _asking(self, after: int | None = None) -> Iterator[Summary]:
        return (summary for summary in self._going(after) if summary.questions or summary.decided)

    def _going(self, after: int | None = None) -> Iterator[Summary]:
        for head in reversed(self._all()):
            if not head.status and (after is None or head.number < after):
                yield self._summary(head)

    def _matching(self, wanted: RunFilter, after: int | None = None) -> Iterator[Head]:
        for head in reversed(self._all()):
            if (
                (after is None or head.number < after)
                and wanted.fits_head(head)
                and (not wanted.status or self._status(head) in wanted.status)
                and (not wanted.asks_state() or wanted.fits(self._summary(head)))
            ):
                yield head

    def _all(self) -> list[Head]:
        with self._lock:
            return list(self._heads.values())

    def _row(self, head: Head) -> RunSummary:
        status, reason = self._by_row(head)
        return RunSummary(head.run, head.plan_id, head.plan_digest, status, reason, head.created, head.ended)

    def _status(self, head: Head) -> str:
        return head.status if head.status and head.run not in self._leased else self._by_row(head)[0]

    def _by_row(self, head: Head) -> tuple[str, str]:
        """Status and reason of a run; its last entry is enough for most."""
        with self._lock:
            if head.run in self._leased:
                return "running", ""
            seq, stands = self._parked.get(head.number, (0, ("", "")))
            if seq != head.last_seq:
                last = next(self._read().entries(head.run, head.last_seq - 1), None)
                if last is not None and isinstance(last.event, ANSWERS):
                    summary = self._summary(head)
                    stands = summary.status, summary.reason
                else:
                    stands = _stopped_by(None if last is None else last.event)
                self._parked[head.number] = head.last_seq, stands
            return stands

    def _summary(self, head: Head) -> Summary:
        with self._lock:
            return self._folded().summary(head, head.run in self._leased)

    def _folded(self) -> Folds:
        if self._folds is None:
            self._folds = Folds(self._read)
        return self._folds


def _stopped_by(event: Event | None) -> tuple[str, str]:
    """Status and reason of a run that no process acts on, by its last event."""
    match event:
        case RunEnded():
            return event.status, event.reason
        case RunParked():
            return ("blocked" if event.reason == "waiting" else "paused"), event.reason
        case RunReopened():
            return "paused", event.reason
        case RunForked():
            return "paused", "forked"
    if isinstance(event, RunRevised) or getattr(event, "reason", "") == "revised":
        return "paused", "revised"
    return "paused", "cut off"
