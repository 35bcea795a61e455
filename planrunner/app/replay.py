"""Replay a recorded run, with the plan it is pinned to or with an edited one. Reads only; nothing is started."""

from __future__ import annotations

from planrunner.errors import StorageFailed
from planrunner.journal.sqlite import open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.events import Entry, RunStarted
from planrunner.machine.replay import Replayed
from planrunner.plan.model import Plan
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    Json = Any


class ReplayReport(NamedTuple):
    """What a replay found. ``revision`` is the digest of the plan the run is pinned to, ``edited`` that of the plan it
    was replayed with, empty where it is the same."""

    run_id: str
    plan_id: str
    revision: str
    edited: str
    replayed: Replayed


def replay_run(wanted: str, state: str | None, plan: str | None = None) -> ReplayReport:
    """Replay a run (``last``, an id or the start of one), with the plan file ``plan`` instead of its own where given.

    Raises NotFound, PlanInvalid for an edited plan that cannot run, and StorageFailed for a damaged journal.
    """
    from planrunner.app.reading import stored_plan
    from planrunner.engine.replaying import replay

    journal = open_journal(find_state(None, state), readonly=True)
    try:
        row = journal.run(journal.find_run(wanted))
        pinned = stored_plan(journal, row.plan_digest)
        entries = journal.entries(row.run)
        if plan is None:
            return ReplayReport(row.run, row.plan_id, row.plan_digest, "", replay(pinned, row.run, entries))
        edited, replayed = _edited(plan, pinned, row.run, list(entries))
        return ReplayReport(row.run, row.plan_id, row.plan_digest, edited, replayed)
    finally:
        journal.close()


def _edited(path: str, pinned: Plan, run_id: str, entries: list[Entry]) -> tuple[str, Replayed]:
    """The digest of the edited plan, and what the replay with it found."""
    from planrunner.app.sight import sight
    from planrunner.engine.comparing import replay_edited
    from planrunner.journal.memory import MemoryJournal
    from planrunner.plugins import Registry

    seen = sight(path, MemoryJournal(), Registry())
    started = entries[0].event if entries else None
    if not isinstance(started, RunStarted):
        raise StorageFailed(f"the journal of run {run_id} does not begin with its start")
    traits = {**seen.traits, **started.traits}
    begun = started._replace(params=_params(started, pinned, seen.plan), traits=traits)
    return seen.digest, replay_edited(pinned, seen.plan, run_id, entries, begun)


def _params(started: RunStarted, pinned: Plan, edited: Plan) -> dict[str, Json]:
    """The parameters of the run as the edited plan takes them: what was given stays, what had its default gets the
    default of the edited plan."""
    from planrunner.plan.params import bind_params

    before = bind_params(pinned, {}).values
    now = bind_params(edited, {}).values
    given = {name: value for name, value in started.params.items() if name in now and value != before.get(name)}
    return {**now, **given}
