"""A run that goes on under another policy than the one it began with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from planrunner.app.asking import user
from planrunner.app.sight import has_settings
from planrunner.machine.events import Event, PolicyChanged
from planrunner.machine.state import State, TaskState
from planrunner.machine.statuses import SETTLED
from planrunner.plan.rights import AS_BEFORE
from planrunner.safety.project import policy_records

Json = Any


def changed(state: State, directory: str, following: Iterable[Event]) -> list[Event]:
    """What is recorded where the operator's policy is not what the run is held to: both hold from now on. Nothing where
    a person accepts that of now among the events that follow. Raises as ``read_settings``."""
    if any(isinstance(event, PolicyChanged) for event in following):
        return []
    now, held = _now(directory), _held(state)
    before = [record if record in now else _of_before(record) for record in held]
    more = [record for record in now if record not in held]
    return [] if before == held and not more else [PolicyChanged((*before, *more), "changed", user())]


def accepted(state: State, directory: str) -> list[Event]:
    """What is recorded where a person holds a run to the policy of now alone. Raises as ``read_settings``."""
    now = _now(directory)
    return [] if _held(state) == now else [PolicyChanged(tuple(now), "accepted", user())]


def voided(state: State, following: Iterable[Event], program: str) -> tuple[str, ...]:
    """For each task at which people said something that a change of policy among the events that follow takes back:
    whose votes count no more, and how they vote anew. Before these events are folded."""
    if not any(isinstance(event, PolicyChanged) for event in following):
        return ()
    told = []
    for task, found in zip(state.specs, state.tasks, strict=True):
        if who := _voters(found):
            told.append(
                f"the policy has changed since, so what {', '.join(who)} said at `{task.id}` counts no more; "
                f"to vote anew: {program} gates {state.run_id}"
            )
    return tuple(told)


def _voters(found: TaskState) -> Iterable[str]:
    gate = found.gate
    if gate is None or found.status in SETTLED:
        return ()
    let_through = found.status in ("pending", "blocked") and found.cleared
    return () if gate.decision and not let_through else dict.fromkeys(vote.by for vote in gate.votes)


def _held(state: State) -> list[dict[str, Json]]:
    return list(state.environment.get("policy") or ())


def _now(directory: str) -> list[dict[str, Json]]:
    if not has_settings(directory) or not os.path.isdir(directory):
        return []
    return policy_records(directory)


def _of_before(record: dict[str, Json]) -> dict[str, Json]:
    """A level that nobody can change any more: no file says it now."""
    name = str(record["name"])
    return record if name.endswith(AS_BEFORE) else {**record, "name": name + AS_BEFORE, "file": ""}
