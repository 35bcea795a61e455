"""Settings of a task that its plan computes: evaluated when the task starts, once for each visit, and journalled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.jsontext import shown
from planrunner.machine.commands import Command, Record, settle
from planrunner.machine.events import SettingsComputed
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import evaluate
from planrunner.plan.expressions.quantities import Quantity, parse_duration, parse_percent
from planrunner.plan.expressions.values import EvaluationError, Scope
from planrunner.plan.model import Computed, Task

Json = Any

MOST_ATTEMPTS = 1000


def is_open(state: State, number: int) -> bool:
    """Whether a task has settings that are still to be computed for this visit."""
    visit = state.tasks[number].visit
    return any(each.visit != visit for each in state.specs[number].computed)


def compute(state: State, number: int) -> Command:
    """The settings of a task that is about to start; one without a fitting value fails the task."""
    task = state.specs[number]
    scope = TaskScope(state, number)
    values: dict[str, Json] = {}
    for each in task.computed:
        value, problem = value_of(each, scope)
        if problem:
            return settle(task, "failed", "settings", problem, "logic")
        values[each.name] = value
    return Record(SettingsComputed(task.id, state.tasks[number].visit, values))


def value_of(setting: Computed, scope: Scope) -> tuple[Json, str]:
    """The value of a setting, and why it has none that fits (empty where it has)."""
    text = f"`{setting.name}: {{{{ {setting.expression.text} }}}}`"
    try:
        given = evaluate(setting.expression.tree, scope)
    except EvaluationError as error:
        return None, f"{text} has no value: {error}"
    read, expected = _KINDS[setting.name]
    value = read(given)
    was = "nothing" if given is None else _said(given)
    return value, "" if value is not None else f"{text} takes {expected}, this is {was}"


def _said(value: Json) -> str:
    if isinstance(value, Quantity):
        return str(value)
    return shown(value)


def _seconds(value: Json) -> float | None:
    if isinstance(value, Quantity):
        return value.amount if value.dimension == "time" and value.amount >= 0 else None
    if isinstance(value, str):
        return parse_duration(value)
    return float(value) if _is_number(value) and value >= 0 else None


def _some_time(value: Json) -> float | None:
    return _seconds(value) or None


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(value: Json) -> int | None:
    """A whole number that is not negative."""
    return int(value) if _is_number(value) and value >= 0 and int(value) == value else None


def _count(value: Json) -> int | None:
    return _whole(value) or None


def _attempts(value: Json) -> int | None:
    found = _count(value)
    return found if found is not None and found <= MOST_ATTEMPTS else None


def _share(value: Json) -> int | str | None:
    if not isinstance(value, (str, Quantity)):
        return _whole(value)
    text = str(value).strip()
    share = parse_percent(text) if text.endswith("%") else None
    return text if share is not None and share <= 1 else None


_KINDS: dict[str, tuple[Callable[[Json], Json], str]] = {
    "timeout": (_some_time, "a duration such as `30s` or `5m`"),
    "delay": (_seconds, "a duration such as `30s` or `5m`"),
    "retry.attempts": (_attempts, f"a whole number from 1 to {MOST_ATTEMPTS}"),
    "max_parallel": (_count, "a whole number from 1"),
    "tolerate": (_share, "a whole number from 0, or a percentage such as `20%`"),
}
"""How each setting is read (None: it does not fit), and what it takes."""


def settings_computed(state: State, event: SettingsComputed, at: float) -> None:
    number = state.index[event.task]
    task = state.specs[number]
    done = tuple([each._replace(visit=event.visit) for each in task.computed])
    state.specs[number] = with_values(task, event.values)._replace(computed=done)
    state.candidates[number] = None


def with_values(task: Task, values: dict[str, Json]) -> Task:
    """The task with its settings in place; no attempt takes longer than all of them together."""
    timeout: float | None = values.get("timeout", task.timeout)
    if task.timebox is not None and timeout is not None:
        timeout = min(timeout, task.timebox)
    retry, fanout = task.retry, task.fanout
    if "retry.attempts" in values:
        retry = retry._replace(attempts=values["retry.attempts"])
    if fanout is not None:
        limits = {name: values[name] for name in ("max_parallel", "tolerate") if name in values}
        fanout = fanout._replace(**limits)
    return task._replace(timeout=timeout, delay=values.get("delay", task.delay), retry=retry, fanout=fanout)


FOLDS: dict[type, Callable[[State, Any, float], None]] = {SettingsComputed: settings_computed}
