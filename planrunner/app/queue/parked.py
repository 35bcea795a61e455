"""Runs that wait for people or for a time: which of them may go on. What nothing has touched is not read."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import Any, NamedTuple

from planrunner.app.history.state import stored_state
from planrunner.app.queue.items import ENDS, Status
from planrunner.app.queue.store import Store
from planrunner.app.runs.doubts import rest
from planrunner.app.runs.execute import RunResult
from planrunner.errors import WAITING, NotFound, PlanrunnerError
from planrunner.journal.ports import Journal
from planrunner.journal.records import RunRow
from planrunner.journal.stores import open_journal
from planrunner.machine.decide import next_time
from planrunner.machine.state import State
from planrunner.machine.stops import FINAL_STOPS
from planrunner.records import Struct

_AGAIN = 60.0
"""Seconds after which a run that could not be read is looked at again."""
_SHARE = 20
"""A look at all that is parked is followed by so many times its length without one."""


class Place(NamedTuple):
    """Where a parked run stands: its last entry, and when it goes on by itself (seconds since 1970)."""

    seen: int
    wakes: float | None


class Note(Struct):
    """What is to be written of an item."""

    run: str
    status: Status
    fields: dict[str, Any]


def _write(store: Store, note: Note) -> None:
    store.note(note.run, note.status, **note.fields)


class Parked:
    """The parked runs of a state directory."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._places: dict[str, Place] = {}
        self._journal: Journal | None = None
        self._next_look = 0.0
        self._is_stale = True

    def forget(self) -> None:
        self._places.clear()
        self._is_stale = True

    def add(self, run: str, seen: int, wakes: float | None) -> None:
        self._places[run] = Place(seen, wakes)

    def pause(self) -> float:
        """Seconds until the next run goes on by itself."""
        times = [place.wakes for place in self._places.values() if place.wakes is not None]
        return max(0.0, min(times) - time.time()) if times else 60.0

    def park(self, store: Store, run: str, result: RunResult) -> None:
        """Note a run that has parked; inside ``writing``."""
        state = result.state
        self.note(store, run, result.entries_seen, wakes(state), why(state), result.exit_code)

    def note(self, store: Store, run: str, seen: int, at: float | None, reason: str, code: int) -> None:
        """Note that a run waits, until ``at`` or until its journal grows beyond ``seen``; inside ``writing``."""
        self._is_stale = True  # something may have been decided since
        _write(store, self._waits(run, seen, at, reason, code))

    def look(self, store: Store) -> None:
        """Put what may go on into the queue again, before what has not had its turn."""
        found = [note for run in self._moved() if (note := self._told(run)) is not None]
        if found:
            with store.writing():
                for note in found:
                    if store.task(note.run).item.status == "parked":
                        _write(store, note)
                    else:  # it was asked for again since it was looked at, and has its turn
                        self._places.pop(note.run, None)

    def is_over(self, store: Store, run: str) -> bool:
        """Note the end of a run that has ended elsewhere; whether it has. Inside ``writing``."""
        note = self._over(self._opened().run(run))
        if note is not None:
            _write(store, note)
        return note is not None

    def _moved(self) -> list[str]:
        """The runs whose time has come, and those whose journal has grown."""
        if not self._places:
            return []
        now, at = time.time(), time.monotonic()
        due = [run for run, place in self._places.items() if place.wakes is not None and place.wakes <= now]
        if at < self._next_look:
            return due
        with suppress(NotFound):
            journal = self._opened()
            if journal.touched() or self._is_stale:
                self._is_stale = False
                grown = [run for run, place in self._places.items() if self._has_grown(journal, run, place)]
                self._next_look = at + _SHARE * (time.monotonic() - at)
                return list(dict.fromkeys((*due, *grown)))
        return due

    def _has_grown(self, journal: Journal, run: str, place: Place) -> bool:
        try:
            return journal.run(run).last_seq != place.seen or bool(journal.waiting(run))
        except NotFound:
            return place.seen > 0  # else it has yet to begin: it waits for the turn of its group

    def _told(self, run: str) -> Note | None:
        """As ``_weighed``; a run that cannot be read keeps no other one waiting."""
        try:
            return self._weighed(run)
        except NotFound:
            if not self._places.pop(run).seen:
                return Note(run, "waiting", {"ahead": 1, "wakes": None})
            return Note(run, "cancelled", {"ended": time.time(), "reason": "the run was removed from the journal"})
        except PlanrunnerError as error:
            at = time.time() + _AGAIN
            return self._waits(run, self._places[run].seen, at, error.message, error.exit_code)

    def _weighed(self, run: str) -> Note | None:
        """How one run stands: it is over, goes on, or waits on. None while another process acts on it."""
        journal, place = self._opened(), self._places[run]
        row = journal.run(run)
        if (note := self._over(row)) is not None:
            return note
        if row.leased:  # the process that acts on it writes how it stands, or lets go of it
            self._places[run] = Place(place.seen, time.time() + 1.0)
            return None
        state = stored_state(journal, run)
        due = place.wakes is not None and place.wakes <= time.time()
        if goes_on(state) or journal.waiting(run) or (due and row.last_seq == place.seen):
            del self._places[run]
            return Note(run, "waiting", {"ahead": 1, "wakes": None, "reason": ""})
        return self._waits(run, row.last_seq, wakes(state), why(state), WAITING)

    def _over(self, row: RunRow) -> Note | None:
        if not row.status:
            return None
        self._places.pop(row.run, None)
        return Note(row.run, ENDS[row.status], {"ended": row.ended, "reason": "", "carried": 1})

    def _waits(self, run: str, seen: int, at: float | None, reason: str, code: int) -> Note:
        self._places[run] = Place(seen, at)
        return Note(run, "parked", {"seen": seen, "wakes": at, "reason": reason, "code": code, "carried": 1})

    def _opened(self) -> Journal:
        if self._journal is None:
            self._journal = open_journal(self._state, readonly=True)
        return self._journal

    def close(self) -> None:
        if self._journal is not None:
            with closing(self._journal):
                self._journal = None


def goes_on(state: State) -> bool:
    """Whether something can be done in a run that stands still: people have decided, it is to end, or its process was
    cut off. Gives the state the status that every command shows."""
    cut_off = state.status == "running"
    return bool(rest(state)) or cut_off or state.stop_reason in FINAL_STOPS


def wakes(state: State) -> float | None:
    """When a parked run goes on by itself, in seconds since 1970; None for one that a person has paused."""
    return next_time(state, time.time()) if state.status == "blocked" else None


def why(state: State) -> str:
    """Why a run stands still, in a few words."""
    if state.status != "blocked":
        return state.reason
    waiting = [
        task.id for task, kept in zip(state.specs, state.tasks) if kept.status in ("blocked", "in_doubt") and task.id
    ]
    more = f" and {len(waiting) - 3} more" if len(waiting) > 3 else ""
    return f"waits for people: {', '.join(waiting[:3])}{more}"
