"""What an ended attempt means: failure modes, criteria and the class of a failure. Nothing here depends on time."""

from __future__ import annotations

from typing import NamedTuple

from planrunner.machine.events import Outcome
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import explain, truth
from planrunner.plan.expressions.values import EvaluationError, Scope
from planrunner.plan.model import Criterion, Task


class Verdict(NamedTuple):
    """``failure`` is the class of the failure, empty when the attempt did what the task asks; ``words`` are the
    criteria that only a judge or a person can decide."""

    failure: str = ""
    reason: str = ""
    detail: str = ""
    words: tuple[str, ...] = ()
    no_value: bool = False
    """An expression of the plan has no value."""


def judge(state: State, number: int) -> Verdict:
    """The verdict on the attempt that ended last."""
    task = state.specs[number]
    found = state.tasks[number]
    outcome = found.outcome
    assert outcome is not None
    if found.reason == "settled":
        return Verdict(outcome.failure, "doubt" if outcome.failure else "", outcome.message if outcome.failure else "")
    scope = TaskScope(state, number)
    mode = _failure_mode(task, scope, outcome)
    if mode is not None:
        return mode
    if outcome.failure and not _exit_is_judged(task, outcome):
        return Verdict(outcome.failure, "failed", outcome.message)
    return _criteria((*task.expect, *task.postconditions), scope)


_DONE = Verdict()


def _exit_is_judged(task: Task, outcome: Outcome) -> bool:
    """A task whose own criteria read the exit code decides by them what a non-zero code means."""
    return (
        outcome.failure == "logic"
        and bool(outcome.exit_code)
        and any(
            criterion.expression is not None and ("exit_code",) in criterion.expression.paths
            for criterion in (*task.expect, *task.postconditions)
        )
    )


def _failure_mode(task: Task, scope: TaskScope, outcome: Outcome) -> Verdict | None:
    """The first failure mode that the attempt shows. Where none does and a detector has no value, the attempt fails for
    that, under its own class where it failed already."""
    problem = ""
    for mode in task.failure_modes:
        if mode.detect is None or mode.detect.expression is None:
            continue
        try:
            if truth(mode.detect.expression.tree, scope):
                return Verdict(mode.name, "failure_mode", f"failure mode `{mode.name}`: `{mode.detect.text}`")
        except EvaluationError as error:
            problem = problem or f"`{mode.detect.text}`, which detects `{mode.name}`, has no value: {error}"
    if not problem:
        return None
    detail = f"{outcome.message}; {problem}" if outcome.failure and outcome.message else problem
    return Verdict(outcome.failure or "logic", "failure_mode", detail, no_value=True)


def _criteria(criteria: tuple[Criterion, ...], scope: TaskScope) -> Verdict:
    words = []
    for criterion in criteria:
        if criterion.expression is None:
            words.append(criterion.text)
            continue
        failed, no_value = _unmet(criterion, scope)
        if failed:
            return Verdict("logic", "criterion", failed, no_value=no_value)
    return Verdict(words=tuple(words)) if words else _DONE


def unmet(criterion: Criterion, scope: Scope) -> str:
    """Why an expression does not hold, with the values it read; empty when it holds."""
    return _unmet(criterion, scope)[0]


def _unmet(criterion: Criterion, scope: Scope) -> tuple[str, bool]:
    """The same, and whether that is because it has no value."""
    assert criterion.expression is not None
    tree = criterion.expression.tree
    try:
        return "" if truth(tree, scope) else explain(tree, scope), False
    except EvaluationError as error:
        return f"`{criterion.text}` has no value: {error}", True
