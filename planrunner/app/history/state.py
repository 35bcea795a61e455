"""Runs read back from the journal: the plan they are pinned to and the state their events come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from planrunner.errors import Hint, NextStep, NotFound
from planrunner.journal.records import StoredPlan
from planrunner.journal.stores import shared_address
from planrunner.journal.workspace import find_project
from planrunner.later import Later
from planrunner.machine.events import Entry, RunRevised, RunStarted
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.plan import compiled
from planrunner.plan.model import Plan

if TYPE_CHECKING:
    from planrunner.journal.ports import JournalPort
    from planrunner.plan.identity import digest
    from planrunner.plan.load import load_stored
    from planrunner.plan.lower.plan import without_done
    from planrunner.plan.rules.view import Project
    from planrunner.plugins.registry import Registry
    from planrunner.safety.roster import roster_or_none
else:
    digest = Later("planrunner.plan.identity:digest")
    load_stored = Later("planrunner.plan.load:load_stored")
    without_done = Later("planrunner.plan.lower.plan:without_done")
    Project = Later("planrunner.plan.rules.view:Project")
    Registry = Later("planrunner.plugins.registry:Registry")
    roster_or_none = Later("planrunner.safety.roster:roster_or_none")


def stored_plan(journal: JournalPort, digest: str) -> Plan:
    """The plan a run is pinned to; the file it came from may have changed or gone. Raises NotFound."""
    if not digest:
        message = "`refused` is not a run: it records the plans that were refused"
        raise NotFound(message, Hint(NextStep("audit export", "refused", "--format", "text"), " shows it"))
    return plan_of(journal.plan(digest))


def whose(entries: Iterable[Entry]) -> str:
    """Where what a run kept lies, if not here: with a journal that a team shares, on the machine that it ran on. Empty
    where the journal is of this state directory alone."""
    if not shared_address():
        return ""
    begun = next((entry.event for entry in entries if isinstance(entry.event, RunStarted)), None)
    at = begun.environment if begun is not None else {}
    return f"contents stay with the member who ran it: {at.get('user', '?')} on {at.get('host', '?')} began the run"


@contextmanager
def told_whose(entries: Iterable[Entry]) -> Iterator[None]:
    """Lets a NotFound of a content say where that lies."""
    try:
        yield
    except NotFound as missing:
        if where := whose(entries):
            raise NotFound(str(missing), where) from None
        raise


def plan_of(stored: StoredPlan) -> Plan:
    """The plan in the form the machine sees it."""
    if stored.compiled is not None:
        try:
            return compiled.load(stored.compiled.decode())
        except ValueError:
            pass  # written by another version in its own layout: the text says the same
    plan = load_stored(stored.source(), Registry(), Project(roster=roster_or_none(find_project(stored.name))))
    return _as_stored(plan, stored.digest.partition("+")[0])


def _as_stored(plan: Plan, known: str) -> Plan:
    """The plan as the run has it: one whose digest knows no task for ``done`` is of a version that did not decide by
    it."""
    before = without_done(plan)
    return before if before != plan and digest(before) == known else plan


class Revisions(dict[str, Plan]):
    """The plans of a journal by digest, each read when it is asked for: what the revisions of a run are folded with."""

    def __init__(self, journal: JournalPort) -> None:
        super().__init__()
        self.journal = journal

    def __missing__(self, digest: str) -> Plan:
        plan = self[digest] = stored_plan(self.journal, digest)
        return plan


def fold_with(state: State, journal: JournalPort) -> None:
    """Read the revisions that a state has yet to fold from this journal: the one that it was begun with may be closed,
    or open in another thread."""
    if isinstance(state.plans, Revisions):
        state.plans.journal = journal


def later_plans(entries: Iterable[Entry]) -> list[str]:
    """Under which digests the journal has the plans of the revisions of a run."""
    revised = (entry.event for entry in entries if isinstance(entry.event, RunRevised))
    return list(dict.fromkeys(str(event.environment.get("text") or event.plan_digest) for event in revised))


def plan_after(journal: JournalPort, digest: str, entries: Iterable[Entry]) -> Plan:
    """The plan that a run has after some of its entries; ``digest`` is of the one it began with. Raises NotFound."""
    later = later_plans(entries)
    return stored_plan(journal, later[-1] if later else digest)


def begun(journal: JournalPort, run_id: str) -> State:
    """A run before its first entry, as the plan that it began with says; raises NotFound."""
    digest = journal.run(run_id).plan_digest
    first = next(journal.entries(run_id), None)
    if first is not None and isinstance(first.event, RunStarted):
        digest = str(first.event.environment.get("text") or digest)
    return State(stored_plan(journal, digest), run_id, Revisions(journal))


def stored_state(journal: JournalPort, run_id: str, entries: Iterable[Entry] | None = None) -> State:
    """The state of a run as its journal tells it, or as some of its ``entries`` do; raises NotFound."""
    state = begun(journal, run_id)
    for entry in journal.entries(run_id) if entries is None else entries:
        evolve(state, entry.event, entry.at)
    return state
