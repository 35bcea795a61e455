"""What is asked about a task that may be done already, and what is kept of one that is."""

from __future__ import annotations

import os

from planrunner.engine.calls import Place, call_of, digest, no_value, rendered_text
from planrunner.engine.effects import Forget, Look, Remember
from planrunner.machine.commands import Start
from planrunner.machine.events import FreshnessAsked
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State


def asks_fresh(state: State, number: int, place: Place) -> tuple[FreshnessAsked, Look]:
    """The question whether a task is done already. A call that cannot be rendered is one that was never made; a pattern
    that cannot be rendered is a fault."""
    task, scope = state.specs[number], TaskScope(state, number)
    fresh = task.fresh
    assert fresh is not None
    by_files = bool(fresh.inputs or fresh.outputs)
    directory, call = place.directory, ""
    inputs, outputs, fault = fresh.inputs, fresh.outputs, ""
    try:
        if number not in state.holders:
            made = call_of(state, task, Start(number, 1), place, "")
            directory, call = made.directory, digest(made)
    except no_value():
        by_files = False
    try:
        inputs = tuple([rendered_text(pattern, scope) for pattern in inputs])
        outputs = tuple([rendered_text(pattern, scope) for pattern in outputs])
    except no_value() as error:
        fault = f"a pattern has no value: {error}"
    root, name = os.path.normpath(place.directory), _name(state, task.id)
    look = Look(task.id, name, call, root, directory, inputs, outputs, by_files, fresh.gitignore, fault)
    return FreshnessAsked(task.id, call), look


def remembered(state: State, name: str) -> Remember | None:
    """What is kept of a task that has just been done; None where nobody asked."""
    number = state.index[name]
    seen, found = state.freshness.get(number), state.tasks[number]
    if seen is None or not seen.inputs or found.outcome is None:
        return None
    outcome = found.outcome
    return Remember(_name(state, name), state.run_id, seen.inputs, outcome.outputs, outcome.artifacts)


def forgotten(state: State, name: str) -> Forget | None:
    """A task that was undone is not done any more; None for one that never said when it is."""
    return Forget(_name(state, name)) if state.specs[state.index[name]].fresh is not None else None


def _name(state: State, task: str) -> str:
    return f"{state.plan.id}\n{task}"
