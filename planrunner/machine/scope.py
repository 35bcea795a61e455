"""The names that expressions and templates of a task may read, looked up in the state when they are read."""

from __future__ import annotations

from planrunner.machine.state import State, TaskState
from planrunner.plan.expressions.problem import MissingName
from planrunner.plan.model import Task
from planrunner.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from planrunner.plan.expressions.quantities import Dimension, Quantity

    Json = Any

FACT_ROOTS = ("memory", "network", "host", "disk")
_SIZES = frozenset({"has_space", "free", "memory"})


def facts_read(task: Task) -> tuple[str, ...]:
    """The facts of the world that the preconditions of a task read, as dotted names."""
    return tuple(
        sorted(
            {
                ".".join(path[:2])
                for criterion in task.preconditions
                if criterion.expression is not None
                for path in criterion.expression.paths
                if path[0] in FACT_ROOTS
            }
        )
    )


class TaskScope:
    """Names as the task ``number`` sees them; -1 sees those of the plan (its outputs)."""

    __slots__ = ("_number", "_state")

    def __init__(self, state: State, number: int) -> None:
        self._state = state
        self._number = number

    def resolve(self, name: str) -> Json:
        """The value of a root name; raises MissingName for a name nothing defines."""
        make = _ROOTS.get(name)
        if make is not None:
            return make(self._state)
        if self._number >= 0:
            own = _own(self._state.tasks[self._number], name)
            if own is not _NOT_HERE:
                return own
        raise MissingName(f"nothing is called `{name}` here")


class ResultScope:
    """Names in ``needs`` and ``join`` expressions: a task id stands for its result, ``lint.ok`` or ``lint.skipped``."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    def resolve(self, name: str) -> Json:
        """The result of a task, or one of the plan's names; raises MissingName for a name nothing defines."""
        number = self._state.index.get(name)
        if number is not None:
            return result_of(self._state.tasks[number])
        make = _ROOTS.get(name)
        if make is not None:
            return make(self._state)
        raise MissingName(f"there is no task `{name}`")


class TasksScope:
    """What ``tasks`` stands for: the record of a task is made when it is read."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    def resolve(self, name: str) -> Json:
        """The record of a task; raises MissingName."""
        number = self._state.index.get(name)
        if number is None:
            raise MissingName(f"there is no task `{name}`")
        return task_record(self._state.tasks[number])


def task_record(found: TaskState) -> dict[str, Json]:
    """What others may read of a task: status, result flags, outputs and how its last attempt went."""
    record: dict[str, Json] = {
        "status": "completed" if found.recovered_by else found.status,
        "outputs": found.outputs if found.standing or found.outcome is None else found.outcome.outputs,
        "attempts": found.attempts,
        "reason": found.detail,
        "failure": found.failure,
    }
    record.update(result_of(found))
    if found.outcome is not None:
        record.update(attempt_record(found))
    return record


def attempt_record(found: TaskState) -> dict[str, Json]:
    """How the last attempt went, under the names that criteria use."""
    outcome = found.outcome
    assert outcome is not None
    return {
        "exit_code": outcome.exit_code,
        "duration": _amount(outcome.duration, "time"),
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "artifacts": {str(artifact["name"]): _artifact(artifact) for artifact in outcome.artifacts},
    }


def result_of(found: TaskState) -> dict[str, bool]:
    """A task's result as flags; ``ok`` covers a recovered task and one whose failure is allowed."""
    standing = found.standing
    return {
        "ok": standing in ("completed", "tolerated"),
        "completed": standing == "completed",
        "failed": found.status == "failed" and not found.recovered_by,
        "skipped": standing == "skipped",
        "omitted": standing == "omitted",
        "cancelled": standing == "cancelled",
        "done": standing != "",
    }


def _artifact(artifact: dict[str, Json]) -> dict[str, Json]:
    size = artifact.get("size")
    return {**artifact, "size": _amount(size, "size")} if isinstance(size, int) else artifact


def _amount(value: float, dimension: Dimension) -> Quantity:
    from planrunner.plan.expressions.quantities import Quantity  # late: few tasks read one

    return Quantity(value, dimension)


_NOT_HERE = object()


def _own(found: TaskState, name: str) -> Json:
    if name == "attempt":
        return found.attempts
    if name in FACT_ROOTS:
        return _facts(found).get(name, _NOT_HERE)
    if found.outcome is None:
        return _NOT_HERE
    if name == "outputs":
        return found.outcome.outputs
    if name in ("failure", "message"):
        return getattr(found.outcome, name)
    own = attempt_record(found)
    return own[name] if name in own else found.outcome.outputs.get(name, _NOT_HERE)


def _facts(found: TaskState) -> dict[str, dict[str, Json]]:
    grouped: dict[str, dict[str, Json]] = {}
    for name, value in (found.facts or {}).items():
        root, _, leaf = name.partition(".")
        grouped.setdefault(root, {})[leaf] = _amount(value, "size") if leaf in _SIZES and value is not None else value
    return grouped


def _params(state: State) -> dict[str, Json]:
    dimensions = {param.name: _DIMENSIONS[param.type] for param in state.plan.params if param.type in _DIMENSIONS}
    if not dimensions:
        return state.params
    return {
        name: value if value is None or name not in dimensions else _amount(value, dimensions[name])
        for name, value in state.params.items()
    }


_DIMENSIONS: dict[str, Any] = {"duration": "time", "size": "size", "money": "money"}


def _run(state: State) -> dict[str, Json]:
    """``run.status`` is what a task under ``finally`` wants to know: whether the run is failing."""
    return {"id": state.run_id, "seed": state.seed, "status": "failed" if state.failures else str(state.status)}


_ROOTS: dict[str, Callable[[State], Json]] = {
    "params": _params,
    "tasks": TasksScope,
    "env": lambda state: state.environment.get("env", {}),
    "plan": lambda state: {"id": state.plan.id, "title": state.plan.title, "version": state.plan.version},
    "run": _run,
}
