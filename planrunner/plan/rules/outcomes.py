"""How a task may have ended by the time another one starts: what joins, conditions and edges leave possible."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planrunner.plan.expressions.possible import Possible, possible
from planrunner.plan.expressions.problem import MissingName, Undecided
from planrunner.plan.graph import Graph
from planrunner.plan.model import Edge, Expression

Tree = Any

OF_A_RUN = frozenset({"stdout", "stderr", "exit_code", "duration"})
"""What is there of every task that has run, however it ended."""
OF_A_SUCCESS = frozenset({"outputs", "artifacts"})
"""What is sure to be there only of a task that completed."""
COMPLETED = frozenset({"completed"})
RAN = frozenset({"completed", "failed"})
EVERY = RAN | {"skipped", "omitted", "cut_off", "cancelled"}
_NOT_BY_ITSELF = frozenset({"omitted", "cut_off"})
_STOPS_THE_LEVEL = frozenset({"cut_off", "cancelled"})
_FLAGS = {"ok", "done", "cut_off", *EVERY}


class Ended:
    """A scope that knows of one task only, how it ended: that nothing is there which need not be."""

    __slots__ = ("_bare", "_outcome", "_task")

    def __init__(self, task: str, outcome: str, *, bare: bool = False) -> None:
        self._task = task
        self._outcome = outcome
        self._bare = bare

    def resolve(self, name: str) -> Ended | _Result:
        """``tasks``, a task in it and, with ``bare``, the task by its id alone; raises Undecided for anything else."""
        if name == "tasks":
            return Ended(self._task, self._outcome, bare=True)
        if self._bare and name == self._task:
            return _Result(self._outcome)
        raise Undecided(f"`{name}` is not known")


class _Result:
    __slots__ = ("_outcome",)

    def __init__(self, outcome: str) -> None:
        self._outcome = outcome

    def resolve(self, name: str) -> bool | str:
        """A flag or the status; raises MissingName for what is missing after this outcome, Undecided for what is not
        known."""
        if name in _FLAGS:
            return name in _flags(self._outcome)
        if name == "status":
            return "omitted" if self._outcome == "cut_off" else self._outcome
        if is_missing(name, self._outcome):
            raise MissingName(f"there is no `{name}`")
        raise Undecided(f"`{name}` is not known")


class _Own:
    """What the edges of a task read of its own outcome, where that gave nothing."""

    __slots__ = ("_inner",)

    def __init__(self, inner: bool = False) -> None:
        self._inner = inner

    def resolve(self, name: str) -> _Own:
        """Raises MissingName inside ``outputs`` and ``artifacts``, Undecided for anything else."""
        if self._inner:
            raise MissingName(f"there is no `{name}`")
        if name in OF_A_SUCCESS:
            return _Own(inner=True)
        raise Undecided(f"`{name}` is not known")


def _flags(outcome: str) -> set[str]:
    more = {"completed": {"ok"}, "cut_off": {"omitted"}}
    return {outcome, "done", *more.get(outcome, ())}


def is_missing(member: str, outcome: str) -> bool:
    """Whether a member of a task's record may be missing after an outcome."""
    return (member in OF_A_SUCCESS and outcome not in COMPLETED) or (member in OF_A_RUN and outcome not in RAN)


def leads_from_success(edge: Edge) -> bool:
    """Whether an edge leads on only from a task that gave its outputs: from a success, or by a condition on them."""
    if edge.on == "success":
        return True
    return edge.on != "failure" and edge.condition is not None and not possible(edge.condition.tree, _Own()).true


class Outcomes:
    """The possible outcomes of the tasks of one graph."""

    __slots__ = ("_graph", "_regular")

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._regular: list[bool] | None = None

    def of(self, here: int) -> frozenset[str]:
        """How a task may end, whatever comes after it."""
        task = self._graph.tasks[here]
        found = EVERY
        if self.is_regular(here):
            found -= {"skipped", "omitted"}
        if not self._graph.before(here):
            found -= _NOT_BY_ITSELF
            found -= frozenset() if task.when is not None or task.optional else {"skipped"}
        return found

    def is_regular(self, here: int) -> bool:
        """Whether a task runs whenever nothing fails."""
        if self._regular is None:
            self._regular = [False] * len(self._graph)
            for each in self._graph.order:
                self._regular[each] = self._runs(each, self._regular)
        return self._regular[here]

    def _runs(self, here: int, regular: list[bool]) -> bool:
        task = self._graph.tasks[here]
        if task.when is not None or task.optional or self._graph.routed_from[here]:
            return False
        needs = self._graph.needs[here]
        asks_for_failures = task.join.kind in ("expression", "all_failed", "one_failed")
        return not needs or (not asks_for_failures and all(regular[need] for need in needs))

    def by_join(self, here: int, need: int) -> frozenset[str]:
        """How a task may have ended when one starts that needs it, or that stands for ``done``."""
        task, found = self._graph.tasks[here], self.of(need)
        accepted = {"failed"} if self._graph.tasks[need].allow_failure else set()
        if task.concluding:
            return found - _STOPS_THE_LEVEL - ({"failed"} - accepted)
        needs = self._graph.needs[here]
        if need not in needs:
            return found
        kind, single = task.join.kind, len(needs) == 1
        if kind == "all" or (kind in ("any", "all_done_any") and single):
            return found & (COMPLETED | accepted)
        if kind == "at_least" and task.join.count == len(needs):
            return found & (COMPLETED | accepted)
        if kind == "none_failed":
            return found - _STOPS_THE_LEVEL - ({"failed"} - accepted)
        if kind == "all_failed" or (kind == "one_failed" and single):
            return found & {"failed", "cut_off"}
        if kind == "expression" and task.join.expression is not None:
            return self._where(task.join.expression, need, found, bare=True)
        return found

    def by_condition(self, condition: Expression | None, other: int, found: Iterable[str]) -> frozenset[str]:
        """Those outcomes of a task with which a condition may be true."""
        if condition is None or not any(path[0] == "tasks" for path in condition.paths):
            return frozenset(found)
        return self._where(condition, other, found)

    def failing(self, expression: Expression, other: int, outcome: str, may_fail: Any) -> bool:
        """Whether an expression may have no value after an outcome of a task."""
        return self._ends(expression, other, outcome, may_fail=may_fail).fails

    def _where(self, expression: Expression, other: int, found: Iterable[str], *, bare: bool = False) -> frozenset[str]:
        return frozenset(each for each in found if self._ends(expression, other, each, bare=bare).true)

    def _ends(
        self, expression: Expression, other: int, outcome: str, *, bare: bool = False, may_fail: Any = None
    ) -> Possible:
        scope = Ended(self._graph.ids[other], outcome, bare=bare)
        return possible(expression.tree, scope, may_fail or (lambda tree: False))
