"""Requests to a run, from whoever steers it to whoever holds it."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

from planrunner.engine.calls import Place
from planrunner.engine.loop import answer
from planrunner.journal.records import Answer, RunHandle
from planrunner.machine.events import Entry
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State

if TYPE_CHECKING:
    from planrunner.journal.ports import JournalPort


def user() -> str:
    """Who acts: the name by which the system knows the caller."""
    name = os.environ.get("USER") or os.environ.get("LOGNAME")
    if not name:
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = str(os.getuid())
    return name


def answer_waiting(journal: JournalPort, handle: RunHandle, state: State, now: float) -> None:
    """Fold and store what follows from every waiting request of a run that is held and stands still at ``now``.

    No effect starts: that is for whoever drives the run next. Raises StorageFailed, Fenced.
    """
    waiting = journal.waiting(handle.run)
    if not waiting:
        return
    # Late: few runs are steered.
    if state.status == "running":  # its runner is gone, and nothing of it goes on
        state.status, state.reason = "paused", "cut off"
    entries: list[Entry] = []
    answers: list[tuple[int, Answer]] = []
    place = Place(str(state.environment.get("directory") or os.getcwd()), "")
    for request in waiting:
        found = answer(state, request, place, now)
        for event in found.events:
            evolve(state, event, now)
            entries.append(Entry(handle.last_seq + len(entries) + 1, now, event))
        answers.append((request.id, Answer(found.applied, found.message, found.code)))
    journal.append(handle, entries, answers)
