"""Summaries of single runs, each made of a state that is folded on from where it ended the last time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable

from planrunner.app.follow.summary import Summary, from_row, summarised
from planrunner.app.history.state import begun, fold_with
from planrunner.errors import PlanrunnerError
from planrunner.journal.ports import Journal
from planrunner.journal.records import Head
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.machine.statuses import IllegalMove

FOLDED = 200_000
"""Tasks of all states together that stay folded."""

KEPT = 5_000
"""Summaries of runs that have ended which stay in memory."""


class StateCache:
    """States that stay folded, each with the number of its last entry. Their tasks together are ``most`` at most: those
    that were held longest ago go first, and are folded again when their run continues."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._states: OrderedDict[Hashable, tuple[int, State]] = OrderedDict()
        self._tasks = 0

    def seq(self, run: Hashable) -> int:
        """The last entry of the state of a run; 0 where none is held."""
        return self._states[run][0] if run in self._states else 0

    def take(self, run: Hashable) -> tuple[int, State] | None:
        """Give the state of a run away; it is held again once it was folded on."""
        held = self._states.pop(run, None)
        if held is not None:
            self._tasks -= len(held[1].tasks)
        return held

    def hold(self, run: Hashable, seq: int, state: State) -> None:
        """Keep a state that has ``seq`` as its last entry."""
        self._states[run] = seq, state
        self._tasks += len(state.tasks)
        while self._tasks > self._most and len(self._states) > 1:
            self.take(next(iter(self._states)))


class Folds:
    """The summaries by the number of their run; one thread at a time uses it.

    ``read`` gives a journal that is open for reading in the thread that asks. Of a run that has ended the summary is
    kept and the state is not.
    """

    def __init__(self, read: Callable[[], Journal]) -> None:
        self._read = read
        self._cache = StateCache(FOLDED)
        self._open: dict[int, Summary] = {}
        self._ended: OrderedDict[int, Summary] = OrderedDict()
        self._problems: dict[int, tuple[int, str]] = {}

    def summary(self, head: Head, leased: bool) -> Summary:
        """The summary of a run at the entry where ``head`` ends; made where there is none yet."""
        known = self.known(head, leased)
        if known is not None:
            return known
        summary = self._made(head, leased)
        if not head.status or leased:
            self._open[head.number] = summary
            return summary
        self._open.pop(head.number, None)
        self._cache.take(head.number)
        self._ended[head.number] = summary
        if len(self._ended) > KEPT:
            self._ended.popitem(last=False)
        return summary

    def advance(self, head: Head, leased: bool, most: int) -> bool:
        """Fold the next entries of a run that has not ended, ``most`` at most; whether there are more."""
        if head.status and head.number not in self._open:
            return False
        seq = most + self._cache.seq(head.number)
        if seq >= head.last_seq or head.number in self._problems:
            self.summary(head, leased)
            return False
        try:
            self._state(head._replace(last_seq=seq))
        except IllegalMove:
            return False  # the summary says so
        return True

    def drop(self, number: int) -> None:
        """Forget a run that was removed."""
        for known in (self._open, self._ended, self._problems):
            known.pop(number, None)
        self._cache.take(number)

    def outdate(self, number: int) -> None:
        """Make the summary of a run that had ended again."""
        self._ended.pop(number, None)

    def known(self, head: Head, leased: bool) -> Summary | None:
        """The summary of a run at the entry where ``head`` ends; None where none is kept."""
        known = self._open.get(head.number) or self._ended.get(head.number)
        if known is None or (known.last_seq, known.leased, known.ended) != (head.last_seq, leased, head.ended):
            return None
        return known

    def _made(self, head: Head, leased: bool) -> Summary:
        seq, problem = self._problems.get(head.number, (0, ""))
        if problem and seq == head.last_seq:
            return from_row(head, leased, problem)
        try:
            return summarised(self._state(head), head, leased)
        except (PlanrunnerError, IllegalMove) as error:
            self._cache.take(head.number)
            self._problems[head.number] = head.last_seq, str(error)
            return from_row(head, leased, str(error))

    def _state(self, head: Head) -> State:
        """The state of a run at the entry where ``head`` ends. One that was folded further is folded again: a summary
        and its number belong together."""
        journal = self._read()
        seq, state = self._cache.take(head.number) or (0, None)
        if state is None or seq > head.last_seq:
            seq, state = 0, begun(journal, head.run)
        fold_with(state, journal)
        for entry in journal.entries(head.run, seq) if seq < head.last_seq else ():
            if entry.seq > head.last_seq:
                break
            evolve(state, entry.event, entry.at)
            seq = entry.seq
        self._cache.hold(head.number, seq, state)
        return state
