"""Replay a recorded run, with the plan it is pinned to or with an edited one. Reads only; nothing is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from planrunner.app.histories import history
from planrunner.app.reading import plan_of
from planrunner.app.sight import sight
from planrunner.engine.replay import replay, replay_edited
from planrunner.errors import StorageFailed, UsageError
from planrunner.journal.memory import MemoryJournal
from planrunner.journal.workspace import find_project
from planrunner.machine.events import Entry, RunStarted
from planrunner.machine.replay import Replayed
from planrunner.plan.model import Plan
from planrunner.plan.params import bind_params
from planrunner.plugins.registry import Registry

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
    """Replay a run (``last``, an id, the start of one, or the file of an exported one), with the plan file ``plan``
    instead of its own where given.

    Raises NotFound, PlanInvalid for an edited plan that cannot run, UsageError for one with a run that was revised, and
    StorageFailed for a damaged journal.
    """
    run_id, plan_id, stored, entries, later = history(wanted, state)
    pinned = plan_of(stored)
    if plan is None:
        plans = {each.digest: plan_of(each) for each in later}
        last = later[-1].digest if later else stored.digest
        return ReplayReport(run_id, plan_id, last, "", replay(pinned, run_id, entries, plans))
    if later:
        raise UsageError(
            f"run {run_id} was revised: it is replayed with the plans it had, not with another one",
            f"planrunner replay {run_id}",
        )
    edited, replayed = _edited(plan, pinned, run_id, entries)
    return ReplayReport(run_id, plan_id, stored.digest, edited, replayed)


def _edited(path: str, pinned: Plan, run_id: str, entries: Sequence[Entry]) -> tuple[str, Replayed]:
    """The digest of the edited plan, and what the replay with it found."""
    seen = sight(path, MemoryJournal(), Registry(project=find_project(path)))
    started = entries[0].event if entries else None
    if not isinstance(started, RunStarted):
        raise StorageFailed(f"the journal of run {run_id} does not begin with its start")
    traits = {**seen.traits, **started.traits}
    begun = started._replace(params=_params(started, pinned, seen.plan), traits=traits)
    return seen.digest, replay_edited(pinned, seen.plan, run_id, entries, begun)


def _params(started: RunStarted, pinned: Plan, edited: Plan) -> dict[str, Json]:
    """The parameters of the run as the edited plan takes them: what was given stays, what had its default gets the
    default of the edited plan."""
    before = bind_params(pinned, {}).values
    now = bind_params(edited, {}).values
    given = {name: value for name, value in started.params.items() if name in now and value != before.get(name)}
    return {**now, **given}
