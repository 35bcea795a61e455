"""What a task asks before it starts: its ``when`` and its preconditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.machine.commands import AskFacts, AskPeople, Command, settle
from planrunner.machine.events import FactsObserved, FactsRequested
from planrunner.machine.judge import unmet
from planrunner.machine.scope import TaskScope, facts_of, facts_read
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.values import EvaluationError


def first(state: State, number: int) -> tuple[bool, Command | None]:
    """Whether the task goes on to start, and where it does not the command that comes instead, if there is one."""
    task, found = state.specs[number], state.tasks[number]
    if task.when is not None:
        if found.facts is None and facts_of(task.when):
            return False, AskFacts(number, facts_read(task))
        try:
            if not truth(task.when.tree, TaskScope(state, number)):
                return False, settle(task, "skipped", "when", f"`{task.when.text}` is false")
        except EvaluationError as error:
            return False, settle(task, "failed", "when", f"`{task.when.text}` has no value: {error}", "logic")
    command = _preconditions(state, number) if task.preconditions else None
    return command is None and (found.facts is not None or not facts_read(task)), command


def _preconditions(state: State, number: int) -> Command | None:
    task = state.specs[number]
    found = state.tasks[number]
    names = facts_read(task)
    if names and found.facts is None:
        return AskFacts(number, names)
    scope = TaskScope(state, number)
    words = []
    for criterion in task.preconditions:
        if criterion.expression is None:
            words.append(criterion.text)
            continue
        why = unmet(criterion, scope)
        if why:
            return settle(task, "failed", "precondition", "precondition not met: " + why, "precondition")
    return AskPeople(number, "preconditions") if words and "preconditions" not in found.cleared else None


def facts_requested(state: State, event: FactsRequested, at: float) -> None:
    state.asked.add(state.index[event.task])


def facts_observed(state: State, event: FactsObserved, at: float) -> None:
    number = state.index[event.task]
    state.tasks[number].facts = {**(state.tasks[number].facts or {}), **event.facts}
    state.asked.discard(number)
    state.candidates[number] = None


FOLDS: dict[type, Callable[[State, Any, float], None]] = {
    FactsRequested: facts_requested,
    FactsObserved: facts_observed,
}
