"""What came of a case against what its author expects, with the reason where they differ."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from planrunner.app.proof.coverage import Expectation
from planrunner.app.proof.lives import Lived
from planrunner.app.proof.names import matches
from planrunner.machine.events import AttemptStarted
from planrunner.machine.explain import why
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State
from planrunner.plan.expressions.evaluate import explain, truth
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.quantities import Quantity
from planrunner.plan.expressions.values import EvaluationError, Names
from planrunner.records import Struct
from planrunner.source import Span
from planrunner.views.status import exit_code

Json = Any


MISSING = "nothing"


class Miss(Struct):
    """An expectation that does not hold; ``why`` are the sentences that explain the task it is about."""

    about: str
    expected: str
    got: str
    span: Span
    why: tuple[str, ...] = ()


def misses(lived: Lived, expectations: Iterable[Expectation]) -> list[Miss]:
    """The expectations that do not hold."""
    misses: list[Miss] = []
    for each in expectations:
        misses += _TABLE.get(each.about.partition(".")[0], _unknown)(lived, each)
    return misses


def _unknown(lived: Lived, each: Expectation) -> list[Miss]:
    raise KeyError(each.about)


def _miss(each: Expectation, got: Json, why: tuple[str, ...] = ()) -> list[Miss]:
    return [Miss(each.about, shown(each.wanted), got if isinstance(got, str) else shown(got), each.span, why)]


def shown(value: Json) -> str:
    """Data for people: text as it is, else JSON."""
    if isinstance(value, str):
        return value or '""'
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else text[:299] + "…"


def _status(lived: Lived, each: Expectation) -> list[Miss]:
    if lived.state.status == each.wanted:
        return []
    return _miss(each, lived.state.status, troubles(lived.state))


def _exit_code(lived: Lived, each: Expectation) -> list[Miss]:
    code = exit_code(lived.state)
    return [] if code == each.wanted else _miss(each, code, troubles(lived.state))


def _reason(lived: Lived, each: Expectation) -> list[Miss]:
    reason = lived.state.reason
    return [] if reason == each.wanted else _miss(each, reason or MISSING, troubles(lived.state))


def troubles(state: State) -> tuple[str, ...]:
    """Why the tasks stand so that keep a run from completing, the first few of them."""
    lines: list[str] = []
    for task, task_state in zip(state.specs, state.tasks):
        if task_state.dependency_outcome == "failed" or task_state.status in ("blocked", "in_doubt"):
            lines.append(why(state, task.id)[0])
    return tuple(lines[:3])


def _tasks(lived: Lived, each: Expectation) -> list[Miss]:
    numbers = [number for number, task in enumerate(lived.state.specs) if matches(each.task, task.id)]
    if not numbers:
        return _miss(each, f"the run has no task `{each.task}`")
    misses: list[Miss] = []
    for number in numbers:
        task = lived.state.specs[number].id
        got = _field(lived, number, each.about[len(f"tasks.{each.task}.") :])
        if not _agrees(each, got):
            name = "" if task == each.task else f"{task}: "
            misses += _miss(
                each, name + (got if isinstance(got, str) and got else shown(got)), tuple(why(lived.state, task))
            )
    return misses[:5]


def _agrees(each: Expectation, got: Json) -> bool:
    if each.about.endswith(".detail") and isinstance(got, str):
        return str(each.wanted) in got
    return same(each.wanted, got)


def same(wanted: Json, got: Json) -> bool:
    """Equal as JSON is: ``1`` and ``1.0`` are, ``1`` and ``true`` are not."""
    if isinstance(wanted, bool) or isinstance(got, bool):
        return wanted is got
    if isinstance(wanted, dict) and isinstance(got, dict):
        return wanted.keys() == got.keys() and all(same(wanted[key], got[key]) for key in wanted)
    if isinstance(wanted, (list, tuple)) and isinstance(got, (list, tuple)):
        return len(wanted) == len(got) and all(same(one, other) for one, other in zip(wanted, got))
    return bool(wanted == got)


def _field(lived: Lived, number: int, name: str) -> Json:
    found = lived.state.tasks[number]
    if name.startswith("outputs."):
        return found.outputs.get(name.removeprefix("outputs."), MISSING)
    return getattr(found, name)


def _outputs(lived: Lived, each: Expectation) -> list[Miss]:
    got = lived.state.outputs.get(each.about.removeprefix("outputs."), MISSING)
    return [] if same(each.wanted, got) else _miss(each, got, troubles(lived.state))


def started(lived: Lived) -> list[str]:
    """The tasks in the order in which their attempts began."""
    return [entry.event.task for entry in lived.entries if isinstance(entry.event, AttemptStarted)]


def _order(lived: Lived, each: Expectation) -> list[Miss]:
    order = started(lived)
    at = 0
    for name in each.wanted:
        later = [place for place in range(at, len(order)) if matches(name, order[place])]
        if not later:
            state = lived.state
            task = next((task.id for task in state.specs if matches(name, task.id)), "")
            got = ", ".join(order) or "no task started"
            return _miss(each, got, tuple(why(state, task)) if task and task not in order else ())
        at = later[0] + 1
    return []


def _never(lived: Lived, each: Expectation) -> list[Miss]:
    order = started(lived)
    hits = dict.fromkeys(task for task in order if any(matches(name, task) for name in each.wanted))
    return [
        Miss(f"never {task}", "never starts", "it started", each.span, tuple(why(lived.state, task))) for task in hits
    ]


def _waiting(lived: Lived, each: Expectation) -> list[Miss]:
    state = lived.state
    got = [
        task.id for task, task_state in zip(state.specs, state.tasks) if task_state.status in ("blocked", "in_doubt")
    ]
    exact = len(got) == len(each.wanted) and all(any(matches(name, task) for task in got) for name in each.wanted)
    return [] if exact else _miss(each, got, troubles(lived.state))


def _duration(lived: Lived, each: Expectation) -> list[Miss]:
    duration = Quantity(round(lived.duration, 3), "time")
    try:
        holds = truth(parse(f"duration {each.wanted}").tree, Names({"duration": duration}))
    except (EvaluationError, ValueError) as error:
        return _miss(each, f"{duration}: {error}")
    return [] if holds else _miss(each, str(duration))


def _holds(lived: Lived, each: Expectation) -> list[Miss]:
    scope = TaskScope(lived.state, -1)
    tree = parse(each.wanted)
    try:
        if truth(tree.tree, scope):
            return []
        got = explain(tree.tree, scope)
    except EvaluationError as error:
        got = f"it has no value: {error}"
    tasks = dict.fromkeys(path[1] for path in tree.paths if path[0] == "tasks" and len(path) > 1)
    return _miss(each, got, tuple(why(lived.state, task)[0] for task in tasks if task in lived.state.index))


def _events(lived: Lived, each: Expectation) -> list[Miss]:
    at = 0
    for wanted in each.wanted:
        kind, task = (wanted, "") if isinstance(wanted, str) else (wanted["kind"], wanted.get("task", ""))
        later = [place for place in range(at, len(lived.entries)) if _is(lived, place, kind, task)]
        if not later:
            kinds = dict.fromkeys(type(entry.event).__name__ for entry in lived.entries[at:])
            return _miss(
                each, f"no {kind}" + (f" of `{task}`" if task else "") + f" after entry {at}; {', '.join(kinds)}"
            )
        at = later[0] + 1
    return []


def _is(lived: Lived, place: int, kind: str, task: str) -> bool:
    event = lived.entries[place].event
    return type(event).__name__ == kind and (not task or matches(task, getattr(event, "task", "")))


_TABLE = {
    "status": _status,
    "exit_code": _exit_code,
    "reason": _reason,
    "tasks": _tasks,
    "outputs": _outputs,
    "order": _order,
    "never": _never,
    "waiting": _waiting,
    "duration": _duration,
    "holds": _holds,
    "events": _events,
}
