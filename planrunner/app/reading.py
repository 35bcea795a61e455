"""Runs read back from the journal: the plan they are pinned to and the state their events come to."""

from __future__ import annotations

from planrunner.errors import NotFound
from planrunner.journal.port import JournalPort
from planrunner.journal.records import StoredPlan
from planrunner.machine.evolve import fold
from planrunner.machine.state import State
from planrunner.plan import compiled
from planrunner.plan.model import Plan


def stored_plan(journal: JournalPort, digest: str) -> Plan:
    """The plan a run is pinned to; the file it came from may have changed or gone. Raises NotFound."""
    if not digest:
        message = "`refused` is no run but the record of plans that were not let start"
        raise NotFound(message, "`planrunner audit export refused --format text` shows it")
    return plan_of(journal.plan(digest))


def plan_of(stored: StoredPlan) -> Plan:
    """The plan in the form the machine sees it."""
    if stored.compiled is not None:
        try:
            return compiled.load(stored.compiled.decode())
        except ValueError:
            pass  # written by another version in its own layout: the text says the same
    from planrunner.plan.load import load
    from planrunner.plugins import Registry

    loaded = load(stored.source(), Registry())
    assert loaded.plan is not None, "only plans without errors are stored"
    return loaded.plan


def stored_state(journal: JournalPort, run_id: str) -> State:
    """The state of a run as its journal tells it; raises NotFound."""
    row = journal.run(run_id)
    return fold(stored_plan(journal, row.plan_digest), run_id, journal.entries(run_id))
