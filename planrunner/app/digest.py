"""A digest of progress and blockers: every run that is open, and those that began or ended since a moment."""

from __future__ import annotations

import time
from typing import NamedTuple

from planrunner.app.inspect import RunSummary, all_rows, summary
from planrunner.app.reading import stored_state
from planrunner.app.resting import rest
from planrunner.errors import NotFound
from planrunner.journal.sqlite import Journal, open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.state import State
from planrunner.views.gates import gate_facts
from planrunner.views.status import pairs, shown_counts


class Blocker(NamedTuple):
    """What a run waits for: the name that people answer to, what is asked, and since when (seconds since 1970, None:
    not known)."""

    name: str
    ask: str
    since: float | None = None


class Digested(NamedTuple):
    """A run of a digest. ``counts`` are its tasks by status (empty for one that completed), ``failures`` the tasks that
    failed, each with the reason."""

    run: RunSummary
    counts: dict[str, int] = {}
    blockers: tuple[Blocker, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()


def digest(since: float, state: str | None) -> list[Digested]:
    """The runs that are not over, and those that began or ended from ``since`` on, the newest first. A place without
    runs gives an empty list."""
    try:
        journal = open_journal(find_state(None, state), readonly=True)
    except NotFound:
        return []
    try:
        runs = [summary(journal, row) for row in all_rows(journal)]
        wanted = [run for run in runs if run.ended is None or max(run.created, run.ended) >= since]
        return [_digested(journal, run) for run in wanted]
    finally:
        journal.close()


def _digested(journal: Journal, run: RunSummary) -> Digested:
    if run.status == "completed":
        return Digested(run)
    state = stored_state(journal, run.run)
    if run.status not in ("running", "failed", "cancelled"):
        rest(state)
    failures = tuple((task.id, found.detail) for task, found in pairs(state) if found.status == "failed")
    counts = {status: count for status, count in shown_counts(state).items() if count}
    return Digested(run, counts, tuple(_blockers(state)) if run.ended is None else (), failures)


def _blockers(state: State) -> list[Blocker]:
    asked = [Blocker(each["gate"], each["ask"], each.get("since")) for each in gate_facts(state, time.time())]
    doubts = [Blocker(task.id, found.detail) for task, found in pairs(state) if found.status == "in_doubt"]
    return asked + doubts
