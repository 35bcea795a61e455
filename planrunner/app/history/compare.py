"""Two runs side by side: what went into them, what people decided, and the first difference with what follows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from planrunner.app.history.divergence import Inputs, divergence
from planrunner.app.history.replay import SUFFIX, History, history
from planrunner.app.history.show import look
from planrunner.app.history.state import Revisions, begun, plan_of, stored_plan
from planrunner.app.runs.doubts import rest
from planrunner.errors import NextStep, NotFound
from planrunner.journal.ports import Journal
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_state
from planrunner.machine.events import DoubtSettled, Entry, Event, RunEnded, RunRevised, RunStarted, TasksReset
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.plan.identity import differences
from planrunner.plan.model import Plan, Task
from planrunner.records import Struct
from planrunner.views.compare import (
    Change,
    DecisionPair,
    RevisionComparison,
    RevisionSide,
    RunComparison,
    Side,
    TaskPair,
)
from planrunner.views.decisions import Decision, decision_text, decisions

Json = Any

VERSIONS = ("planrunner", "python", "system", "host", "user", "profile", "directory", "deployment", "plan")
"""Facts of the environment of a run that are compared by name."""
_NOT_OURS = frozenset({*VERSIONS, "schema", "uid", "text", "files", "env", "policy", "trust", "boot", "settings"})


class Recorded(Struct):
    """A run as its journal tells it, folded."""

    entries: tuple[Entry, ...]
    state: State


def recorded(wanted: str, state_dir: str | None) -> Recorded:
    """A run of the journal (``last``, an id or the start of one). Raises NotFound."""
    found = look(wanted, state_dir)
    return Recorded(found.entries, found.state)


def recorded_or_file(wanted: str, state_dir: str | None) -> Recorded:
    """The same, or a run that ``events --export`` wrote to a file. Raises also UsageError for a file that holds no
    run."""
    return _folded(history(wanted, state_dir)) if wanted.endswith(SUFFIX) else recorded(wanted, state_dir)


def _folded(made: History) -> Recorded:
    """A history from a file with the state that its events come to; no process acts on it here."""
    state = State(plan_of(made.plan), made.run_id, {each.digest: plan_of(each) for each in made.revisions})
    for entry in made.entries:
        evolve(state, entry.event, entry.at)
    rest(state)
    return Recorded(made.entries, state)


def is_run(name: str) -> bool:
    """Whether a name is that of a run, and not of a plan file or of a revision of a run."""
    return name.endswith(SUFFIX) or not ("@" in name or os.path.isfile(name))


def compared_runs(one: str, other: str, state_dir: str | None) -> RunComparison:
    """How two runs of the journal differ. Raises NotFound."""
    return comparison(recorded(one, state_dir), recorded(other, state_dir))


def comparison(one: Recorded, other: Recorded) -> RunComparison:
    """How two runs differ, the earlier one first or not, as they are given."""
    plan = tuple(differences(_plan(one.state), _plan(other.state)))
    params = _changes(one.state.params, other.state.params)
    versions = _versions(one.state, other.state)
    decided = _decided(decisions(one.entries), decisions(other.entries))
    pairs = divergence(one.state, other.state, Inputs(plan, params, versions, _spoken(decided)))
    roots = sorted((pair for pair in pairs if pair.changes and not pair.follows), key=_rank)
    return RunComparison(
        _side(one),
        _side(other),
        plan,
        params,
        versions,
        decided,
        tuple(pairs),
        _changes(one.state.outputs, other.state.outputs),
        roots[0] if roots else None,
        tuple(roots[1:]),
    )


def _rank(pair: TaskPair) -> tuple[bool, float]:
    """Another result before another value, then by time."""
    return not pair.result, pair.at


def _plan(state: State) -> Plan:
    return state.plan if state.governed is None else state.governed.plan


def _side(run: Recorded) -> Side:
    state, first, last = run.state, run.entries[0], run.entries[-1]
    ended = round(last.at - first.at, 3) if isinstance(last.event, RunEnded) else None
    about = (state.run_id, state.plan.id, state.plan_digest, state.revision, state.status, state.reason)
    return Side(*about, first.at, ended)


def _changes(one: dict[str, Json], other: dict[str, Json]) -> tuple[Change, ...]:
    names = dict.fromkeys([*one, *other])
    return tuple(Change(name, one.get(name), other.get(name)) for name in names if one.get(name) != other.get(name))


def _versions(one: State, other: State) -> tuple[Change, ...]:
    """Facts of the surroundings that differ: versions, host, variables, settings, policy, linked files."""
    found = [dict[str, Json](), dict[str, Json]()]
    for facts, state in zip(found, (one, other), strict=True):
        environment = state.environment
        facts |= {name: environment[name] for name in VERSIONS if name in environment}
        facts |= {f"variable {name}": value for name, value in (environment.get("env") or {}).items()}
        facts |= {f"file {name}": value for name, value in (environment.get("files") or {}).items()}
        facts |= {name: value for name, value in environment.items() if name not in _NOT_OURS}
        sections = (environment.get("settings") or {}).get("sections", {})
        facts |= {f"settings {name}": digest[:12] for name, digest in sections.items()}
        if environment.get("policy"):
            facts["policy"] = environment["policy"]
        for name, trait in state.traits.items():
            facts[f"capability {name}"] = list(trait)
    changes = [change for change in _changes(*found) if _counts(change, found)]
    return tuple(Change(each.name, *_short(each.name, each.before, each.after)) for each in changes)


def _counts(change: Change, found: Sequence[dict[str, Json]]) -> bool:
    """Whether a change is one of versions: a capability that only one of the plans uses has not changed."""
    return not change.name.startswith("capability ") or all(change.name in facts for facts in found)


def _short(name: str, one: Json, other: Json) -> tuple[Json, Json]:
    """A policy is large and only its change is of interest."""
    return ("before", "changed") if name == "policy" and one and other else (one, other)


# Revisions


def compared_revisions(run: str, one: int, other: int, state_dir: str | None) -> RevisionComparison:
    """How two revisions of a run differ, and what the second meant for what was done. Raises NotFound for a run that
    has not so many."""
    with closing(open_journal(find_state(None, state_dir), readonly=True)) as journal:
        run_id = journal.find_run(run)
        entries = tuple(journal.entries(run_id))
        made = [entry for entry in entries if isinstance(entry.event, (RunStarted, RunRevised))]
        for number in (one, other):
            if not 0 < number <= len(made):
                listed = f"revisions 1 to {len(made)}" if made[1:] else "revision 1 only"
                raise NotFound(f"run {run_id} has {listed}, not `{number}`", NextStep("show", run_id))
        first, second = made[one - 1], made[other - 1]
        before, after = (stored_plan(journal, _text_key(each.event)) for each in (first, second))
        effects = _effects(journal, run_id, entries, second) if other == one + 1 else {}
        sides = _revision(journal, one, first), _revision(journal, other, second)
    values = [each.event.params for each in (first, second) if isinstance(each.event, (RunStarted, RunRevised))]
    found = tuple(differences(before, after))
    return RevisionComparison(run_id, after.id, *sides, found, _changes(*values), effects, (before, after), len(made))


def _text_key(event: Event) -> str:
    assert isinstance(event, (RunStarted, RunRevised))
    return str(event.environment.get("text") or event.plan_digest)


def _revision(journal: Journal, number: int, entry: Entry) -> RevisionSide:
    event = entry.event
    assert isinstance(event, (RunStarted, RunRevised))
    by = event.by if isinstance(event, RunRevised) else str(event.environment.get("user", ""))
    reason = event.reason if isinstance(event, RunRevised) else ""
    return RevisionSide(number, event.plan_digest, journal.plan(_text_key(event)).text, entry.at, by, reason)


def _effects(journal: Journal, run_id: str, entries: Sequence[Entry], revised: Entry) -> dict[str, str]:
    """What a revision meant for each task of the plan level, by the state it met and the reset that followed it."""
    state = begun(journal, run_id)
    state.plans = Revisions(journal)
    had: dict[str, str] = {}
    reset: TasksReset | None = None
    for entry in entries:
        if entry.seq == revised.seq:
            had = {task.id: state.tasks[number].status for number, task in enumerate(state.specs[: state.top.size])}
        if entry.seq > revised.seq:
            if isinstance(entry.event, TasksReset) and entry.event.reason == "revised":
                reset = entry.event
            if not isinstance(entry.event, DoubtSettled):
                break
        evolve(state, entry.event, entry.at)
    again = set(reset.tasks) - set(reset.unless_same) if reset is not None else set()
    perhaps = set(reset.unless_same) if reset is not None else set()
    return {task.id: _effect(task, had, again, perhaps) for task in state.plan.tasks}


def _effect(task: Task, had: dict[str, str], again: set[str], perhaps: set[str]) -> str:
    if task.id not in had:
        return "new"
    if task.id in again:
        return "asked" if task.gate is not None else "again"
    if task.id in perhaps:
        return "perhaps"
    return "kept" if had[task.id] == "completed" else "open"


# Decisions


def _decided(one: Iterable[Decision], other: Iterable[Decision]) -> tuple[DecisionPair, ...]:
    """What people decided about the same thing, where they did not say the same."""
    sides: tuple[dict[tuple[str, str, int], list[Decision]], ...] = ({}, {})
    for by_place, listed in zip(sides, (one, other), strict=True):
        for decision in listed:
            by_place.setdefault(decision.place, []).append(decision)
    return tuple(
        DecisionPair(place[1], tuple(sides[0].get(place, ())), tuple(sides[1].get(place, ())))
        for place in dict.fromkeys([*sides[0], *sides[1]])
        if _words(sides[0].get(place, ())) != _words(sides[1].get(place, ()))
    )


def _words(listed: Iterable[Decision]) -> list[tuple[str, str, Json]]:
    return [(decision.by, decision.said, decision.fields) for decision in listed]


def _spoken(pairs: Iterable[DecisionPair]) -> dict[str, str]:
    """By task what people said in both runs, as one sentence."""
    told: dict[str, str] = {}
    for pair in pairs:
        sides = ("; ".join(map(decision_text, side)) or "no decision" for side in (pair.one, pair.other))
        if pair.task:
            told.setdefault(pair.task, "people decided otherwise: {}, then {}".format(*sides))
    return told
