"""Which tasks are sure to have completed, or to have run, whenever another one starts: one sweep for many tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planrunner.plan.graph import Graph
from planrunner.plan.holding import comes_last
from planrunner.plan.rules.outcomes import COMPLETED, RAN, Outcomes, leads_from_success


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
        if join.kind in ("any", "at_least", "all_done_any"):  # one of them is good, which one is not known
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
