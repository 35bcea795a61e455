"""The run that a run is held against: the last one of its plan that completed before it began."""

from __future__ import annotations

from contextlib import closing

from planrunner.app.handoff.postmortem import Before
from planrunner.app.history.compare import Recorded, comparison, recorded
from planrunner.app.history.show import all_rows
from planrunner.journal.records import RunRow
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state

LOOKED_AT = 500
"""Runs before it that are looked through."""


def last_completed(run: Recorded, row: RunRow, state: str | None) -> Before | None:
    """The last run of the plan that completed before this one began, compared with it; None where there is none."""
    with closing(open_journal(find_state(None, state), readonly=True)) as journal:
        for seen, other in enumerate(all_rows(journal)):
            if seen >= LOOKED_AT:
                return None
            fits = other.plan_id == row.plan_id and other.run != row.run and other.status == "completed"
            if fits and other.created < row.created:
                return Before(other.run, comparison(recorded(other.run, state), run))
    return None
