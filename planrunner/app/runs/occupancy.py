"""Who acts in a working directory: files are never put back where a run acts, nor does a run act where they are.

A run is held before it looks for those who put files back, and those have their lock before they look for runs: of two
who begin at once at least one sees the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from planrunner.caller import workspace
from planrunner.errors import Hint, NextStep, RunHeld
from planrunner.journal import leases
from planrunner.machine.events import Entry, RunStarted

if TYPE_CHECKING:
    from planrunner.journal.ports import JournalPort


class Restoring:
    """The right to put files back: one process of a state directory has it at a time, and the kernel frees it when that
    dies. A run that the same process continues takes over this right together with its lease, without a
    gap. Raises RunHeld, StorageFailed."""

    __slots__ = ("_lease",)

    def __init__(self, state_dir: str, directory: str) -> None:
        self._lease = leases.RestoreLease(state_dir, directory)
        _OURS.append(self)

    def __enter__(self) -> Restoring:
        return self

    def __exit__(self, *_: object) -> None:
        if self in _OURS:
            _OURS.remove(self)
            self._lease.release()


_OURS: list[Restoring] = []
"""The right that this process has, if any."""


def directory_of(entries: Iterable[Entry]) -> str:
    """The working directory of a run, by its first entry."""
    for entry in entries:
        event = entry.event
        directory = event.environment.get("directory") if isinstance(event, RunStarted) else ""
        return str(directory or workspace().root)
    return ""  # it has yet to begin, and will look then


def refuse_runs(journal: JournalPort, directory: str) -> None:
    """Raises RunHeld where a run that a process holds works in ``directory``, in one inside it or around it."""
    for lease in journal.holders():
        there = directory_of(journal.entries(lease.run))
        if there and _meet(there, directory):
            message = f"run `{lease.run}` works in `{there}`, held by {lease.process}: no files are put back meanwhile"
            raise RunHeld(message, leases.way_out(lease.process, lease.run))


def refuse_restoring(state_dir: str, run: str, directory: str) -> None:
    """Raises RunHeld where files are being put back in the directory of a run that is held and about to act; where this
    process did so, it is done with that."""
    while _OURS:
        _OURS[-1].__exit__()
    found = leases.restoring(state_dir)
    if found is None:
        return
    holder, there = found
    if not there or _meet(there, directory):
        message = f"files are being put back in `{there or directory}` by {holder}: run `{run}` stands still"
        raise RunHeld(message, Hint("when that is done: ", NextStep("resume", run)))


def _meet(one: str, other: str) -> bool:
    """Whether two directories are one, or one lies in the other."""
    first, second = (os.path.join(os.path.realpath(path), "") for path in (one, other))
    return first.startswith(second) or second.startswith(first)
