"""The beginning and the end of tasks that hold others: their items, parameters and carried values, and their
outputs."""

from __future__ import annotations

import itertools
import math
from hashlib import sha256
from typing import Any

from planrunner.capabilities.outputs import stdout_outputs
from planrunner.engine.calls import NO_VALUE, reads_unreached, rendered, values_of
from planrunner.jsontext import shown, stable_json
from planrunner.machine.agents import transcript_before
from planrunner.machine.commands import Close, Open
from planrunner.machine.events import AttemptEnded, AttemptStarted, Event, FrameOpened, Outcome
from planrunner.machine.graph import Frame
from planrunner.machine.scope import FrameScope, TaskScope
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import evaluate
from planrunner.plan.expressions.values import EvaluationError, Scope, plain
from planrunner.plan.model import MAX_ITEMS, Expression, Fanout, Loop, Task
from planrunner.plan.params import bind_params
from planrunner.plan.templated import holds_template

Json = Any


class _Unfit(Exception):
    """The task cannot begin: the message says why."""


def opened(state: State, command: Open) -> list[Event]:
    """The events that begin a task which holds others, or its next round; a value that cannot be had fails it."""
    number, attempt, round_ = command.number, command.attempt, command.round
    task, task_state = state.specs[number], state.tasks[number]
    try:
        if round_ > 1:
            assert task_state.inner is not None and task.loop is not None
            values = _carried(task.loop, FrameScope(state, task_state.inner), first=False)
            same = task_state.inner.same + 1 if values == task_state.inner.values else 0
            if task.loop.breaker and task.loop.carry and same >= task.loop.breaker:
                message = f"the last {same} rounds changed nothing that is carried"
                return [AttemptEnded(task.id, attempt, Outcome("breaker", message))]
            return [FrameOpened(task.id, attempt, "round", round_, values)]
        frame = _first_frame(state, number, attempt)
    except (_Unfit, *NO_VALUE) as error:
        ended = AttemptEnded(task.id, attempt, Outcome("logic", str(error), no_value=True))
        return [ended] if round_ > 1 else [_started(state, task, attempt, None), ended]
    return [_started(state, task, attempt, frame.values), frame]


def values_digest(values: Json) -> str:
    """What the start of a container records of the values that it hands on."""
    return sha256(stable_json(values).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _started(state: State, task: Task, attempt: int, values: Json) -> AttemptStarted:
    inputs = "" if values is None else values_digest(values)
    key = f"{state.run_id}:{task.id}:{attempt}"
    return AttemptStarted(task.id, attempt, key, inputs, "pure", undo=task.rollback is not None)


def _first_frame(state: State, number: int, attempt: int) -> FrameOpened:
    task = state.specs[number]
    scope = TaskScope(state, number, attempt)
    if task.fanout is not None:
        return FrameOpened(task.id, attempt, "items", 0, items(task.fanout, scope))
    if task.loop is not None:
        carried = _carried(task.loop, scope, first=True)
        if task.agent is not None:
            carried["transcript"] = transcript_before(state, number)
        return FrameOpened(task.id, attempt, "round", 1, carried)
    if task.sub is None:
        return FrameOpened(task.id, attempt, "subplan", 0, None)
    bound = bind_params(task.sub, plain(rendered(task.params or {}, scope)))
    if bound.problems:
        raise _Unfit("; ".join(bound.problems))
    return FrameOpened(task.id, attempt, "subplan", 0, bound.values)


def _carried(loop: Loop, scope: Scope, *, first: bool) -> dict[str, Json]:
    """What the next round is handed. A value given as ``{first, next}`` begins with the one and continues with the
    other; any other is a template for what follows a round, and nothing before the first."""
    carried = {}
    for name, given in (loop.carry or {}).items():
        if isinstance(given, dict) and given.keys() <= {"first", "next"}:
            carried[name] = plain(rendered(given.get("first" if first else "next"), scope))
        else:
            carried[name] = None if first and holds_template(given) else plain(rendered(given, scope))
    return carried


def items(fanout: Fanout, scope: TaskScope) -> list[Json]:
    """The items of a fan-out, in their order."""
    if fanout.matrix is not None:
        values = _combinations(fanout, scope)
    elif fanout.foreach is not None:
        values = _evaluated(fanout.foreach, f"`foreach: {fanout.foreach.text}`", scope)
    else:
        values = _listed(rendered(fanout.items, scope), "`foreach`")
    _check_number(len(values), fanout.max_items or MAX_ITEMS)
    return list(plain(values))


def _check_number(count: int, most: int) -> None:
    if count > most:
        raise _Unfit(f"there are {count} items and `max_items` is {most}")


def _evaluated(expression: Expression, what: str, scope: TaskScope) -> list[Json]:
    try:
        value = evaluate(expression.tree, scope)
    except EvaluationError as error:
        raise _Unfit(f"{what} has no value: {error}") from error
    return _listed(value, what)


def _listed(value: Json, what: str) -> list[Json]:
    if isinstance(value, dict):
        return [{"key": key, "value": item} for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise _Unfit(f"{what} takes a list, this is {shown(value)}")


def _combinations(fanout: Fanout, scope: TaskScope) -> list[Json]:
    """Every combination of the axes, without those that ``exclude`` names; ``include`` adds to those it fits, or stands
    for itself."""
    matrix: dict[str, Json] = fanout.matrix
    given = {axis.name: axis.expression for axis in fanout.axes if axis.expression is not None}
    axes: dict[str, list[Json]] = {}
    for name, axis in matrix.items():
        if name in given:
            what = f"the axis `{name}` of the matrix, `{given[name].text}`,"
            axes[name] = _evaluated(given[name], what, scope)
        elif name not in ("include", "exclude"):
            axes[name] = _listed(rendered(axis, scope), f"the axis `{name}` of the matrix")
    left_out = rendered(matrix.get("exclude") or [], scope)
    most = fanout.max_items or MAX_ITEMS
    # before any is made: a few axes have millions of combinations; what `exclude` leaves is counted afterwards
    if axes:
        _check_number(math.prod(map(len, axes.values())), max(most, MAX_ITEMS) if left_out else most)
    combinations = (
        [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())] if axes else []
    )
    combinations = [one for one in combinations if not any(_fits(one, pattern) for pattern in left_out)]
    for extra in rendered(matrix.get("include") or [], scope):
        own = {name: value for name, value in extra.items() if name in axes}
        fitting = [one for one in combinations if _fits(one, own)] if own and len(own) < len(extra) else []
        for one in fitting:
            one.update(extra)
        if not fitting:
            combinations.append(dict(extra))
    return combinations


def _fits(one: dict[str, Json], pattern: dict[str, Json]) -> bool:
    return all(one.get(name) == value for name, value in pattern.items())


def closed(state: State, command: Close) -> AttemptEnded:
    """The end of a task that held others, with the outputs it gives."""
    number, failure, message = command.number, command.failure, command.message
    task, task_state = state.specs[number], state.tasks[number]
    frame = task_state.inner
    assert frame is not None
    outputs: dict[str, Json] = {}
    if not failure:
        try:
            outputs = _outputs(state, task, frame)
            if task.loop is not None and task.loop.at_bound == "continue":
                outputs = {**outputs, "reached": not message}
        except NO_VALUE as error:
            failure, message = "logic", f"an output has no value: {error}"
    return AttemptEnded(task.id, task_state.attempts, Outcome(failure, message, outputs))


def _outputs(state: State, task: Task, frame: Frame) -> dict[str, Json]:
    """What a container gives; a fan-out a list for each output of its items, in their order, None where an item has
    none."""
    if frame.kind == "items":
        item = state.containers[frame.owner]
        assert item is not None, "a fan-out has the task it multiplies"
        declared = item.outputs if item.sub is None else (*item.sub.outputs, *item.outputs)
        rows = [state.tasks[number].outputs for number in range(frame.first, frame.first + frame.size)]
        names = dict.fromkeys(output.name for output in declared)
        if not rows and item.stdout in ("text", "lines"):
            names |= dict.fromkeys(stdout_outputs(item.stdout, "", item.outputs))
        for row in rows:
            names |= dict.fromkeys(row)
        return {name: [row.get(name) for row in rows] for name in names}
    scope = FrameScope(state, frame)
    declared = task.outputs if task.sub is None else (*task.sub.outputs, *task.outputs)
    own: dict[str, Json] = {}
    if task.loop is not None:
        carried = {} if task.agent is not None else _last_carried(state, task.loop, frame)
        own = {**carried, "rounds": frame.round}
    return {**own, **values_of(declared, scope)}


def _last_carried(state: State, loop: Loop, frame: Frame) -> dict[str, Json]:
    """What a further round would have been handed; a value that reads a task of the last round which was not reached is
    the one that the last round was handed."""
    scope = FrameScope(state, frame)
    carried: dict[str, Json] = {}
    for name, given in (loop.carry or {}).items():
        try:
            carried |= _carried(loop._replace(carry={name: given}), scope, first=False)
        except NO_VALUE:
            if not reads_unreached(state, frame, given):
                raise
            carried[name] = (frame.values or {}).get(name)
    return carried
