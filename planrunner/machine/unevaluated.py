"""Whether a task failed since something that its plan says has no value, which no other attempt would change."""

from __future__ import annotations

from planrunner.machine.frame import Frame
from planrunner.machine.judge import judge
from planrunner.machine.scope import FrameScope
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import truth
from planrunner.plan.expressions.values import EvaluationError
from planrunner.plan.model import Loop

_REASONS = ("when", "join", "edge", "settings")
"""Reasons of failures that are nothing but a value that is missing, or does not fit."""

_JUDGED = ("criterion", "failure_mode")
"""Reasons of failures by what the plan asks of an attempt, which may be false or have no value."""


def lacks_value(state: State, number: int) -> bool:
    """Whether that is why a failed task failed, or why a task inside it did."""
    found = state.tasks[number]
    if found.reason in _REASONS or (found.outcome is not None and found.outcome.no_value):
        return True
    if found.reason in _JUDGED:
        return judge(state, number).no_value
    if found.inner is None:
        return False
    loop = state.specs[number].loop
    return _until(state, found.inner, loop) or any(lacks_value(state, each) for each in found.inner.failures)


def _until(state: State, frame: Frame, loop: Loop | None) -> bool:
    if loop is None or loop.until is None or frame.kind != "round":
        return False
    try:
        truth(loop.until.tree, FrameScope(state, frame))
    except EvaluationError:
        return True
    return False
