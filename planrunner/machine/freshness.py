"""Whether a task is done already: its files and its call are as they were when it was done, or a condition says so.

Files are looked at by the engine, and what it saw is an event; so the decision is the same whenever it is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.machine.commands import AskFacts, AskFresh, Command, Record
from planrunner.machine.events import FreshnessAsked, FreshnessSeen, Outcome, TaskSettled
from planrunner.machine.scope import TaskScope, facts_of
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.values import EvaluationError


def before(state: State, number: int) -> Command | None:
    """What comes before the start of a task that may be done already; None where it has to be done.

    A task that somebody sent back or runs again is done again, and so is one that was tried.
    """
    task, found = state.specs[number], state.tasks[number]
    fresh = task.fresh
    if fresh is None or found.attempts > found.past:
        return None
    seen = state.freshness.get(number)
    if seen is None:
        return AskFresh(number)
    if state.environment.get("forced") or (found.kept is None and _is_done_again(state, number)):
        return None
    if seen.fault:
        return Record(TaskSettled(task.id, "failed", "fresh_files", f"`fresh`: {seen.fault}", "logic"))
    if seen.same:
        return _done(state, number, seen, f"done already: inputs unchanged since run {seen.since}")
    if fresh.condition is None:
        return None
    names = facts_of(fresh.condition)
    if any(name not in (found.facts or {}) for name in names):
        return AskFacts(number, names)
    try:
        holds = truth(fresh.condition.tree, TaskScope(state, number))
    except EvaluationError as error:
        why = f"`fresh: {fresh.condition.text}` has no value: {error}"
        return Record(TaskSettled(state.specs[number].id, "failed", "fresh_condition", why, "logic"))
    return _done(state, number, seen, f"done already: `{fresh.condition.text}`") if holds else None


def _is_done_again(state: State, number: int) -> bool:
    """Whether it, or what holds it, begins anew since somebody said so."""
    while number >= 0:
        if state.tasks[number].visit > 1:
            return True
        number = state.tasks[number].frame.owner
    return False


def _done(state: State, number: int, seen: FreshnessSeen, detail: str) -> Record:
    return Record(TaskSettled(state.specs[number].id, "completed", "fresh", detail))


def asked(state: State, event: FreshnessAsked, at: float) -> None:
    state.asked.add(state.index[event.task])


def seen(state: State, event: FreshnessSeen, at: float) -> None:
    number = state.index[event.task]
    state.asked.discard(number)
    state.candidates[number] = None
    state.freshness[number] = event


def given(seen: FreshnessSeen) -> Outcome:
    """What a task gave when it was done."""
    return Outcome(outputs=seen.outputs, artifacts=seen.artifacts)


FOLDS: dict[type, Callable[[State, Any, float], None]] = {FreshnessAsked: asked, FreshnessSeen: seen}
