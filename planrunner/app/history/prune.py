"""Removes runs that have ended, and what only they kept."""

from __future__ import annotations

import math
import os
import shutil
import time
from typing import Any

from planrunner.app.history.artifacts import GRACE, collected, default_retention
from planrunner.app.history.state import stored_state
from planrunner.caller import principal
from planrunner.errors import PlanrunnerError, StorageFailed
from planrunner.journal.artifacts import versions
from planrunner.journal.ports import Journal
from planrunner.journal.records import RunRow
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.events import RunForked

Json = Any


_FOLDERS = ("logs", "tmp")
"""Folders of a state directory that have one of their own for each run."""
_ALL = 1 << 40


def prune(
    state: str | None, keep: int | None = None, older_than: float | None = None, dry_run: bool = False
) -> dict[str, Json]:
    """Remove the runs that are not among the ``keep`` newest and that ended more than ``older_than`` seconds ago, as
    far as either is given; ``dry_run`` only looks. Gives their ids, how many events they had, the bytes of files that
    went, the versions of ``artifacts`` that were to be kept and go with their runs, and the runs among them that are
    ``spared``, each with the reason.

    Raises NotFound where there are no runs, StorageFailed, RecordMismatch for a place that came from elsewhere.
    """
    state_dir = find_state(None, state)
    open_journal(state_dir, readonly=True).close()  # nothing is made where there are no runs
    journal = open_journal(state_dir, readonly=dry_run)
    gone: list[RunRow] = []
    spared: list[dict[str, str]] = []
    parents: set[str] = set()
    try:
        kept = [version for version in versions(journal, default_retention(state_dir)) if not version.over]
        before = math.inf if older_than is None else time.time() - older_than
        for place, row in enumerate(journal.runs(_ALL)):  # the newest first: a fork comes before what it came from
            if not row.status:
                # the runs that it continues: the keys of its attempts are those of the first
                forks = (entry.event for entry in journal.entries(row.run) if isinstance(entry.event, RunForked))
                parents.update(fork.parent for fork in forks)
            if place < (keep or 0) or (row.created if row.ended is None else row.ended) >= before:
                continue
            why = _why_spared(journal, row, parents)
            if not why and not dry_run:
                try:
                    journal.retention().remove(row, time.time(), principal().name)
                except StorageFailed:
                    raise
                except PlanrunnerError as error:
                    why = error.message
            if why:
                spared.append({"run_id": row.run, "why": why})
            else:
                gone.append(row)
        freed = 0
        if not dry_run:
            journal.retention().drop_plans()
            freed = _tidied(state_dir, journal.retention().pruned())
    finally:
        journal.close()
    if not dry_run and os.path.isdir(os.path.join(state_dir, "artifacts")):
        freed += collected(state, GRACE).freed
    runs, events = [row.run for row in gone], sum(row.last_seq for row in gone)
    artifacts = [version.ref for version in kept if version.run in runs]
    told: dict[str, Json] = {"pruned": runs, "events": events, "freed": freed}
    return {**told, "artifacts": artifacts, "spared": spared, "dry_run": dry_run}


def _why_spared(journal: Journal, row: RunRow, parents: set[str]) -> str:
    """Why a run may not be removed; empty if it may."""
    if row.leased:
        return "a process acts on it"
    if not row.status:
        return "it has not ended"
    if row.run in parents:
        return "a run that has not ended was forked from it"
    if journal.waiting(row.run):
        return "a request waits for it"
    try:
        found = stored_state(journal, row.run)
        if found.status != row.status or found.ended_at is None:
            return "its events do not tell that it has ended"
    except PlanrunnerError as error:
        return error.message
    if any(task.status in ("in_doubt", "running") for task in found.tasks):
        return "a task of it is in doubt"
    if found.compensation_log is not None and found.compensation_log.active:
        return "it is being rolled back"
    return ""


def _tidied(state_dir: str, runs: list[str]) -> int:
    """Remove what lies in folders of pruned runs, also of those whose pruning was cut off; the bytes that it had.
    Raises StorageFailed."""
    freed = 0
    for kind in _FOLDERS:
        for run in runs:
            folder = os.path.join(state_dir, kind, run)
            if not os.path.isdir(folder) or os.path.islink(folder):
                continue
            try:
                freed += sum(
                    os.lstat(os.path.join(place, name)).st_size for place, _, names in os.walk(folder) for name in names
                )
                shutil.rmtree(folder)
            except OSError as error:
                hint = "fix that, then run the command again: it continues with what is left"
                raise StorageFailed(f"`{folder}` cannot be removed: {error.strerror}", hint) from error
    return freed
