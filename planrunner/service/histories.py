"""The histories of runs that pages show, each folded once, however often its page is loaded."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

from fastapi import Depends, Request

from planrunner.app.history.profile import tail_of
from planrunner.app.history.state import begun, fold_with
from planrunner.app.runs.doubts import rest
from planrunner.engine.poller import TimeLine, boot
from planrunner.journal.ports import Journal
from planrunner.journal.stores import open_journal
from planrunner.records import Struct
from planrunner.service.context import Project
from planrunner.source import Source
from planrunner.views.page.drawer import Tail
from planrunner.views.page.story import Story

ENTRIES = 500_000
"""Entries of all kept histories together at most."""
TAIL = 6_000
"""Bytes of a log that a page shows."""


class Reading(Struct):
    """A run as it is at this moment. ``now`` is on its time line; ``leased`` says that a process acts on it; ``folder``
    is that of its logs."""

    run: str
    story: Story
    leased: bool
    now: float
    source: Source
    folder: str

    def tail(self, task: str, attempt: int) -> Tail | None:
        """The end of the log of an attempt; None where there is no file."""
        return tail_of(self.folder, task, attempt, TAIL)


class _CachedStory:
    """A story with what belongs to it. ``said`` are status and reason before it was said to rest."""

    def __init__(self, story: Story, source: Source) -> None:
        self.story, self.source = story, source
        self.line = TimeLine()
        self.lock = threading.RLock()
        self.said: tuple[str, str] | None = None

    def take(self, journal: Journal, run: str) -> None:
        """Fold what is new."""
        state = self.story.state
        fold_with(state, journal)
        for entry in journal.entries(run, self.story.seq):
            if self.said is not None:
                state.status, state.reason = self.said  # type: ignore[assignment]
                self.said = None
            self.line.see(entry)
            self.story.take((entry,))

    def rest(self) -> None:
        """Say how a run stands that no process acts on, unless that was said since its last entry."""
        state = self.story.state
        if self.said is not None or state.ended_at is not None:
            return
        self.said = state.status, state.reason
        rest(state)
        self.story.refresh()


class Histories:
    """The histories of runs, the least used given up first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], _CachedStory] = OrderedDict()

    @contextmanager
    def reading(self, project: Project, wanted: str) -> Iterator[Reading]:
        """A run by its id or the start of one, as it is while this lasts. Raises NotFound, StorageFailed."""
        with closing(open_journal(project.state, readonly=True)) as journal:
            run = journal.find_run(wanted)
            kept = self._of(journal, project, run)
            with kept.lock:
                leased = self._renew(journal, kept, run)
                now = kept.line.clock(boot()).now()
                folder = os.path.join(project.state, "logs", run)
                yield Reading(run, kept.story, leased, now, kept.source, folder)

    def _of(self, journal: Journal, project: Project, run: str) -> _CachedStory:
        key = (project.state, run)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and journal.run(run).last_seq >= kept.story.seq:
                self._kept.move_to_end(key)
                return kept
            state = begun(journal, run)
            first = next(journal.entries(run), None)
            text = getattr(first.event, "environment", {}).get("text") if first is not None else ""
            source = journal.plan(str(text or journal.run(run).plan_digest)).source()
            kept = self._kept[key] = _CachedStory(Story(state), source)
            self._give_up(key)
            return kept

    def _give_up(self, but: tuple[str, str]) -> None:
        held = sum(kept.story.seq for kept in self._kept.values())
        while held > ENTRIES and len(self._kept) > 1:
            key, kept = next((key, kept) for key, kept in self._kept.items() if key != but)
            held -= kept.story.seq
            del self._kept[key]

    def _renew(self, journal: Journal, kept: _CachedStory, run: str) -> bool:
        """Fold what is new and say whether a process acts on the run. One that ends its run gives up the lease after
        its last entry, so a run without a lease is read once more before it is said to rest."""
        try:
            kept.take(journal, run)
            leased = journal.is_leased(run)
            if not leased:
                kept.take(journal, run)
                kept.rest()
        except Exception:
            with self._lock:
                self._kept = OrderedDict((key, each) for key, each in self._kept.items() if each is not kept)
            raise
        return leased


def the_histories(request: Request) -> Histories:
    """The histories that this service keeps."""
    histories: Histories = request.app.state.histories
    return histories


HereHistories = Annotated[Histories, Depends(the_histories)]
"""The histories of runs."""
