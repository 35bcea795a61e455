"""Groups: of the runs of one group one goes on at a time, whatever process acts on it.

The turn of a group is a lock that the kernel frees when its holder dies. A run that is parked or paused has let go of
it, and waits for its turn again before it goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256

from planrunner.app.runs.control import steer
from planrunner.app.runs.execute import RunResult, Site, warn
from planrunner.errors import Hint, NextStep, NotFound, RunHeld, UsageError
from planrunner.journal.process_leases import ProcessLease, process_with, word_of
from planrunner.records import Struct

LOOK = 0.1
"""Seconds between two looks at whether the turn is free."""


class Group(Struct):
    """A group by its name; ``overlap`` says what happens while another run of it goes on, in the words of triggers:
    ``queue`` waits for it, ``skip`` refuses, ``cancel`` cancels it first."""

    name: str
    overlap: str = "queue"


def in_turn(site: Site, group: Group, run: str, act: Callable[[Site], RunResult]) -> RunResult:
    """Do ``act`` while it is the turn of a run (empty: of one that is about to begin). A run of a queue does not wait
    here: the queue does. Raises RunHeld where another one goes on and this one does not wait, UsageError for one of a
    queue that is to be skipped."""
    lease = ProcessLease(site.state_dir, _lock_of(group.name))
    try:
        _wait(site, group, lease)
        lease.tell(run)
        return act(site._replace(named=lease.tell))
    finally:
        lease.release()


def refuse_overlap(state: str, name: str) -> None:
    """Raises RunHeld where a run of a group goes on."""
    lock = _lock_of(name)
    if holder := process_with(state, lock):
        raise _held(word_of(state, lock), holder, name)


def _lock_of(name: str) -> str:
    return f"group.{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def _held(run: str, holder: str, group: str) -> RunHeld:
    way_out = Hint(NextStep("show", run), " shows it") if run else ""
    return RunHeld(f"{f'run {run}' if run else holder} of the group `{group}` goes on", way_out)


def _wait(site: Site, group: Group, lease: ProcessLease) -> None:
    name, told, cancelled = _lock_of(group.name), "", ""
    while not lease.take():
        other = word_of(site.state_dir, name)
        if group.overlap == "cancel" and other not in ("", cancelled):
            cancelled = other
            _cancel(site, group, other)
        held = _held(other, process_with(site.state_dir, name) or "another run", group.name)
        if group.overlap == "skip" and site.switch is not None:
            raise UsageError(f"skipped: {held.message}")
        if group.overlap == "skip" or site.switch is not None:
            raise held
        if told != other:
            told = other
            warn(site.watch, (f"waits: {held.message}",))
        time.sleep(LOOK)


def _cancel(site: Site, group: Group, run: str) -> None:
    try:
        steer(run, "cancel", {"reason": f"a newer run of the group `{group.name}`"}, site.state_dir)
    except (NotFound, UsageError, RunHeld):
        return  # it is over, or ends when it reads what was asked
