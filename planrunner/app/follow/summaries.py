"""Summaries of all runs of a state directory, by the last entry of each: no history is folded twice."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from planrunner.app.follow.summary import Summary, bare, summarised
from planrunner.app.history.show import parked
from planrunner.app.history.state import begun
from planrunner.errors import PlanrunnerError
from planrunner.journal.ports import Journal
from planrunner.journal.records import Ended, Head, no_match
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.machine.statuses import IllegalMove

FOLDED = 200_000
"""Tasks of all states together that stay folded; the states that were looked at longest ago go first, and are folded
again when their run goes on."""

KEPT = 5_000
"""Summaries of runs that have ended which stay in memory."""


class RunFilter(NamedTuple):
    """Runs that stand as one of ``status``, of the plan with the id ``plan``, started by ``by``, begun from ``since``
    on and before ``until`` (seconds since 1970), with ``text`` in the id of the run or in id, title or file of its
    plan; with ``waiting`` only those that ask people something. What is empty or None asks for nothing."""

    status: tuple[str, ...] = ()
    plan: str = ""
    by: str = ""
    text: str = ""
    since: float | None = None
    until: float | None = None
    waiting: bool = False

    def fits_head(self, head: Head) -> bool:
        """What the row of a run answers, without its entries."""
        return (
            (not self.plan or head.plan_id == self.plan)
            and (self.since is None or head.created >= self.since)
            and (self.until is None or head.created < self.until)
            and not (self.waiting and head.status)
        )

    def fits(self, summary: Summary) -> bool:
        """What only the state of a run answers."""
        words = (summary.run, summary.plan_id, summary.title, summary.plan_file)
        return (
            (not self.by or summary.started_by == self.by)
            and (not self.text or any(self.text.casefold() in word.casefold() for word in words))
            and (not self.waiting or bool(summary.gates))
        )

    @property
    def looks_inside(self) -> bool:
        """Whether ``fits`` asks for anything."""
        return bool(self.by or self.text or self.waiting)


ALL = RunFilter()


class Page(NamedTuple):
    """Some runs, the newest first. ``after`` asks for those that follow (None: there are no more); ``newest`` is the
    number of the newest run there is, whatever the filter."""

    runs: tuple[Summary, ...]
    after: int | None
    newest: int


class _Folded:
    """The state of a run up to the entry ``seq``."""

    __slots__ = ("seq", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.seq = 0


class Summaries:
    """What lists, counts and the inbox are made of. Any thread may ask; the ``Follower`` brings it up to date.

    ``read`` gives a journal that is open for reading in the thread that asks. ``version`` goes up with every change.
    """

    def __init__(self, read: Callable[[], Journal]) -> None:
        self._read = read
        self._lock = threading.RLock()
        self._heads: dict[int, Head] = {}
        self._numbers: dict[str, int] = {}
        self._leased: frozenset[str] = frozenset()
        self._folded: OrderedDict[int, _Folded] = OrderedDict()
        self._tasks = 0
        self._open: dict[int, Summary] = {}
        self._ended: OrderedDict[int, Summary] = OrderedDict()
        self._standing: dict[int, tuple[int, str]] = {}
        """Status of runs that were not folded yet, at an entry."""
        self._problems: dict[int, tuple[int, str]] = {}
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
        number = self._numbers.get(run)
        if number is None:
            raise no_match(run, tuple(self._numbers))
        return self._summary(self._heads[number])

    def counts(self) -> dict[str, int]:
        """How many runs there are of each status."""
        with self._lock:
            return dict(Counter(self._status(head) for head in self._heads.values()))

    def waiting(self) -> tuple[Summary, ...]:
        """The runs that ask people something or have an answer and wait to be resumed, the newest first."""
        asking = (summary for summary in self._unended() if summary.gates or summary.decided)
        return tuple(sorted(asking, key=lambda summary: -summary.number))

    def going(self) -> tuple[Summary, ...]:
        """The runs that have not ended, the newest first."""
        return tuple(sorted(self._unended(), key=lambda summary: -summary.number))

    def plans(self) -> dict[str, int]:
        """How many runs there are of each plan, by its id."""
        with self._lock:
            return dict(Counter(head.plan_id for head in self._heads.values()))

    def since(self, newest: int) -> tuple[str, ...]:
        """The runs with a number above ``newest``, as ``Page`` has it: what a list does not show yet."""
        with self._lock:
            return tuple(head.run for number, head in self._heads.items() if number > newest)

    def last_seq(self, run: str) -> int:
        """The number of the last known entry of a run; 0 for one that is not known."""
        number = self._numbers.get(run)
        return 0 if number is None else self._heads[number].last_seq

    @property
    def newest(self) -> int:
        """The number of the newest run; 0 without any."""
        return next(reversed(self._heads), 0)

    # What the follower calls

    def refresh(self, journal: Journal) -> frozenset[str]:
        """Take up what was written since; gives the runs that have new entries or are gone."""
        heads = journal.heads(self.newest)
        with self._lock:
            changed = self._take(heads, journal)
            if self._sums != journal.ended():
                changed |= self._replace(journal.heads())
        if changed:
            self.version += 1
        return frozenset(changed)

    def lease(self, leased: frozenset[str]) -> frozenset[str]:
        """Say which runs processes act on; gives those of which that has changed."""
        with self._lock:
            changed = self._leased ^ leased
            self._leased = leased
        if changed:
            self.version += 1
        return changed

    def fold(self, run: str, most: int) -> bool:
        """Fold the next entries of a run that is going on, ``most`` at most, before somebody asks for it; whether there
        are more."""
        with self._lock:
            number = self._numbers.get(run)
            if number is None or (self._heads[number].status and number not in self._open):
                return False
            head = self._heads[number]
            folded = self._folded.get(number)
            seq = folded.seq if folded is not None else 0
            if number in self._problems or seq + most >= head.last_seq:
                self._summary(head)
                return False
            try:
                self._state(head._replace(last_seq=seq + most))
            except IllegalMove:
                return False  # the summary says so
            return True

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
        changed = {head.run for head in heads if self._put(head)}
        for number in open_before.difference(head.number for head in heads):
            head = journal.head(number)
            changed.add(self._heads[number].run)
            if head is None:
                self._drop(number)
            else:
                self._put(head)
        return changed

    def _put(self, head: Head) -> bool:
        known = self._heads.get(head.number)
        if known == head:
            return False
        self._count(known, -1)
        self._count(head, 1)
        self._heads[head.number] = head
        self._numbers[head.run] = head.number
        self._ended.pop(head.number, None)
        return True

    def _count(self, head: Head | None, sign: int) -> None:
        if head is not None and head.status:
            self._sums = Ended(self._sums.runs + sign, self._sums.epochs + sign * head.epoch)

    def _drop(self, number: int) -> None:
        self._count(self._heads[number], -1)
        self._numbers.pop(self._heads.pop(number).run, None)
        self._ended.pop(number, None)
        self._open.pop(number, None)
        self._problems.pop(number, None)
        self._standing.pop(number, None)
        self._forget(number)

    def _replace(self, heads: list[Head]) -> set[str]:
        """Take all rows, after one of a run that had ended changed."""
        there = {head.number for head in heads}
        gone = [number for number in self._heads if number not in there]
        changed = {self._heads[number].run for number in gone}
        for number in gone:
            self._drop(number)
        return changed | {head.run for head in heads if self._put(head)}

    def _matching(self, wanted: RunFilter, after: int | None) -> Iterator[Summary]:
        with self._lock:
            heads = [head for number, head in self._heads.items() if after is None or number < after]
        for head in reversed(heads):
            if wanted.fits_head(head) and (not wanted.status or self._status(head) in wanted.status):
                summary = self._summary(head)
                fits = not wanted.looks_inside or wanted.fits(summary)
                if fits and (not wanted.status or summary.status in wanted.status):
                    yield summary

    def _unended(self) -> Iterator[Summary]:
        with self._lock:
            heads = [head for head in self._heads.values() if not head.status]
        return map(self._summary, heads)

    def _status(self, head: Head) -> str:
        """As ``Summary.status``; of a run that was not folded yet its last entry tells."""
        if head.run in self._leased or head.status:
            return "running" if head.run in self._leased else head.status
        known = self._open.get(head.number)
        if known is not None and (known.last_seq, known.leased) == (head.last_seq, False):
            return known.status
        seq, status = self._standing.get(head.number, (0, ""))
        if seq != head.last_seq:
            status, _ = parked(self._read(), head.run, head.last_seq)
            self._standing[head.number] = head.last_seq, status
        return status

    def _summary(self, head: Head) -> Summary:
        """Of a run that has ended it is kept by itself, of any other as long as it has no new entries."""
        with self._lock:
            leased = head.run in self._leased
            known = self._open.get(head.number) or self._ended.get(head.number)
            if known is not None and (known.last_seq, known.leased, known.ended) == (head.last_seq, leased, head.ended):
                return known
            summary = self._made(head, leased)
            self._standing.pop(head.number, None)
            if head.status and not leased:
                self._open.pop(head.number, None)
                self._forget(head.number)
                self._ended[head.number] = summary
                if len(self._ended) > KEPT:
                    self._ended.popitem(last=False)
            else:
                self._open[head.number] = summary
            return summary

    def _made(self, head: Head, leased: bool) -> Summary:
        seq, problem = self._problems.get(head.number, (0, ""))
        if problem and seq == head.last_seq:
            return bare(head, leased, problem)
        try:
            return summarised(self._state(head), head, leased)
        except (PlanrunnerError, IllegalMove) as error:
            self._forget(head.number)
            self._problems[head.number] = head.last_seq, str(error)
            return bare(head, leased, str(error))

    def _state(self, head: Head) -> State:
        """The state of a run at its last known entry. One that was folded further is folded again: summary and number
        belong together."""
        folded = self._folded.get(head.number)
        journal = self._read()
        if folded is None or folded.seq > head.last_seq:
            self._forget(head.number)
            folded = _Folded(begun(journal, head.run))
        else:
            self._tasks -= len(self._folded.pop(head.number).state.tasks)
        if folded.seq < head.last_seq:
            for entry in journal.entries(head.run, folded.seq):
                if entry.seq > head.last_seq:
                    break
                evolve(folded.state, entry.event, entry.at)
                folded.seq = entry.seq
        self._keep(head.number, folded)
        return folded.state

    def _keep(self, number: int, folded: _Folded) -> None:
        self._folded[number] = folded
        self._tasks += len(folded.state.tasks)
        while self._tasks > FOLDED and len(self._folded) > 1:
            _, oldest = self._folded.popitem(last=False)
            self._tasks -= len(oldest.state.tasks)

    def _forget(self, number: int) -> None:
        folded = self._folded.pop(number, None)
        if folded is not None:
            self._tasks -= len(folded.state.tasks)
