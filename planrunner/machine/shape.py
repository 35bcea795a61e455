"""The graph of a run as flat lists of task numbers: what the machine looks up at every step. It grows when a task that
holds others begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planrunner.plan.model import Edge, Task


_ACCEPTS_FAILURE = frozenset({"always", "all_done", "all_done_any", "all_failed", "one_failed", "expression"})


class Route:
    """An edge between two tasks, by number."""

    __slots__ = ("edge", "source", "target")

    def __init__(self, source: int, target: int, edge: Edge) -> None:
        self.source = source
        self.target = target
        self.edge = edge


class Shape:
    """Needs and routes in both directions. Tasks are numbered in the order in which they came; a need or an edge that
    names no task is left out here, lint has refused such a plan. ``uncounted`` are the tasks whose join is not met by a
    count of missing needs that reaches nought: they are looked at whenever a need is decided. ``tolerant`` may start
    though the tasks beside them failed."""

    __slots__ = ("dependents", "needs", "reworks", "routes_in", "routes_out", "tolerant", "uncounted")

    def __init__(self) -> None:
        self.needs: list[tuple[int, ...]] = []
        self.dependents: list[list[int]] = []
        self.routes_in: dict[int, list[Route]] = {}
        self.routes_out: dict[int, list[Route]] = {}
        self.reworks: dict[int, list[Route]] = {}
        """Edges that send back to an earlier task instead of leading on."""
        self.uncounted: set[int] = set()
        self.tolerant: set[int] = set()

    def add(self, tasks: Sequence[Task]) -> dict[str, int]:
        """Append tasks that see each other, under the ids they have in the plan; gives their numbers by id."""
        first = len(self.needs)
        index = {task.id: number for number, task in enumerate(tasks, first)}
        self.needs += [tuple([index[need] for need in task.needs if need in index]) for task in tasks]
        self.dependents += [[] for _ in tasks]
        dependents = self.dependents
        for number in range(first, len(self.needs)):
            for need in self.needs[number]:
                dependents[need].append(number)
        edges = False
        for number, task in enumerate(tasks, first):
            if task.edges:
                edges = True
                self._add_routes(number, task, index)
            if task.join.kind != "all":
                self.uncounted.add(number)
        if edges or self.uncounted:
            self._add_tolerant(first, tasks)
        return index

    def _add_routes(self, source: int, task: Task, index: dict[str, int]) -> None:
        for edge in task.edges:
            target = index.get(edge.target)
            if target is None:
                continue
            route = Route(source, target, edge)
            if edge.rework:
                self.reworks.setdefault(source, []).append(route)
            else:
                self.routes_out.setdefault(source, []).append(route)
                self.routes_in.setdefault(target, []).append(route)

    def _add_tolerant(self, first: int, tasks: Sequence[Task]) -> None:
        """Targets of failure edges, joins that accept a failure, and whatever follows those."""
        found = {
            number
            for number, task in enumerate(tasks, first)
            if (task.join.kind in _ACCEPTS_FAILURE and task.needs)
            or any(route.edge.on in ("failure", "always") for route in self.routes_in.get(number, ()))
        }
        todo = list(found)
        while todo:
            for other in self.following(todo.pop()):
                if other not in found:
                    found.add(other)
                    todo.append(other)
        self.tolerant |= found

    def following(self, number: int) -> list[int]:
        """Tasks that need this one, or that its edges lead to."""
        return self.dependents[number] + [route.target for route in self.routes_out.get(number, ())]
