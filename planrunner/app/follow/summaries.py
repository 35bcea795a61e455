"""Summaries of all runs of a state directory, by the last entry of each: no history is folded twice."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from planrunner.app.follow.folds import Folds
from planrunner.app.follow.summary import Summary, summary_object
from planrunner.journal.ports import Journal
from planrunner.journal.records import Ended, Head, no_match
from planrunner.views.documents import listing

Json = Any


class RunFilter(NamedTuple):
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

    def fits(self, summary: Summary) -> bool:
        """What only the state of a run answers."""
        words = (summary.run, summary.plan_id, summary.title, summary.plan_file)
        return (
            (not self.status or summary.status in self.status)
            and (not self.by or summary.started_by == self.by)
            and (not self.text or any(self.text.casefold() in word.casefold() for word in words))
            and (not self.waiting or bool(summary.gates))
            and (not self.doubt or any(fact["kind"] == "doubt" for fact in summary.gates))
        )


ALL = RunFilter()


class Page(NamedTuple):
    """Some runs, the newest first. ``after`` asks for those that follow (None: there are no more); ``newest`` is the
    number of the newest run there is, whatever the filter."""

    runs: tuple[Summary, ...]
    after: int | None
    newest: int


def page_document(page: Page, counts: dict[str, int]) -> dict[str, Json]:
    """A page as programs read it; ``after`` is null after the last one. ``counts`` are of all runs."""
    return listing("runs", map(summary_object, page.runs), after=page.after, newest=page.newest, counts=counts)


class Summaries:
    """What lists, counts and the inbox are made of. Any thread may ask; the ``Follower`` brings it up to date.

    ``read`` gives a journal that is open for reading in the thread that asks. ``version`` goes up with every change.
    """

    def __init__(self, read: Callable[[], Journal]) -> None:
        self._lock = threading.RLock()
        self._folds = Folds(read)
        self._heads: dict[int, Head] = {}
        self._numbers: dict[str, int] = {}
        self._leased: frozenset[str] = frozenset()
        self._sums = Ended(0, 0)
        self.version = 0

    def page(self, wanted: RunFilter = ALL, limit: int = 25, after: int | None = None) -> Page:
        """The first ``limit`` runs that a filter asks for, the newest first, or those below the number ``after``."""
        found: list[Summary] = []
        for summary in self._matching(wanted, after):
            if len(found) == limit:
                return Page(tuple(found), found[-1].number, self.newest)
            found.append(summary)
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
            asked += len(summary.gates) + len(summary.decided)
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
            return number is not None and self._folds.advance(self._heads[number], run in self._leased, most)

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
        self._folds.outdate(head.number)
        return True

    def _drop(self, number: int) -> None:
        head = self._heads.pop(number)
        self._count(head, -1)
        self._numbers.pop(head.run, None)
        self._folds.drop(number)

    def _count(self, head: Head | None, sign: int) -> None:
        if head is not None and head.status:
            self._sums = Ended(self._sums.runs + sign, self._sums.epochs + sign * head.epoch)

    def _asking(self, after: int | None = None) -> Iterator[Summary]:
        return (summary for summary in self._going(after) if summary.gates or summary.decided)

    def _going(self, after: int | None = None) -> Iterator[Summary]:
        for head in reversed(self._all()):
            if not head.status and (after is None or head.number < after):
                yield self._summary(head)

    def _matching(self, wanted: RunFilter, after: int | None) -> Iterator[Summary]:
        for head in reversed(self._all()):
            if (after is None or head.number < after) and wanted.fits_head(head):
                if wanted.status and self._status(head) not in wanted.status:
                    continue
                summary = self._summary(head)
                if wanted.fits(summary):
                    yield summary

    def _all(self) -> list[Head]:
        with self._lock:
            return list(self._heads.values())

    def _status(self, head: Head) -> str:
        with self._lock:
            return self._folds.status(head, head.run in self._leased)

    def _summary(self, head: Head) -> Summary:
        with self._lock:
            return self._folds.summary(head, head.run in self._leased)
