"""The names that expressions and templates of a task may read, looked up in the state when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from planrunner.frozen import EMPTY
from planrunner.machine.graph import Frame
from planrunner.machine.names import lacking, named_task, needed
from planrunner.machine.policies import hypotheses_in_scope
from planrunner.machine.state import State, TaskState, Tried
from planrunner.machine.stops import level_of, limit_reached, status_of_level
from planrunner.plan.agents import OF_A_CONVERSATION
from planrunner.plan.expressions.quantities import Dimension, Quantity
from planrunner.plan.expressions.values import FACTS, ROOTS, Absent, MissingName, Undecided
from planrunner.plan.model import Expression, Output, Param, Plan, Task


def utc(at: float) -> str:
    """Seconds since 1970 as ``2026-11-23T14:05:00Z``."""
    days, seconds = divmod(int(at // 1), 86_400)
    era, day = divmod(days + 719_468, 146_097)  # days since March 1 of the year 0; 400 years are an era
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month = month + 3 if month < 10 else month - 9
    year += 400 * era + (month <= 2)
    hour, seconds = divmod(seconds, 3_600)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{seconds // 60:02}:{seconds % 60:02}Z"


def uuid(key: str) -> str:
    """A UUID (version 8) that is the same for the same key."""
    digits = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"


Json = Any

Overlay = Mapping[int, TaskState]
"""Tasks by their numbers as a scope shows them, in place of what the state has: with a result that is not folded yet,
or one of an earlier visit."""

NO_OVERLAY: Overlay = EMPTY


def facts_read(task: Task) -> tuple[str, ...]:
    """The facts of the world that ``when`` and the preconditions of a task read, as dotted names."""
    conditions = [criterion.expression for criterion in task.preconditions]
    names = {name for each in (task.when, *conditions) if each is not None for name in facts_of(each)}
    return tuple(sorted(names))


def facts_of(condition: Expression) -> tuple[str, ...]:
    """The facts of the world that a condition reads, as dotted names."""
    return tuple(sorted({".".join(path[:2]) for path in condition.paths if path[0] in ROOTS}))


class TaskScope:
    """Names as the task ``number`` sees them; -1 sees those of the plan (its outputs). ``attempt`` is the one that is
    about to begin, 0 for the one that began last."""

    __slots__ = ("_attempt", "_number", "_overlay", "_state")

    def __init__(self, state: State, number: int, attempt: int = 0, overlay: Overlay = NO_OVERLAY) -> None:
        self._state = state
        self._number = number
        self._attempt = attempt
        self._overlay = overlay

    def resolve(self, name: str) -> Json:
        """The value of a root name; raises MissingName for a name nothing defines."""
        state, number = self._state, self._number
        frame = state.tasks[number].frame if number >= 0 else state.top
        if name == "tasks":
            return TasksScope(state, frame, self._overlay)
        if name == "hypotheses":
            return hypotheses_in_scope(state, frame, self, number)
        make = PLAN_ROOTS.get(name)
        if make is not None:
            return make(state, frame)
        if number >= 0:
            if frame.owner >= 0:
                bound = _bound(state, frame, number, name)
                if bound is not _NOT_HERE:
                    return bound
            own = _own(state, number, name, self._attempt, self._overlay)
            if own is not _NOT_HERE:
                return own
        raise MissingName(f"`{name}` is not defined here")


class FrameScope:
    """Names as the end of a frame sees them: when a loop asks whether it is done, and for the outputs of what holds the
    frame."""

    __slots__ = ("_frame", "_state")

    def __init__(self, state: State, frame: Frame) -> None:
        self._state = state
        self._frame = frame

    def resolve(self, name: str) -> Json:
        """The value of a root name; raises MissingName for a name nothing defines."""
        make = PLAN_ROOTS.get(name)
        if make is not None:
            return make(self._state, self._frame)
        bound = _bound(self._state, self._frame, -1, name)
        if bound is _NOT_HERE:
            raise MissingName(f"`{name}` is not defined here")
        return bound


def _bound(state: State, frame: Frame, number: int, name: str) -> Json:
    """What the frames around a task give it by name: the item, the round, what the loop carries."""
    while frame.owner >= 0:
        if frame.kind == "items" and number >= 0:
            fanout = state.specs[frame.owner].fanout
            at = number - frame.first
            if name == "index":
                return at
            if fanout is not None and name == ("matrix" if fanout.matrix is not None else fanout.name):
                return frame.values[at]
        elif frame.kind == "round":
            if name == "carry":
                return frame.values
            if name == "outputs" and number < 0 and state.specs[frame.owner].agent:
                return _answered(state, frame)
            if name == "around" and state.specs[frame.owner].agent:
                return _around(state, frame.owner)
            if name == "loop":
                loop = state.specs[frame.owner].loop
                return {"round": frame.round, "max": loop.max if loop is not None else 0}
        if frame.linked is not None:
            break
        number = frame.owner
        frame = state.tasks[number].frame
        if name == "rework" and state.tasks[number].rework is not None:
            return _rework(state.tasks[number])
    return _NOT_HERE


def _answered(state: State, frame: Frame) -> dict[str, Json]:
    """The outputs of an agent as they would be if its last answer ended its work."""
    given = outputs_of(state.tasks[frame.index["model"]])
    return {**given, **(given.get("answer") or {}), "rounds": frame.round}


def _around(state: State, number: int) -> dict[str, Json]:
    """What stands around the task of an agent: its plan with the tasks of that, the task itself, and the records of
    those right before it, on its level and on those around it. Only of what has to be over before it begins is told how
    it ended: whatever runs at the same time may stand in any way."""
    task, frame = state.specs[number], state.tasks[number].frame
    plan = plan_of(state, frame)[0]
    results: dict[str, Json] = {}
    while True:
        results |= {_short(state, each): _result(state, each) for each in _before(state, number)}
        if frame.owner < 0 or frame.linked is not None:
            break
        number = frame.owner
        frame = state.tasks[number].frame
    ended = _upstream(state, number)
    rows = [
        {
            "id": _short(state, each),
            "title": state.specs[each].title,
            "needs": list(state.specs[each].needs),
            "status": "this task" if each == number else status_of(state.tasks[each]) if each in ended else "",
        }
        for each in range(frame.first, frame.first + frame.size)
    ]
    criteria = [each.text for each in (*task.expect, *task.postconditions)]
    return {
        "plan": {"id": plan.id, "title": plan.title, "description": plan.description, "tasks": rows},
        "task": {"id": task.id, "title": task.title, "description": task.description, "criteria": criteria},
        "results": results,
    }


def _result(state: State, number: int) -> dict[str, Json]:
    """How a task ended and what it gave."""
    record = task_record(state, number)
    given = {name: record.get(name) for name in ("status", "reason", "outputs", "stdout", "stderr")}
    if state.specs[number].agent:
        given["outputs"] = {name: value for name, value in record["outputs"].items() if name not in OF_A_CONVERSATION}
    return given


def _short(state: State, number: int) -> str:
    return state.specs[number].id.rpartition("/")[2]


def _before(state: State, number: int) -> Iterator[int]:
    """The tasks that a task needs, and those whose edges have led to it."""
    yield from state.shape.needs[number]
    for route in state.shape.routes_in.get(number, ()):
        if state.tasks[route.source].dependency_outcome:
            yield route.source


def _upstream(state: State, number: int) -> set[int]:
    """All tasks that had to end before a task, directly or by others."""
    seen: set[int] = set()
    waiting = [number]
    while waiting:
        for each in _before(state, waiting.pop()):
            if each not in seen:
                seen.add(each)
                waiting.append(each)
    return seen


class GateScope:
    """Names in the checks of a gate: those of any task, the ids of tasks, and what the tasks before it gave:
    ``outputs``, ``artifacts``, and what was counted in the evidence (``tests.failed``, ``diff.files``)."""

    __slots__ = ("_number", "_state")

    def __init__(self, state: State, number: int) -> None:
        self._state = state
        self._number = number

    def resolve(self, name: str) -> Json:
        """The value of a root name; raises MissingName for a name nothing defines."""
        state, task_state = self._state, self._state.tasks[self._number]
        if name in ("outputs", "artifacts"):
            return self._given(name)
        try:
            return TaskScope(state, self._number).resolve(name)
        except MissingName:
            number = numbered(state, task_state.frame, name)
            if number is not None:
                return task_record(state, number)
            for item in task_state.gate.evidence if task_state.gate is not None else ():
                if item.get("counts") is not None and _COUNTED.get(str(item["kind"])) == name:
                    return item["counts"]
            raise

    def _given(self, name: str) -> dict[str, Json]:
        state = self._state
        merged: dict[str, Json] = {}
        for need in dict.fromkeys(each.number for each in needed(state, self._number)):
            record = task_record(state, need)
            merged |= record.get(name, {})
        return merged


_COUNTED = {"junit": "tests", "diff": "diff"}


class TasksScope:
    """What ``tasks`` stands for: the record of a task is made when it is read."""

    __slots__ = ("_frame", "_overlay", "_state")

    def __init__(self, state: State, frame: Frame, overlay: Overlay = NO_OVERLAY) -> None:
        self._state = state
        self._frame = frame
        self._overlay = overlay

    def resolve(self, name: str) -> Json:
        """The record of a task; raises MissingName."""
        number = numbered(self._state, self._frame, name)
        if number is None:
            raise MissingName(_no_task(self._state, self._frame, name))
        task_state = self._overlay.get(number, self._state.tasks[number])
        record = task_record(self._state, number, self._overlay)
        if task_state.inner is not None and task_state.inner.kind == "items":
            record["items"] = _items(self._state, task_state.inner, self._overlay)
            if _nothing_given(self._state, task_state.inner, self._overlay):
                record["outputs"] = _OfItems(record["outputs"], task_state.inner.size)
        return record


def numbered(state: State, frame: Frame, name: str) -> int | None:
    """The number of the task of that id on this level or on one around it, or of the member of a family there."""
    while True:
        number = named_task(state, frame, name)
        if number is not None or frame.owner < 0 or frame.linked is not None:
            return number
        frame = state.tasks[frame.owner].frame


def _no_task(state: State, frame: Frame, name: str) -> str:
    lacks = lacking(state, frame, name)
    return f"`{name}` {lacks or 'is not a task here'}"


def _nothing_given(state: State, frame: Frame, overlay: Overlay) -> bool:
    """Whether no item of a fan-out has completed, so that nothing says which outputs an item gives."""
    if not frame.size:
        return True
    numbers = range(frame.first, frame.first + frame.size)
    return all(
        overlay.get(number, state.tasks[number]).dependency_outcome not in ("", "completed") for number in numbers
    )


class _OfItems(dict[str, "Json"]):
    """The outputs of a fan-out without a completed item: under every name a list with null for each item, since only a
    completed item would say which outputs it gives."""

    def __init__(self, given: Mapping[str, Json], size: int) -> None:
        super().__init__(given)
        self._size = size

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> list[Json]:
        return [None] * self._size


def _items(state: State, frame: Frame, overlay: Overlay) -> list[dict[str, Json]]:
    """The records of a fan-out's items, in their order."""
    return [
        {**task_record(state, frame.first + at, overlay), "item": value, "index": at}
        for at, value in enumerate(frame.values)
    ]


def task_record(state: State, number: int, overlay: Overlay = NO_OVERLAY) -> dict[str, Json]:
    """What others may read of a task: status, result flags, outputs and how its last attempt went."""
    task_state = overlay.get(number, state.tasks[number])
    outputs = _with_units(outputs_of(task_state), _types_of_outputs(state, number))
    if not outputs and task_state.dependency_outcome and task_state.status in _NOT_RUN:
        outputs = Absent()
    record: dict[str, Json] = {
        "status": status_of(task_state),
        "outputs": outputs,
        "attempts": task_state.attempts,
        "reason": task_state.detail,
        "failure": task_state.failure,
    }
    record.update(result_of(task_state))
    if task_state.outcome is not None:
        record.update(attempt_record(task_state))
        if task_state.failure:
            record["message"] = bare_message(state, task_state)
    return record


def bare_message(state: State, task_state: TaskState) -> str:
    """What a failure says itself: of a task that failed because one inside it did, the words of that one."""
    said = task_state.outcome.message if task_state.outcome is not None else ""
    if task_state.inner is None:
        return said
    for number in task_state.inner.failures[:_FIRST]:
        own = bare_message(state, state.tasks[number])
        if own and said.endswith(own):
            return own
    return said


_FIRST = 20
"""So many failures inside a task are looked at for the one that its message names."""

_NOT_RUN = frozenset({"skipped", "omitted", "cancelled"})
"""Statuses of tasks that give no outputs."""


def status_of(task_state: TaskState) -> str:
    """The status as expressions read it: a task that another one recovered counts as completed."""
    return "completed" if task_state.recovered_by else task_state.status


def outputs_of(task_state: TaskState) -> dict[str, Json]:
    """The outputs of a task; of one that failed what its last attempt gave all the same, such as the findings of a
    check."""
    if task_state.outcome is None or (
        task_state.dependency_outcome and (task_state.status != "failed" or task_state.recovered_by)
    ):
        return task_state.outputs
    return task_state.outcome.outputs


def attempt_record(task_state: TaskState) -> dict[str, Json]:
    """How the last attempt went, under the names that criteria use."""
    outcome = task_state.outcome
    assert outcome is not None
    return {
        "exit_code": outcome.exit_code,
        "duration": _amount(outcome.duration, "time"),
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "message": outcome.message,
        "artifacts": {str(artifact["name"]): _artifact(artifact) for artifact in outcome.artifacts},
    }


def result_of(task_state: TaskState) -> dict[str, bool]:
    """A task's result as flags. ``ok`` is one that completed, that another one stands in for, or that was not selected
    for this run; not one whose failure is allowed."""
    outcome = task_state.dependency_outcome
    tolerated = outcome == "tolerated" and task_state.reason == "not_selected"
    return {
        "ok": outcome == "completed" or tolerated,
        "completed": outcome == "completed",
        "failed": task_state.status == "failed" and not task_state.recovered_by,
        "skipped": outcome == "skipped",
        "omitted": task_state.status == "omitted",
        "cut_off": outcome == "cut_off",
        "cancelled": outcome == "cancelled" and task_state.status != "omitted",
        "done": outcome != "",
    }


def _artifact(artifact: dict[str, Json]) -> dict[str, Json]:
    size = artifact.get("size")
    return {**artifact, "size": _amount(size, "size")} if isinstance(size, int) else artifact


def _amount(value: float, dimension: Dimension) -> Quantity:
    return Quantity(value, dimension)


_NOT_HERE = object()


def _own(state: State, number: int, name: str, attempt: int, overlay: Overlay) -> Json:
    task_state = overlay.get(number, state.tasks[number])
    given = task_state.outcome.outputs if task_state.outcome is not None else {}
    if name == "attempt" or (name in OF_ATTEMPTS and name not in given):
        return _of_attempt(state, number, name, attempt)
    if name == "rework":
        return _rework(task_state)
    if name in ROOTS:
        return _facts(task_state).get(name, _NOT_HERE)
    if task_state.outcome is None:
        return _NOT_HERE
    if name == "outputs":
        return _with_units(task_state.outcome.outputs, _types_of_outputs(state, number))
    if name in ("failure", "message"):
        return getattr(task_state.outcome, name)
    own = attempt_record(task_state)
    if name in own or name not in task_state.outcome.outputs:
        return own.get(name, _NOT_HERE)
    return _with_units({name: task_state.outcome.outputs[name]}, _types_of_outputs(state, number))[name]


def _rework(task_state: TaskState) -> dict[str, Json]:
    """Why a task was sent back; the ``objection`` is empty where it has not worked yet."""
    said = task_state.rework or {"comment": "", "by": "", "from": "", "round": 0}
    return {**said, "objection": said["comment"] if task_state.past else ""}


OF_ATTEMPTS = ("attempt", "now", "uuid", "retry")
"""Names that belong to the attempt of a task that is under way or, before it, to the one that is to begin."""


def _of_attempt(state: State, number: int, name: str, attempt: int) -> Json:
    task_state = state.tasks[number]
    begun = task_state.attempts > task_state.past
    attempt = attempt or (task_state.attempts if begun else task_state.attempts + 1)
    if name == "attempt":
        return attempt - task_state.past
    if name == "retry":
        last = next((each for each in reversed(task_state.tried) if each.attempt < attempt), None)
        if last is None and state.specs[number].agent is not None:
            last = _tried_around(state, number)
        if last is None:
            return {"reason": "", "failure": "", "exit_code": None}
        return {"reason": last.reason, "failure": last.failure, "exit_code": last.exit_code}
    if name == "uuid":
        return uuid(f"{state.run_id}:{state.specs[number].id}:{attempt}")
    return utc(task_state.began if begun and task_state.attempts >= attempt else state.now)


def _tried_around(state: State, number: int) -> Tried | None:
    """The last attempt of the nearest task around an agent that was tried before: one of its candidates works in a task
    of its own."""
    frame = state.tasks[number].frame
    while frame.owner >= 0 and frame.linked is None:
        if tried := state.tasks[frame.owner].tried:
            return tried[-1]
        frame = state.tasks[frame.owner].frame
    return None


def _facts(task_state: TaskState) -> dict[str, dict[str, Json]]:
    grouped: dict[str, dict[str, Json]] = {}
    for name, value in (task_state.facts or {}).items():
        root, _, leaf = name.partition(".")
        is_size = FACTS.get(name, ("",))[0] == "size" and value is not None
        grouped.setdefault(root, {})[leaf] = _amount(value, "size") if is_size else value
    return grouped


def _params(state: State, frame: Frame) -> dict[str, Json]:
    plan, values = plan_of(state, frame)
    return _with_units(values, plan.params)


_DIMENSIONS: dict[str, Any] = {"duration": "time", "size": "size", "money": "money", "percent": "percent"}


def _types_of_outputs(state: State, number: int) -> tuple[Output | Param, ...]:
    """What declares the types of a task's outputs: the task, the form of its gate, the plan that it links; of a fan-out
    what the task of each item declares."""
    item = state.containers.get(number)
    task = item if item is not None else state.specs[number]
    linked = task.sub.outputs if task.sub is not None else ()
    return (*linked, *(task.gate.form if task.gate is not None else ()), *task.outputs)


def _with_units(values: dict[str, Json], declared: tuple[Output | Param, ...]) -> dict[str, Json]:
    """Values of declared types as expressions and texts read them: in the journal an amount is a plain number."""
    dimensions = {each.name: _DIMENSIONS[each.type] for each in declared if each.type in _DIMENSIONS}
    if not dimensions:
        return values
    return {name: _measured(value, dimensions.get(name)) for name, value in values.items()}


def _measured(value: Json, dimension: Dimension | None) -> Json:
    """The list that a fan-out gives holds one amount for each item."""
    if dimension is None or isinstance(value, bool):
        return value
    if isinstance(value, list):
        return [_measured(item, dimension) for item in value]
    return _amount(value, dimension) if isinstance(value, (int, float)) else value


def plan_outputs(state: State) -> dict[str, Json]:
    """The outputs of a run as expressions read them."""
    return _with_units(state.outputs, state.plan.outputs)


def plan_of(state: State, frame: Frame) -> tuple[Plan, dict[str, Json]]:
    """The plan that the tasks of a frame were written in, and the values of its parameters."""
    while frame.owner >= 0:
        if frame.linked is not None:
            return frame.linked, frame.values
        frame = state.tasks[frame.owner].frame
    return state.plan, state.params


def _plan(state: State, frame: Frame) -> dict[str, Json]:
    plan = plan_of(state, frame)[0]
    return {"id": plan.id, "name": plan.id, "title": plan.title, "version": plan.version}


def _run(state: State, frame: Frame) -> dict[str, Json]:
    """``run.status`` says whether a level is failing and, once only its ``finally`` is left, what it comes to."""
    level = level_of(state, frame)
    failing = "failed" if frame.failures else str(state.status)
    status = failing if level is None else status_of_level(state, level)
    failures = [_failed(state, number) for number in (level or frame).failures]
    if level is not None and (limit := limit_reached(state, level)) != ("", ""):
        failures.append({"task": "", "class": limit[0], "message": limit[1]})
    fields = _Run(state, level or frame, id=state.run_id, seed=state.seed, status=status, failures=failures)
    if directory := state.environment.get("directory"):
        fields |= {"dir": directory, "project": str(directory).rstrip("/").rpartition("/")[2]}
    return fields


class _Run(dict[str, "Json"]):
    """What ``run`` stands for. All tasks of the level are looked through only where its ``duration`` is read."""

    def __init__(self, state: State, level: Frame, **fields: Json) -> None:
        super().__init__(fields)
        self._state, self._level = state, level

    def __contains__(self, name: object) -> bool:
        return name == "duration" or super().__contains__(name)

    def __missing__(self, name: str) -> Json:
        if name == "duration":
            return _amount(_lasted(self._state, self._level), "time")
        raise KeyError(name)


def _failed(state: State, number: int) -> dict[str, Json]:
    """A failure that stands, as expressions read it."""
    task_state = state.tasks[number]
    message = bare_message(state, task_state)
    return {
        "task": state.specs[number].id,
        "class": task_state.failure or "logic",
        "message": message or task_state.detail,
    }


def _lasted(state: State, level: Frame) -> float:
    """Seconds from the start of the run until the last task of a level ended that is not under ``finally``."""
    ended = [
        task_state.ended or 0.0
        for number, task_state in enumerate(state.tasks[level.first : level.first + level.size], level.first)
        if not state.specs[number].finally_
    ]
    return max(0.0, max(ended, default=0.0) - state.started_at)


PLAN_ROOTS: dict[str, Callable[[State, Frame], Json]] = {
    "params": _params,
    "tasks": TasksScope,
    "env": lambda state, frame: state.environment.get("env", {}),
    "plan": _plan,
    "run": _run,
    "hypotheses": hypotheses_in_scope,
}
"""Names that mean the same for every task of a plan."""


FLAGS = frozenset({"ok", "completed", "failed", "skipped", "omitted", "cut_off", "cancelled", "done"})
"""What is true or false of a task that has ended."""

_COMPLETED = {flag: flag in ("ok", "completed", "done") for flag in FLAGS}


class ResultScope:
    """A task id stands for its result, ``lint.ok`` or ``lint.skipped``; a need that has not ended is undecided. With
    ``ideal`` every need reads as completed, with nothing known of what it gave."""

    __slots__ = ("_frame", "_ideal", "_needs", "_state")

    def __init__(self, state: State, number: int, ideal: bool = False) -> None:
        self._state = state
        self._frame = state.tasks[number].frame
        self._needs = state.shape.needs[number]
        self._ideal = ideal

    def resolve(self, name: str) -> Json:
        """The result of a task, or one of the plan's names; raises MissingName for a name nothing defines."""
        state = self._state
        number = numbered(state, self._frame, name)
        if name == "tasks":
            return _Tasks(self, number)
        if number is not None:
            return self.result(number)
        make = PLAN_ROOTS.get(name)
        if make is not None:
            return make(state, self._frame)
        raise MissingName(_no_task(state, self._frame, name))

    def result(self, number: int) -> Json:
        """The flags and the status of a task."""
        task_state = self._state.tasks[number]
        return self._unknown(number) or {**result_of(task_state), "status": status_of(task_state)}

    def record(self, name: str) -> Json:
        """What ``tasks.name`` stands for; raises MissingName."""
        number = numbered(self._state, self._frame, name)
        unknown = self._unknown(number) if number is not None else None
        return unknown or TasksScope(self._state, self._frame).resolve(name)

    def _unknown(self, number: int) -> _Unknown | None:
        """What a need reads as where its result is not looked at."""
        frame = self._state.tasks[number].frame
        is_need = number in self._needs or (frame.kind == "items" and frame.owner in self._needs)
        if not is_need or (self._state.tasks[number].dependency_outcome and not self._ideal):
            return None
        return _Unknown(self._state.specs[number].id, _COMPLETED if self._ideal else {})


class _Tasks:
    """``tasks``: any task by its id, and first the flags of the task that is called so, where there is one."""

    __slots__ = ("_own", "_scope")

    def __init__(self, scope: ResultScope, own: int | None) -> None:
        self._scope = scope
        self._own = own

    def resolve(self, name: str) -> Json:
        """The record of a task, or a flag of the task called ``tasks``; raises MissingName."""
        if self._own is None or (name not in FLAGS and name != "status"):
            return self._scope.record(name)
        own = self._scope.result(self._own)
        return own.resolve(name) if isinstance(own, _Unknown) else own[name]


class _Unknown:
    """A task of which no more is known than some flags: anything else that is read of it is undecided."""

    __slots__ = ("_flags", "_name")

    def __init__(self, name: str, flags: Mapping[str, bool]) -> None:
        self._name = name
        self._flags = flags

    def resolve(self, name: str) -> bool:
        """A flag that is known; raises Undecided for anything else."""
        if name in self._flags:
            return self._flags[name]
        raise Undecided(f"`{self._name}` has not ended", name in FLAGS)
