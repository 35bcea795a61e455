"""Walk a plan with outcomes written down beforehand: what tests of the machine and of plans are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from planrunner.app.proof.lives import PLACE, RUN_ID, START, Disk, Nobody
from planrunner.capabilities.contract import Call
from planrunner.engine.loop import Driver
from planrunner.engine.replay import replay
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.machine.events import AttemptStarted, Entry, Outcome, RunStarted
from planrunner.machine.state import State
from planrunner.plan.model import Plan

Json = Any

TRAITS: dict[str, Json] = {"shell": ["unsafe", False, False], "noop": ["pure", True, False]}


class Rehearsal(NamedTuple):
    """How a rehearsed run went: ``order`` names tasks in the order their attempts began."""

    state: State
    entries: list[Entry]
    order: list[str]

    def statuses(self) -> dict[str, str]:
        return {task.id: found.status for task, found in zip(self.state.specs, self.state.tasks)}


def rehearse(
    plan: Plan,
    outcomes: Mapping[str, Sequence[Outcome]] = {},
    *,
    facts: Mapping[str, Json] = {},
    params: Mapping[str, Json] = {},
    started: Mapping[str, Json] = {},
) -> Rehearsal:
    """Run ``plan`` on a virtual clock. ``outcomes`` gives for a task the outcome of each attempt, the last one again
    for all that follow; a task without outcomes goes well after a second. ``started`` sets fields of RunStarted."""

    def outcome(call: Call) -> Outcome:
        scripted = outcomes.get(call.name)
        if not scripted:
            return Outcome(duration=1.0, exit_code=0)
        return scripted[min(call.attempt, len(scripted)) - 1]

    disk = Disk()
    effects = SimulatedEffects(Script(outcome, lambda names: {name: facts.get(name) for name in names}), START)
    state = State(plan, RUN_ID)
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), 0)
    driver.record(RunStarted("sha256:rehearsal", dict(params), 7, **{"traits": TRAITS, **started}))
    driver.run()
    replayed = replay(plan, RUN_ID, disk.entries)
    assert replayed.difference is None, replayed.difference
    order = [entry.event.task for entry in disk.entries if isinstance(entry.event, AttemptStarted)]
    return Rehearsal(state, disk.entries, order)
