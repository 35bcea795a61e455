"""A dry run: the same loop over a journal in memory and a world in which everything goes well."""

from __future__ import annotations

from typing import Any, NamedTuple

from planrunner.app.proof.reads import outputs_read
from planrunner.app.proof.world import World, known_capabilities, script, staged
from planrunner.engine.simulated import ImaginedEffects
from planrunner.plan.model import Plan

Json = Any


class Dry(NamedTuple):
    """The plan as a dry run walks it, traits for the machine, and effects that only remember what would be called."""

    plan: Plan
    traits: dict[str, Json]
    effects: ImaginedEffects


def assumed(plan: Plan, now: float) -> Dry:
    """Criteria and preconditions are taken to hold, and what waits for a person is taken to be done, since an imagined
    world has neither measurements nor people. ``now`` is where its clock starts (seconds since 1970)."""
    known = known_capabilities(plan)
    world = World(judged=False, people=False, seconds=0.0, fields=known.fields, read=outputs_read(plan))
    return Dry(staged(plan, world), known.traits, ImaginedEffects(script(world), now))
