"""Both journals put through the same random lives, crashes and takeovers included: they must never disagree."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from planrunner.errors import PlanrunnerError
from planrunner.journal.leases import lock_path
from planrunner.journal.memory import MemoryJournal
from planrunner.journal.records import Lease, NewRun, StoredPlan
from planrunner.journal.sqlite import Journal, open_journal
from planrunner.machine.events import Entry, RunEnded, RunResumed, TaskQueued

if TYPE_CHECKING:
    from planrunner.machine.events import Event

RUNS = ("r1", "20261121-2259-k3f9qz")
EVENTS = st.sampled_from([TaskQueued("a"), TaskQueued("b"), RunResumed(2), RunEnded("completed"), RunEnded("failed")])


def attempt(act: Callable[[], Any]) -> Any:
    """What an act gives, or the kind of its failure."""
    try:
        return act()
    except (PlanrunnerError, ValueError) as error:
        return type(error)


class BothJournals(RuleBasedStateMachine):
    handles: Bundle[tuple[Lease, Lease]] = Bundle("handles")

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.state = os.path.join(self.folder, "state")
        self.disk: Journal = open_journal(self.state)
        self.memory = MemoryJournal()
        self.taken: list[Lease] = []

    @rule(target=handles, run=st.sampled_from(RUNS), events=st.lists(EVENTS, max_size=3))
    def create(self, run: str, events: list[Event]) -> Any:
        new = NewRun(run, "p", "d", 1.0, StoredPlan("d", "text", "p.yaml", "yaml"))
        entries = [Entry(seq, float(seq), event) for seq, event in enumerate(events, 1)]
        if self.disk.is_leased(run):
            return (Lease(run, 0, 0), Lease(run, 0, 0))
        return self.pair(lambda journal: journal.create_run(new, entries), run)

    @rule(target=handles, run=st.sampled_from(RUNS))
    def hold(self, run: str) -> Any:
        return self.pair(lambda journal: journal.acquire(run), run)

    def pair(self, act: Callable[[Any], Any], run: str) -> Any:
        on_disk, in_memory = attempt(lambda: act(self.disk)), attempt(lambda: act(self.memory))
        if isinstance(on_disk, Lease):
            self.taken.append(on_disk)
            assert (on_disk.epoch, on_disk.last_seq) == (in_memory.epoch, in_memory.last_seq)
            return on_disk, in_memory
        assert on_disk is in_memory
        return (Lease(run, 0, 0), Lease(run, 0, 0))  # as good as a released one

    @rule(pair=handles, events=st.lists(EVENTS, max_size=4), skip=st.sampled_from([0, 0, 0, 1]))
    def append(self, pair: tuple[Lease, Lease], events: list[Event], skip: int) -> None:
        first = pair[0].last_seq + 1 + skip
        entries = [Entry(seq, float(seq), event) for seq, event in enumerate(events, first)]
        on_disk = attempt(lambda: self.disk.append(pair[0], entries))
        assert on_disk is attempt(lambda: self.memory.append(pair[1], entries))
        assert pair[0].last_seq == pair[1].last_seq
        assert pair[0].broken == pair[1].broken

    @rule(pair=consumes(handles))
    def release(self, pair: tuple[Lease, Lease]) -> None:
        self.disk.release(pair[0])
        self.memory.release(pair[1])

    @rule(target=handles, pair=handles, events=st.lists(EVENTS, min_size=1, max_size=2))
    def take_over(self, pair: tuple[Lease, Lease], events: list[Event]) -> Any:
        """The holder was stopped, somebody else goes on, the holder wakes up and writes."""
        self.lose_every_lock()
        taken = self.hold(pair[0].run)
        self.append(pair, events, 0)
        return taken

    @rule()
    def lose_every_lock(self) -> None:
        for run in RUNS:
            if os.path.exists(lock_path(self.state, run)):
                os.unlink(lock_path(self.state, run))
        self.memory.crash()

    @rule()
    def reopen(self) -> None:
        self.disk.close()
        self.disk = open_journal(self.state)

    @invariant()
    def the_same_is_stored(self) -> None:
        rows = self.disk.runs()
        assert rows == self.memory.runs()
        for row in rows:
            entries = list(self.disk.entries(row.run))
            assert entries == list(self.memory.entries(row.run))
            assert [entry.seq for entry in entries] == list(range(1, row.last_seq + 1))

    def teardown(self) -> None:
        for handle in self.taken:
            self.disk.release(handle)
        self.disk.close()
        shutil.rmtree(self.folder)


TestBothJournals = BothJournals.TestCase
TestBothJournals.settings = settings(max_examples=25, stateful_step_count=20)
