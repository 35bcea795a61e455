"""The record of plans that were not let start: no run tells of them, so the journal keeps them by themselves.

It stands among the runs, named ``refused`` and without a plan, and is chained, verified and exported like one; what
lists runs leaves it out. Whoever is refused may ask again and again, so an hour adds a bounded number to it.
"""

from __future__ import annotations

import os
import time
from hashlib import sha256
from typing import NamedTuple

from planrunner.app.asking import user
from planrunner.errors import Denied, NotFound, PlanrunnerError, RunHeld, UsageError
from planrunner.fileio import read_regular
from planrunner.journal.records import NewRun, RunHandle
from planrunner.journal.sqlite import Journal, open_journal
from planrunner.journal.workspace import find_project, find_state, is_marked, why_outside
from planrunner.machine.events import Entry, PlanRefused
from planrunner.plan.escapes import escaped
from planrunner.redaction import Redactor, masked
from planrunner.safety.credentials import Unresolved, read_credentials, value_of

NAME = "refused"
SAME, MOST, WITHIN = 5, 100, 3600.0
"""So many of the same plan, rule and user, and so many of any, are kept in so many seconds."""
_PATIENCE = 30.0
"""Seconds to wait for others who write to the record."""
_LONGEST = 2000
_LARGEST = 8 << 20


class _Place(NamedTuple):
    """The state directory that a refusal is kept in, and the project it belongs to."""

    state: str
    project: str


def keep(denied: Denied, chosen: str | None) -> None:
    """Keep that a plan was not let start; ``chosen`` is the state directory of the command. Nothing is written beside a
    plan from elsewhere, nor where there is neither a project nor a state directory. Raises PlanrunnerError and OSError
    where it cannot be kept."""
    place = _place(denied.plan, chosen)
    if place is None:
        return
    journal = open_journal(place.state)
    try:
        now = time.time()
        event = _refusal(denied, place.project)
        if _quiet(journal, event, now) is None:
            return
        handle = _handle(journal, now)
        try:
            quiet = _quiet(journal, event, now)  # again: others may have come first
            if quiet is not None:
                journal.append(handle, [Entry(handle.last_seq + 1, now, event._replace(quiet=quiet))])
        finally:
            journal.release(handle)
    finally:
        journal.close()


def _place(plan: str, chosen: str | None) -> _Place | None:
    own = plan if os.path.lexists(plan) and not why_outside(plan) else None
    state, project = find_state(own, chosen), find_project(own)
    wanted = chosen or os.environ.get("PLANRUNNER_STATE") or os.path.lexists(state) or is_marked(project)
    return _Place(state, project) if wanted else None


def _refusal(denied: Denied, project: str) -> PlanRefused:
    redactor = _redactor(project)

    def shown(text: str) -> str:
        lines = masked(redactor.text(text)).splitlines()
        return "\n".join(map(escaped, lines))[:_LONGEST]

    path = os.path.abspath(denied.plan) if os.path.lexists(denied.plan) else denied.plan
    here = {"user": user(), "uid": os.getuid(), "host": os.uname().nodename}
    digest = denied.digest or _digest(denied.plan)
    return PlanRefused(shown(path), denied.rule, shown(denied.message), digest, here)


def _digest(path: str) -> str:
    """The digest of a file that nobody has read; empty where there is none, or a larger one than a plan may be."""
    try:
        found = read_regular(path, _LARGEST + 1)
    except (OSError, ValueError):
        return ""
    return f"bytes:sha256:{sha256(found).hexdigest()}" if len(found) <= _LARGEST else ""


def _redactor(project: str) -> Redactor:
    """Knows the credentials of the project that can be had without starting anything."""
    found = Redactor()
    try:
        credentials = read_credentials(project).values()
    except PlanrunnerError:
        return found  # then the file itself is what lets nothing start
    for each in credentials:
        if each.source in ("env", "file"):
            try:
                found.add(each.id, value_of(each, os.environ))
            except Unresolved:
                continue
    return found


def _quiet(journal: Journal, event: PlanRefused, now: float) -> str | None:
    """What an event has to say of those that follow it; None where it is not kept itself."""
    try:
        last = journal.run(NAME).last_seq
    except NotFound:
        return ""
    entries = journal.entries(NAME, max(0, last - MOST))
    recent = [each.event for each in entries if abs(now - each.at) < WITHIN and isinstance(each.event, PlanRefused)]
    same = sum(_key(each) == _key(event) for each in recent)
    if len(recent) >= MOST or same >= SAME:
        return None
    return "all" if len(recent) == MOST - 1 else "same" if same == SAME - 1 else ""


def _key(event: PlanRefused) -> tuple[object, ...]:
    return (event.plan, event.digest, event.rule, event.environment.get("uid"))


def _handle(journal: Journal, now: float) -> RunHandle:
    """The right to write to the record, which is begun where there is none. Raises RunHeld after some patience."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return _held(journal, now)
        except UsageError:
            continue  # another process began the record first
        except RunHeld:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _held(journal: Journal, now: float) -> RunHandle:
    try:
        return journal.hold(NAME)
    except NotFound:
        return journal.create_run(NewRun(NAME, "", "", now))
