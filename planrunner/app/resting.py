"""How a run stands that nobody acts on: cut off, waiting for people, or decided by them and to be resumed."""

from __future__ import annotations

import time

from planrunner.machine.admission import wanted
from planrunner.machine.gates import sentence
from planrunner.machine.state import State

DECIDED = "decided"
"""The reason of a run, and of its tasks, that waits for nobody any more: resuming it goes on."""

_THEN = "resuming the run goes on with it"


def rest(state: State) -> dict[int, str]:
    """Give the state of a run that nobody holds the status, reason and details that every command shows.

    What people have decided since the run was parked is taken up when it is resumed; the tasks that wait for that, by
    number, with what was decided. A run is decided when nobody is asked anything more.
    """
    if state.status == "running":
        state.status, state.reason = "paused", "cut off"
    blocked = state.counts.get("blocked", 0)
    if not blocked or state.ended_at is not None:
        return {}
    found = {**_gates(state), **(_budgets(state) if state.ledger is not None else {})}
    for number, decision in found.items():
        task = state.tasks[number]
        task.reason, task.detail = DECIDED, f"{decision}; {_THEN}"
    if state.status == "blocked" and len(found) == blocked and not state.counts.get("in_doubt"):
        state.status, state.reason = "paused", DECIDED
    return found


def _gates(state: State) -> dict[int, str]:
    return {
        number: sentence(task.gate)
        for number, task in enumerate(state.tasks)
        if task.status == "blocked" and task.gate is not None and task.gate.verdict and not task.gate.decision
    }


def _budgets(state: State) -> dict[int, str]:
    """Tasks that a budget held up which was extended, or which nobody extends."""
    waiting = {name for asked in wanted(state, time.time()) for name in asked.tasks}
    words = "refused more budget" if state.ledger is not None and state.ledger.refused else ""
    return {
        number: words or "given more budget"
        for number, task in enumerate(state.tasks)
        if task.status == "blocked" and task.reason == "budget" and state.specs[number].id not in waiting
    }
