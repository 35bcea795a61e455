"""A run that goes on from a place in the record of another one: what came before stays, nothing after it is reused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence

import pytest
from simulator.plans import random_plan
from simulator.rehearsal import rehearse
from simulator.runs import PLACE, RUN_ID, Disk, Nobody, World, outcome_for, simulate

from planrunner.app.runs.checkpoints import Checkpoint, find, named
from planrunner.engine.loop import Driver
from planrunner.engine.replay import replay
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.errors import NotFound
from planrunner.machine.checkpoints import positions, rest_after
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    Entry,
    Outcome,
    RunEnded,
    RunForked,
    RunResumed,
    RunStarted,
    TaskSettled,
)
from planrunner.machine.evolve import fold
from planrunner.machine.state import State
from planrunner.machine.statuses import IllegalMove
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

REGISTRY = Registry()
TRAITS = {"shell": ["unsafe", False, False], "noop": ["pure", True, False]}
NEW = "20231114-2213-forked"


def read(document: dict[str, object]) -> Plan:
    loaded = load(Source(json.dumps(document), "p.json", "json"), REGISTRY)
    assert loaded.plan is not None, [finding.message for finding in loaded.findings]
    return loaded.plan


def worlds(seeds: range) -> Iterator[World]:
    for seed in seeds:
        loaded = load(Source(json.dumps(random_plan(seed)), f"random-{seed}.json", "json"), REGISTRY)
        if loaded.plan is not None:
            yield World(loaded.plan, TRAITS, seed)


def forked(entries: Sequence[Entry], seq: int, **params: object) -> list[Entry]:
    at = entries[seq - 1].at + 1000.0
    return [*entries[:seq], Entry(seq + 1, at, RunForked(NEW, RUN_ID, seq, params, 1000.0))]


def go_on(world: World, entries: Sequence[Entry]) -> tuple[State, list[Entry]]:
    """Take a forked run up and run it to its end or until somebody is asked."""
    disk = Disk()
    disk.entries = list(entries)
    state = fold(world.plan, NEW, entries)
    script = Script(lambda call: outcome_for(world, call), lambda names: dict.fromkeys(names, 1))
    effects = SimulatedEffects(script, entries[-1].at + 1.0)
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), len(entries))
    driver.record(RunResumed(2))
    driver.run()
    return state, disk.entries


@pytest.mark.parametrize("block", range(4))
def test_a_fork_from_any_place_of_rest_goes_on_and_replays(block: int) -> None:
    for world in worlds(range(block * 25, block * 25 + 25)):
        entries = simulate(world).entries
        rng = random.Random(world.seed)
        for seq in {rest_after(entries, rng.randint(1, len(entries))) for _ in range(4)}:
            if isinstance(entries[seq - 1].event, RunEnded):
                continue
            state, whole = go_on(world, forked(entries, seq))
            assert state.run_id == NEW
            assert whole[:seq] == entries[:seq]
            assert replay(world.plan, NEW, whole).difference is None, (world.seed, seq)
            assert state.ended_at is not None, (world.seed, seq)
            keys = [entry.event.key for entry in whole[seq + 1 :] if isinstance(entry.event, AttemptStarted)]
            assert all(key.startswith(f"{NEW}:") for key in keys)


def test_a_fork_of_a_calm_run_ends_like_it() -> None:
    for world in worlds(range(100, 140)):
        ran = simulate(world)
        for position in [place for place in positions(ran.entries) if not place.ended]:
            state, _ = go_on(world, forked(ran.entries, position.seq))
            statuses = {task.id: found.status for task, found in zip(state.specs, state.tasks, strict=True)}
            assert statuses[position.task] == "completed"
            if world.plan.on_failure == "continue":
                assert state.status == ran.state.status


def chain() -> Plan:
    return read({
        "plan": "chain",
        "params": {"stage": {"type": "string", "default": "test"}},
        "tasks": [
            {"id": "a", "run": "one"},
            {"id": "b", "run": "two {{ params.stage }}", "needs": ["a"]},
            {"id": "c", "run": "three", "needs": ["b"]},
        ],
    })  # fmt: skip


def test_what_was_under_way_begins_as_if_it_never_had() -> None:
    plan = chain()
    entries = rehearse(plan, params={"stage": "test"}).entries
    (first, *_) = positions(entries)
    assert isinstance(entries[first.seq - 1].event, AttemptStarted)
    whole = go_on(World(plan, TRAITS, 1, 0.0), forked(entries, first.seq))[1]
    again = [one.event for one in whole[first.seq :] if isinstance(one.event, AttemptStarted)]
    assert [(one.task, one.attempt, one.reissue) for one in again] == [("b", 1, 0), ("c", 1, 0)]


def test_a_parameter_that_is_set_anew_counts_from_there() -> None:
    plan = chain()
    entries = rehearse(plan, params={"stage": "test"}).entries
    first = positions(entries)[0]
    same = go_on(World(plan, TRAITS, 1, 0.0), forked(entries, first.seq))[1]
    other = go_on(World(plan, TRAITS, 1, 0.0), forked(entries, first.seq, stage="prod"))[1]

    def inputs(of: Sequence[Entry]) -> str:
        started = [one.event for one in of if isinstance(one.event, AttemptStarted) and one.event.task == "b"]
        return started[-1].inputs

    assert inputs(same) == inputs(entries)
    assert inputs(other) != inputs(entries)
    assert replay(plan, NEW, other).difference is None


def test_the_time_between_does_not_count_as_time_of_the_run() -> None:
    plan = chain()
    entries = rehearse(plan, params={"stage": "test"}).entries
    first = positions(entries)[0]
    state = fold(plan, NEW, forked(entries, first.seq))
    assert (state.status, state.reason) == ("paused", "forked")
    assert state.active == entries[first.seq - 1].at - entries[0].at
    assert state.running == {}
    assert state.slots == 0


def test_a_run_that_ended_goes_on_nowhere() -> None:
    entries = rehearse(chain(), params={"stage": "test"}).entries
    assert isinstance(entries[-1].event, RunEnded)
    assert [(place.task, place.ended) for place in positions(entries)] == [("a", False), ("b", False), ("c", True)]
    with pytest.raises(IllegalMove):
        fold(chain(), NEW, forked(entries, len(entries)))


def test_what_is_decided_together_is_not_cut_apart() -> None:
    ended, started = AttemptEnded("a", 1, Outcome()), AttemptStarted("b", 1, "k")
    settled = TaskSettled("a", "completed")
    entries = [Entry(1, 1.0, ended), Entry(2, 1.5, settled), Entry(3, 1.5, started), Entry(4, 9.0, ended)]
    assert [rest_after(entries, seq) for seq in (1, 2, 3, 4)] == [3, 3, 3, 4]


def test_checkpoints_are_named_after_task_and_time_and_found_by_either() -> None:
    entries = [
        Entry(1, 0.0, TaskSettled("build", "completed")),
        Entry(2, 0.5, TaskSettled("build", "completed")),
        Entry(3, 3600.0, TaskSettled("bundle", "completed")),
        Entry(4, 3700.0, TaskSettled("other", "failed")),
    ]
    known = named(entries)
    assert known == [
        Checkpoint("cp-build-19700101T000000Z", "build", 1, 0.0),
        Checkpoint("cp-build-19700101T000000Z-2", "build", 2, 0.5),
        Checkpoint("cp-bundle-19700101T010000Z", "bundle", 3, 3600.0),
    ]
    assert find("r", known, "").seq == 3
    assert find("r", known, "build").seq == 2
    assert find("r", known, "cp-build-19700101T000000Z").seq == 1
    assert find("r", known, "cp-bun").seq == 3
    with pytest.raises(NotFound, match="may be any of these"):
        find("r", known, "cp-bu")
    with pytest.raises(NotFound) as raised:
        find("r", known, "bundel")
    assert "`bundle`" in raised.value.hint
    with pytest.raises(NotFound, match="no checkpoints"):
        find("r", [], "build")


def test_the_person_who_forks_a_run_is_the_starter_of_the_new_one() -> None:
    entries = simulate(World(chain(), TRAITS, 1)).entries
    told = entries[0].event
    assert isinstance(told, RunStarted)
    begun = entries[0]._replace(event=told._replace(environment={**told.environment, "user": "ana"}))
    fork = Entry(2, begun.at + 1.0, RunForked(NEW, RUN_ID, 1, by="bo"))
    state = fold(chain(), NEW, [begun, fork])
    assert state.environment["user"] == "bo"
