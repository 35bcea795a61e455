"""A record is decided again exactly, whatever happened to the run; a change to what was decided is always found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
import workbench
from rows import rows
from simulator.plans import nested_plan, random_plan
from simulator.rehearsal import rehearse
from simulator.runs import RUN_ID, World, simulate

from planrunner.engine.replay import replay
from planrunner.journal import codec
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, Outcome, RunStarted, TaskSettled
from planrunner.machine.replay import INPUTS, Difference, kind_of
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

REGISTRY = Registry()
TRAITS = {"shell": ["unsafe", False, False], "noop": ["pure", True, False]}
FROM_OUTSIDE = frozenset([codec.kind_of(kind) for kind in INPUTS]) | {"stop_requested"}

Mutant = tuple[str, list[Entry], int]
"""What was done, the entries after it, and the seq of the entry it was done to."""


plan = partial(workbench.plan, defaults={"timeout": "1h"})


def worlds(seeds: range, make: Callable[[int], dict[str, Any]] = random_plan) -> Iterator[World]:
    for seed in seeds:
        loaded = load(Source(json.dumps(make(seed)), f"random-{seed}.json", "json"), REGISTRY)
        if loaded.plan is not None:
            yield World(loaded.plan, TRAITS, seed)


def difference(found: Plan, entries: Sequence[Entry]) -> Difference:
    replayed = replay(found, RUN_ID, entries)
    assert replayed.difference is not None
    return replayed.difference


@pytest.mark.parametrize("block", range(4))
def test_runs_that_were_killed_stopped_and_resumed_replay_exactly(block: int) -> None:
    for world in worlds(range(block * 60, block * 60 + 60)):
        rng = random.Random(world.seed)
        dies = {rng.randint(1, 8): rng.random() < 0.5, rng.randint(4, 12): rng.random() < 0.5}
        ran = simulate(world, dies, rng.choice([0, 0, 2, 4]))
        replayed = replay(world.plan, RUN_ID, ran.entries)
        assert replayed.difference is None, world.seed
        assert replayed.decided + replayed.inputs == replayed.entries == len(ran.entries)


def test_every_beginning_that_a_killed_run_can_leave_replays_exactly() -> None:
    for world in worlds(range(300, 330)):
        for write in range(1, simulate(world).writes):
            beginning = simulate(world, {write: True}).entries
            cut = next((entry.seq for entry in beginning if kind_of(entry.event) == "run_resumed"), len(beginning) + 1)
            assert replay(world.plan, RUN_ID, beginning[: cut - 1]).difference is None, (world.seed, write)


def _numbered(entries: Sequence[Entry]) -> list[Entry]:
    return [entry._replace(seq=seq) for seq, entry in enumerate(entries, 1)]


def _changed(value: Any) -> Any:
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, dict):
        return {**value, "more": 1}
    if isinstance(value, list):
        return [*value, "more"]
    return "more" if value is None else (*value, "more")


def _mutants(entries: list[Entry]) -> Iterator[Mutant]:
    """Each change, deletion, doubling and exchange of one entry that was decided."""
    for number, entry in enumerate(entries):
        if kind_of(entry.event) in FROM_OUTSIDE:
            continue
        seq, before, after = entry.seq, entries[:number], entries[number + 1 :]
        yield "delete", _numbered([*before, *after]), seq
        yield "insert", _numbered([*before, entry, entry, *after]), seq
        if after and after[0].event != entry.event:
            yield "exchange", _numbered([*before, after[0], entry, *after[1:]]), seq
        for name, value in entry.event._asdict().items():
            other: Any = entry.event._replace(**{name: _changed(value)})
            yield f"change {name}", [*before, entry._replace(event=other), *after], seq


@rows(
    ("make", "seeds"),
    [(random_plan, range(start, start + 20)) for start in range(0, 80, 20)]
    + [(nested_plan, range(start, start + 10)) for start in range(0, 30, 10)],
)
def test_every_change_to_what_was_decided_is_found_at_its_entry(
    make: Callable[[int], dict[str, Any]], seeds: range
) -> None:
    for world in worlds(seeds, make):
        ran = simulate(world, {3: True} if world.seed % 3 == 0 else {})
        if len(ran.entries) > 80:
            continue  # each entry makes half a dozen records, each as long as the run
        for what, mutant, seq in _mutants(ran.entries):
            replayed = replay(world.plan, RUN_ID, mutant)
            assert replayed.difference is not None, (world.seed, what, seq)
            assert seq <= replayed.difference.seq <= seq + 2, (world.seed, what, replayed.difference)


def test_a_changed_field_is_named_with_both_sides() -> None:
    for world in worlds(range(80, 110)):
        entries = simulate(world).entries
        for what, mutant, seq in _mutants(entries):
            if not what.startswith("change "):
                continue
            name = what.removeprefix("change ")
            found = difference(world.plan, mutant)
            event, changed = entries[seq - 1].event, mutant[seq - 1].event
            assert found.seq == seq
            assert found.task == getattr(changed, "task", "")
            if name == "task":
                assert (found.expected, found.got) == (changed.task, event.task)  # type: ignore[union-attr]
            elif name in ("outputs", "waiting", "names", "reserved", "values"):
                assert found.field.startswith(name)
            else:
                assert found.field == name
                assert (found.expected, found.got) == (getattr(changed, name), getattr(event, name))


def test_an_outcome_that_was_edited_shows_in_what_follows_from_it() -> None:
    found = plan({"id": "a", "run": "x", "expect": ["exit_code == 0"]}, {"id": "b", "needs": ["a"], "run": "y"})
    entries = rehearse(found).entries
    number, ended = next((at, one) for at, one in enumerate(entries) if isinstance(one.event, AttemptEnded))
    failed = Outcome(failure="logic", message="exit code 1", exit_code=1)
    entries[number] = ended._replace(event=ended.event._replace(outcome=failed))  # type: ignore[call-arg]
    told = difference(found, entries)
    assert (told.task, told.field, told.expected, told.got) == ("a", "status", "completed", "failed")


def test_an_output_that_is_declared_by_a_value_is_worked_out_again() -> None:
    found = plan({"id": "a", "run": "x", "outputs": {"size": {"type": "int", "value": "{{ stdout | int }}"}}})
    entries = rehearse(found, {"a": [Outcome(stdout="41", exit_code=0)]}).entries
    number, ended = next((at, one) for at, one in enumerate(entries) if isinstance(one.event, AttemptEnded))
    outcome: Outcome = ended.event.outcome  # type: ignore[union-attr]
    assert outcome.outputs == {"size": 41}
    entries[number] = ended._replace(event=AttemptEnded("a", 1, outcome._replace(outputs={"size": 42})))
    told = difference(found, entries)
    assert (told.task, told.field, told.expected, told.got) == ("a", "outcome.outputs.size", 42, 41)


def test_an_attempt_whose_template_fails_is_decided_again() -> None:
    found = plan({"id": "a", "run": "echo {{ tasks.b.outputs.missing }}", "needs": ["b"]}, {"id": "b", "run": "x"})
    entries = rehearse(found).entries
    assert replay(found, RUN_ID, entries).difference is None
    number = next(at for at, one in enumerate(entries) if isinstance(one.event, AttemptEnded) and one.event.task == "a")
    ended = entries[number].event
    assert isinstance(ended, AttemptEnded)
    entries[number] = entries[number]._replace(event=ended._replace(outcome=ended.outcome._replace(message="else")))
    told = difference(found, entries)
    assert (told.task, told.field, told.expected) == ("a", "outcome.message", "else")


def test_a_decision_that_carries_another_time_than_its_neighbours_is_found() -> None:
    found = plan({"id": "a", "run": "x"}, {"id": "b", "run": "y"})
    entries = rehearse(found).entries
    assert [kind_of(entry.event) for entry in entries[:3]] == ["run_started", "attempt_started", "attempt_started"]
    entries[2] = entries[2]._replace(at=entries[2].at + 0.5)
    told = difference(found, entries)
    assert (told.seq, told.task, told.field) == (3, "b", "at")


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda entries: entries[1:], id="the start is missing"),
        pytest.param(lambda entries: [*entries[:2], *entries[3:]], id="a number is missing"),
        pytest.param(lambda entries: [*entries[:-1]], id="the end is missing"),
        pytest.param(lambda entries: [*entries, entries[-1]._replace(seq=len(entries) + 1)], id="there are two ends"),
    ],
)
def test_a_record_with_a_hole_is_not_exact(spoil: Callable[[list[Entry]], list[Entry]]) -> None:
    found = plan({"id": "a", "run": "x"}, {"id": "b", "needs": ["a"], "run": "y"})
    entries = rehearse(found).entries
    assert replay(found, RUN_ID, entries).difference is None
    assert replay(found, RUN_ID, spoil(entries)).difference is not None


def test_another_plan_differs_where_it_decides_otherwise() -> None:
    first = plan({"id": "a", "run": "x"}, {"id": "b", "needs": ["a"], "run": "y"})
    second = plan({"id": "a", "run": "x"}, {"id": "b", "run": "y"})
    told = difference(second, rehearse(first).entries)
    assert (told.seq, told.expected, told.got) == (3, "attempt_ended of `a`", "attempt_started of `b`")


def test_nothing_of_the_outside_is_touched_by_a_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    world = next(worlds(range(5, 10)))
    entries = simulate(world).entries

    def refuse(*_: object) -> None:
        raise AssertionError("a replay acts")

    for name in ("posix_spawn", "fork", "open", "mkdir"):
        monkeypatch.setattr(f"os.{name}", refuse)
    monkeypatch.setattr("time.time", refuse)
    assert replay(world.plan, RUN_ID, entries).difference is None


def test_what_was_recorded_before_the_first_decision_is_enough() -> None:
    found = plan({"id": "a", "run": "x"})
    begun = [entry for entry in rehearse(found).entries if isinstance(entry.event, RunStarted)]
    assert replay(found, RUN_ID, begun).difference is None


def test_statuses_are_compared_not_only_kinds() -> None:
    found = plan({"id": "a", "run": "x", "when": "1 == 2"})
    entries = rehearse(found).entries
    settled = next(at for at, one in enumerate(entries) if isinstance(one.event, TaskSettled))
    entries[settled] = entries[settled]._replace(event=TaskSettled("a", "omitted", "when", "`1 == 2` is false"))
    told = difference(found, entries)
    assert (told.field, told.expected, told.got) == ("status", "omitted", "skipped")
    assert not any(isinstance(entry.event, AttemptStarted) for entry in entries)
