"""What is certain when a task starts: the outcomes that a condition allows, and the tasks that have ended by then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from planrunner.plan.expressions.evaluate import Possible, possible
from planrunner.plan.expressions.values import MissingName, Undecided
from planrunner.plan.graph import Graph
from planrunner.plan.joins import NEEDS_A_SUCCESS, ON_SUCCESS, allowed
from planrunner.plan.model import Edge, Expression
from planrunner.plan.tasks import comes_last

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
            raise MissingName(f"`{name}` is not defined")
        raise Undecided(f"`{name}` is not known")


class _Own:
    """What the edges of a task read of its own outcome, where that gave nothing."""

    __slots__ = ("_inner",)

    def __init__(self, inner: bool = False) -> None:
        self._inner = inner

    def resolve(self, name: str) -> _Own:
        """Raises MissingName inside ``outputs`` and ``artifacts``, Undecided for anything else."""
        if self._inner:
            raise MissingName(f"`{name}` is not defined")
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
        elif self._is_asked(here):
            found -= {"omitted"}
        if not self._graph.before(here):
            found -= _NOT_BY_ITSELF
            found -= frozenset() if task.when is not None else {"skipped"}
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
        if task.when is not None or self._graph.routed_from[here]:
            return False
        needs = self._graph.needs[here]
        return not needs or (task.join.kind in ON_SUCCESS and all(regular[need] for need in needs))

    def _is_asked(self, here: int) -> bool:
        """Whether the condition of a task is asked whenever nothing fails."""
        needs, kind = self._graph.needs[here], self._graph.tasks[here].join.kind
        if self._graph.routed_from[here]:
            return False
        return kind == "none_failed" or (kind in ON_SUCCESS and all(self.is_regular(need) for need in needs))

    def by_join(self, here: int, need: int) -> frozenset[str]:
        """How a task may have ended when one starts that needs it, or that stands for ``done``."""
        task, found = self._graph.tasks[here], self.of(need)
        accepted = {"failed"} if self._graph.tasks[need].allow_failure else set()
        if task.concluding:
            return found - _STOPS_THE_LEVEL - ({"failed"} - accepted)
        needs = self._graph.needs[here]
        if need not in needs:
            return found
        join = task.join
        if join.kind == "expression":
            return found if join.expression is None else self._where(join.expression, need, found, bare=True)
        met = allowed(join.kind, join.count, len(needs))
        if accepted:
            met = met | accepted if "tolerated" in met else met - accepted
        return found & met or found

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


class Guarantees:
    """What holds of ``sources`` (positions of tasks) at the start of every task: sets as bit masks."""

    __slots__ = ("_asked", "_bits", "_completed", "_ran", "graph", "outcomes")

    def __init__(self, graph: Graph, outcomes: Outcomes, sources: Sequence[int]) -> None:
        self.graph = graph
        self.outcomes = outcomes
        self._bits = {source: 1 << bit for bit, source in enumerate(sources)}
        self._asked: dict[int, int] = {}
        """What holds by the ``when`` of a task alone."""
        self._completed, self._ran = [0] * len(graph), [0] * len(graph)
        for here in graph.order:
            self._sweep(here)

    def __contains__(self, source: int) -> bool:
        return source in self._bits

    def at_condition(self, here: int, source: int) -> frozenset[str]:
        """How a source may have ended when the ``when`` of a task is asked."""
        bit = self._bits[source]
        if self._completed[here] & ~self._asked.get(here, 0) & bit:
            return COMPLETED
        found = self.outcomes.by_join(here, source)
        return found & RAN if self._ran[here] & ~self._asked.get(here, 0) & bit else found

    def at_start(self, here: int, source: int) -> frozenset[str]:
        """How a source may have ended when a task starts."""
        if self._completed[here] & self._bits[source]:
            return COMPLETED
        found = self.at_condition(here, source)
        return self.outcomes.by_condition(self.graph.tasks[here].when, source, found)

    def _sweep(self, here: int) -> None:
        task = self.graph.tasks[here]
        if task.concluding:
            done, tried = self._at_the_end(here)
        elif self.graph.needs[here]:
            done, tried = self._by_needs(here)
        else:
            done = tried = 0
        if self.graph.routed_from[here]:
            by_edges = [self._by_edges(source, here) for source in self.graph.routed_from[here]]
            done |= _common(each[0] for each in by_edges)
            tried |= _common(each[1] for each in by_edges)
        if task.when is not None and (asked := self._by_condition(here) & ~(done | tried)):
            self._asked[here] = asked
            done |= asked
        self._completed[here] = done
        self._ran[here] = done | tried

    def _at_the_end(self, here: int) -> tuple[int, int]:
        """At ``done`` nothing that counts has failed."""
        done = tried = 0
        for source, bit in self._bits.items():
            if comes_last(self.graph.tasks[source]):
                continue
            found = self.outcomes.by_join(here, source)
            done |= bit if found <= COMPLETED else 0
            tried |= bit if found <= RAN else 0
        return done, tried

    def _by_needs(self, here: int) -> tuple[int, int]:
        needs, join = self.graph.needs[here], self.graph.tasks[here].join
        done = tried = 0
        for need in needs:
            found = self.outcomes.by_join(here, need)
            if found <= RAN:
                done |= self._completed[need] | (self._bits.get(need, 0) if found <= COMPLETED else 0)
                tried |= self._ran[need] | self._bits.get(need, 0)
            elif found <= RAN | {"skipped"}:  # its condition was asked at least
                asked = self._asked.get(need, 0)
                done |= self._completed[need] & ~asked
                tried |= self._ran[need] & ~asked
        if join.kind != "all" and join.kind in NEEDS_A_SUCCESS:  # one of them is good, which one is not known
            allowed = [self.graph.tasks[need].allow_failure for need in needs]
            own = [0 if allow else self._bits.get(need, 0) for need, allow in zip(needs, allowed, strict=True)]
            done |= _common(self._completed[need] | bit for need, bit in zip(needs, own, strict=True))
            tried |= _common(self._ran[need] | self._bits.get(need, 0) for need in needs)
        return done, tried

    def _by_edges(self, source: int, here: int) -> tuple[int, int]:
        own = self._bits.get(source, 0)
        leading = [edge for edge in self.graph.tasks[source].edges if self.graph.find(edge.target) == here]
        succeeds = all(leads_from_success(edge) for edge in leading)
        return self._completed[source] | (own if succeeds else 0), self._ran[source] | own

    def _by_condition(self, here: int) -> int:
        """The sources that its own condition asks to have completed, with what holds of those."""
        done = 0
        when = self.graph.tasks[here].when
        for name in {path[1] for path in when.paths if path[0] == "tasks" and len(path) > 1} if when else ():
            source = self.graph.index.get(name, -1)
            if source >= 0 and self.outcomes.by_condition(when, source, self.outcomes.of(source)) <= COMPLETED:
                done |= self._completed[source] | self._bits.get(source, 0)
        return done


def _common(masks: Iterable[int]) -> int:
    result = -1
    for mask in masks:
        result &= mask
    return max(result, 0)
