"""The graph of a plan as flat lists of task numbers: what the machine looks up at every step, computed once."""

from __future__ import annotations

from planrunner.plan.model import Edge, Plan, Task

_ACCEPTS_FAILURE = frozenset({"always", "all_done", "all_failed", "one_failed", "expression"})


class Route:
    """An edge between two tasks, by number."""

    __slots__ = ("edge", "source", "target")

    def __init__(self, source: int, target: int, edge: Edge) -> None:
        self.source = source
        self.target = target
        self.edge = edge


class Shape:
    """Needs and routes in both directions. Tasks are numbered in the order of the plan; a need or an edge that names no
    task is left out here, lint has refused such a plan. ``uncounted`` are the tasks whose join is not met by a count of
    missing needs that reaches nought: they are looked at whenever a need is decided."""

    __slots__ = ("count", "dependents", "finals", "index", "needs", "routes_in", "routes_out", "tolerant", "uncounted")

    def __init__(self, plan: Plan) -> None:
        tasks = plan.tasks
        self.count = len(tasks)
        self.index = index = {task.id: number for number, task in enumerate(tasks)}
        self.needs = [tuple([index[need] for need in task.needs if need in index]) for task in tasks]
        self.dependents: list[list[int]] = [[] for _ in tasks]
        self.routes_in: dict[int, list[Route]] = {}
        self.routes_out: dict[int, list[Route]] = {}
        self.finals = [number for number, task in enumerate(tasks) if task.finally_]
        for number, needs in enumerate(self.needs):
            for need in needs:
                self.dependents[need].append(number)
        for number, task in enumerate(tasks):
            if task.edges:
                self._add_routes(number, task)
        self.uncounted = frozenset([number for number, task in enumerate(tasks) if task.join.kind != "all"])
        self.tolerant = self._tolerant(tasks)

    def _add_routes(self, source: int, task: Task) -> None:
        for edge in task.edges:
            target = self.index.get(edge.target)
            if target is not None:
                route = Route(source, target, edge)
                self.routes_out.setdefault(source, []).append(route)
                self.routes_in.setdefault(target, []).append(route)

    def _tolerant(self, tasks: tuple[Task, ...]) -> frozenset[int]:
        """Tasks that may still start once the run has failed: targets of failure edges, joins that accept a failure,
        and whatever follows those."""
        found = {n for n in self.uncounted if tasks[n].join.kind in _ACCEPTS_FAILURE and tasks[n].needs}
        for number, routes in self.routes_in.items():
            if any(route.edge.on in ("failure", "always") for route in routes):
                found.add(number)
        todo = list(found)
        while todo:
            number = todo.pop()
            following = self.dependents[number] + [route.target for route in self.routes_out.get(number, ())]
            for other in following:
                if other not in found:
                    found.add(other)
                    todo.append(other)
        return frozenset(found)
