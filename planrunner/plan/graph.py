"""The graph of a plan: who waits for whom, in which order, where it goes round in a circle.

Tasks are integers here, their positions in ``plan.tasks``; neighbours are flat lists of integers and nothing recurses,
so a plan of 100,000 tasks costs a fraction of a second. Two kinds of arrows lead from an earlier task to a later one: a
*need* (the later task waits) and a *route* (an ``on_success``, ``on_failure`` or ``next`` edge starts it). Edges that
send the run back (``rework``) do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from planrunner.plan.model import Edge, Plan, Role, Task
from planrunner.plan.tasks import comes_last, meant_by

Before = Callable[[int], Sequence[int]]


def sweep(order: Sequence[int], before: Before, sources: Sequence[int]) -> list[int]:
    """For each task the set of ``sources`` above it, bit n for ``sources[n]``; ``order`` has earlier ones first."""
    own = _bits(len(order), sources)
    masks = [0] * len(order)
    for here in order:
        mask = 0
        for there in before(here):
            mask |= masks[there] | own[there]
        masks[here] = mask
    return masks


def sweep_components(components: Iterable[Sequence[int]], before: Before, sources: Sequence[int]) -> list[int]:
    """The same for a graph with circles, given as strongly connected components, earlier ones first."""
    parts = list(components)
    count = sum(map(len, parts))
    own = _bits(count, sources)
    masks = [0] * count
    for component in parts:
        mask = 0
        for here in component:
            for there in before(here):
                mask |= masks[there] | own[there]
        for here in component:
            masks[here] = mask
    return masks


def _bits(count: int, sources: Sequence[int]) -> list[int]:
    own = [0] * count
    for bit, source in enumerate(sources):
        own[source] = 1 << bit
    return own


SEARCH_LIMIT = 500_000
"""How many arrows the search for the shortest cycle of one component looks at before it is content with what it has."""


def components(count: int, after: Callable[[int], list[int]]) -> list[list[int]]:
    """Tarjan's strongly connected components without recursion; later components first."""
    number = [0] * count
    low = [0] * count
    on_stack = bytearray(count)
    stack: list[int] = []
    result: list[list[int]] = []
    counter = 0
    for root in range(count):
        if number[root]:
            continue
        counter += 1
        number[root] = low[root] = counter
        stack.append(root)
        on_stack[root] = 1
        work = [(root, iter(after(root)))]
        while work:
            here, rest = work[-1]
            for there in rest:
                if not number[there]:
                    counter += 1
                    number[there] = low[there] = counter
                    stack.append(there)
                    on_stack[there] = 1
                    work.append((there, iter(after(there))))
                    break
                if on_stack[there] and number[there] < low[here]:
                    low[here] = number[there]
            else:
                work.pop()
                if work and low[here] < low[work[-1][0]]:
                    low[work[-1][0]] = low[here]
                if low[here] == number[here]:
                    result.append(_take(stack, here, on_stack))
    return result


def _take(stack: list[int], root: int, on_stack: bytearray) -> list[int]:
    at = len(stack) - 1
    while stack[at] != root:
        at -= 1
    component = stack[at:]
    del stack[at:]
    for here in component:
        on_stack[here] = 0
    return component


def shortest_cycle(knot: Sequence[int], after: Sequence[Sequence[int]]) -> list[int]:
    """A shortest cycle inside a strongly connected set, rotated so that the smallest number comes first.

    A breadth-first search from each member finds it; in huge knots the search ends early with the best so far.
    """
    inside = set(knot)
    best: list[int] = []
    looked = 0
    for start in knot:
        found, cost = _cycle_through(start, inside, after)
        looked += cost
        if found and (not best or len(found) < len(best)):
            best = found
        if len(best) == 2 or looked > SEARCH_LIMIT:
            break
    at = best.index(min(best))
    return best[at:] + best[:at]


def path(start: int, end: int, after: Callable[[int], list[int]], inside: set[int]) -> list[int]:
    """A shortest way from ``start`` to ``end`` that stays ``inside``, both ends included; there must be one."""
    came: dict[int, int] = {start: -1}
    queue = [start]
    for here in queue:
        if here == end:
            break
        for there in after(here):
            if there in inside and there not in came:
                came[there] = here
                queue.append(there)
    return _walk_back(came, end)


def _cycle_through(start: int, inside: set[int], after: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    came: dict[int, int] = {start: -1}
    queue = [start]
    looked = 0
    for here in queue:
        for there in after[here]:
            looked += 1
            if there == start:
                return _walk_back(came, here), looked
            if there in inside and there not in came:
                came[there] = here
                queue.append(there)
    return [], looked


def _walk_back(came: dict[int, int], end: int) -> list[int]:
    path = [end]
    while came[path[-1]] >= 0:
        path.append(came[path[-1]])
    path.reverse()
    return path


BATCH = 2048
"""How many tasks one sweep for ancestors follows at once: a bit each, so memory stays at tasks x 256 bytes."""

_NONE: list[int] = []
"""No neighbours: one list shared by all tasks without, never changed in place."""


class Graph:
    """The arrows between the tasks of one plan, without names that no task has (``plan/rules`` reports those).

    ``needs[i]`` and ``dependents[i]`` are neighbours by needs, ``routed_from[i]`` and ``routes[i]`` by edges. A task
    that needs itself is left out of the arrows and listed in ``loners``.
    """

    __slots__ = (
        "_components",
        "_families",
        "_free",
        "_levels",
        "_order",
        "dependents",
        "ids",
        "index",
        "loners",
        "needs",
        "routed_from",
        "routes",
        "tasks",
    )

    def __init__(self, plan: Plan) -> None:
        self.tasks: tuple[Task, ...] = plan.tasks
        self.ids: list[str] = [task.id for task in plan.tasks]
        self.index: dict[str, int] = {}
        for position, name in enumerate(self.ids):
            self.index.setdefault(name, position)
        count = len(self.ids)
        self.needs: list[list[int]] = [_NONE] * count
        self.dependents: list[list[int]] = [[] for _ in range(count)]
        self.routes: list[list[int]] = [_NONE] * count
        self.routed_from: list[list[int]] = [_NONE] * count
        self.loners: list[int] = []
        self._free: list[int] | None = None
        self._order: list[int] | None = None
        self._levels: list[int] = []
        self._components: list[list[int]] | None = None
        self._families = [at for at, name in enumerate(self.ids) if name[-1:] == "*"]
        self._connect()

    def _connect(self) -> None:
        get, dependents = self.index.get, self.dependents
        for here, task in enumerate(self.tasks):
            if task.needs:
                mine = [get(name, -1) for name in task.needs]
                if -1 in mine or here in mine or len(set(mine)) < len(mine):
                    mine = self._clean(here, task.needs)
                self.needs[here] = mine
                for there in mine:
                    dependents[there].append(here)
            if task.edges:
                targets = dict.fromkeys(self.find(edge.target) for edge in task.edges if not edge.rework)
                self.routes[here] = [there for there in targets if there >= 0]
                for there in self.routes[here]:
                    self.routed_from[there] = [*self.routed_from[there], here]

    def _clean(self, here: int, names: Sequence[str]) -> list[int]:
        roots = dict.fromkeys(self.find(name) for name in names)
        if here in roots:
            self.loners.append(here)
        return [there for there in roots if there not in (-1, here)]

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, name: str) -> int:
        """The position of the task called ``name``, or of the family (``dive-*``) it belongs to; -1 without one."""
        found = self.index.get(name, -1)
        if found >= 0:
            return found
        for position in self._families:
            if meant_by(self.tasks[position], name):
                return position
        return -1

    def before(self, here: int) -> list[int]:
        """The tasks with an arrow to this one."""
        return self.needs[here] + self.routed_from[here] if self.routed_from[here] else self.needs[here]

    def after(self, here: int) -> list[int]:
        """The tasks this one has an arrow to."""
        return self.dependents[here] + self.routes[here] if self.routes[here] else self.dependents[here]

    @property
    def order(self) -> list[int]:
        """Every task once, earlier before later, ties in the order of the text, ``done`` and ``finally`` last.

        Tasks in a cycle, for which no order exists, come together, after what leads to them.
        """
        if self._order is None:
            self._order = self._sort()
        return self._order

    def levels(self) -> list[int]:
        """For each task the length of the longest path to it; ``done`` and ``finally`` come after all others."""
        if not self._levels and self.ids:
            self._levels = self._count_levels()
        return self._levels

    def groups(self) -> list[list[int]]:
        """Tasks that may run side by side, group after group."""
        levels = self.levels()
        groups: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
        for here in range(len(levels)):
            groups[levels[here]].append(here)
        return [group for group in groups if group]

    def _sort(self) -> list[int]:
        order = self._unbound()
        if len(order) < len(self):
            order = [here for component in self.components() for here in component]
        last = [here for here in order if comes_last(self.tasks[here])]
        last.sort(key=lambda here: self.tasks[here].finally_)
        return [here for here in order if not comes_last(self.tasks[here])] + last if last else order

    def _unbound(self) -> list[int]:
        """The tasks that no circle holds back, in order: all of them, unless there is a circle."""
        if self._free is None:
            waiting = [len(needs) + len(routes) for needs, routes in zip(self.needs, self.routed_from, strict=True)]
            self._free = free = [here for here, count in enumerate(waiting) if not count]
            for here in free:
                for there in self.after(here):
                    waiting[there] = count = waiting[there] - 1
                    if not count:
                        free.append(there)
        return self._free

    def is_acyclic(self) -> bool:
        """True unless needs and routes together go round in a circle."""
        return len(self._unbound()) == len(self)

    def _count_levels(self) -> list[int]:
        levels = [0] * len(self)
        for here in self.order:
            level = levels[here] + 1
            for there in self.after(here):
                if levels[there] < level:
                    levels[there] = level
        ends = [levels[here] for here, task in enumerate(self.tasks) if not comes_last(task)]
        below = max(ends, default=-1) + 1
        finals = below + any(task.concluding for task in self.tasks)
        return [
            level + (finals if task.finally_ else below if task.concluding else 0)
            for level, task in zip(levels, self.tasks, strict=True)
        ]

    def components(self) -> list[list[int]]:
        """The strongly connected components over needs and routes, earlier before later."""
        if self._components is None:
            found = components(len(self), self.after)
            found.reverse()
            for component in found:
                component.sort()
            self._components = found
        return self._components

    def cycles(self) -> list[list[int]]:
        """One cycle for each knot of tasks that need each other: the shortest, whole, in the order of waiting.

        Each list starts with its first task in the text; every task needs the next one, and the last needs the first.
        """
        if self.is_acyclic():
            return []
        knots = [part for part in components(len(self), self.needs.__getitem__) if len(part) > 1]
        return sorted(shortest_cycle(sorted(knot), self.needs) for knot in knots)

    def circuits(self) -> list[list[int]]:
        """Cycles that close over a route, which are loops of control flow: one for each knot that has a route inside.

        Each list runs along the arrows and ends with the task whose route leads back to the first.
        """
        if self.is_acyclic():
            return []
        return [found for part in self.components() if len(part) > 1 for found in self._circuit(part)] + [
            [here] for here in range(len(self)) if here in self.routes[here]
        ]

    def _circuit(self, knot: list[int]) -> Iterable[list[int]]:
        inside = set(knot)
        closing = [(here, there) for here in knot for there in self.routes[here] if there in inside and there != here]
        closing.sort(key=lambda pair: (pair[1] > pair[0], pair))
        for here, there in closing[:1]:
            yield path(there, here, self.after, inside)

    def upstream(self, here: int) -> set[int]:
        """Every task that has a path to this one."""
        queue = list(self.before(here))
        seen = set(queue)
        for task in queue:
            for there in self.before(task):
                if there not in seen:
                    seen.add(there)
                    queue.append(there)
        return seen

    def precedes(self, pairs: Sequence[tuple[int, int]]) -> list[bool]:
        """For each pair (earlier, later): whether a path leads from the one to the other.

        Direct neighbours cost nothing; all other pairs are settled together, a sweep over the graph for every 2,048
        different earlier tasks, so that ten thousand tasks that read each other take milliseconds.
        """
        answers = [earlier in self.needs[later] or earlier in self.routed_from[later] for earlier, later in pairs]
        hard: dict[int, list[int]] = {}
        for number, (earlier, _) in enumerate(pairs):
            if not answers[number]:
                hard.setdefault(earlier, []).append(number)
        sources = list(hard)
        for start in range(0, len(sources), BATCH):
            batch = sources[start : start + BATCH]
            masks = self._sweep(batch)
            for bit, earlier in enumerate(batch):
                for number in hard[earlier]:
                    answers[number] = bool(masks[pairs[number][1]] >> bit & 1)
        return answers

    def _sweep(self, sources: Sequence[int]) -> list[int]:
        """For each task the set of ``sources`` above it, as a bit mask."""
        if self.is_acyclic():
            return sweep(self.order, self.before, sources)
        return sweep_components(self.components(), self.before, sources)

    def roles(self, here: int) -> tuple[Role, ...]:
        """The roles a task plays, the first one being what it is called; see ``role``."""
        task = self.tasks[here]
        if task.concluding:
            return ("EXIT",)
        forward = [edge for edge in task.edges if not edge.rework and not chooses(edge)]
        always = {self.index[edge.target] for edge in forward if edge.target in self.index}
        followers = always.union(self.dependents[here])
        return roles_of(task, len(self.before(here)), len(self.after(here)), len(followers))

    def role(self, here: int) -> Role:
        """The role of a task in the graph; the table stands in this module."""
        return self.roles(here)[0]


def roles_of(task: Task, into: int, out: int, followers: int) -> tuple[Role, ...]:
    """The roles of a task with so many arrows to it and away from it, the first one being what it is called.

    ``followers`` are the tasks that follow whatever happens. In this order:

    ======== =====================================================
    START    no arrow leads to it
    EXIT     no arrow leads away from it
    SPLIT    it becomes several: fan-out, loop or subplan
    DECISION an outcome or a condition chooses where it leads
    BRANCH   more than one task follows whatever happens
    MERGE    more than one arrow leads to it
    LINEAR   one in, one out, and nothing of the above
    ======== =====================================================
    """
    roles: list[Role] = []
    if not into:
        roles.append("START")
    if not out:
        roles.append("EXIT")
    if task.fanout or task.loop or task.subplan or task.subplan_file:
        roles.append("SPLIT")
    if any(chooses(edge) for edge in task.edges) or (task.gate is not None and task.gate.kind == "decision"):
        roles.append("DECISION")
    if followers > 1:
        roles.append("BRANCH")
    if into > 1:
        roles.append("MERGE")
    return tuple(roles) or ("LINEAR",)


def chooses(edge: Edge) -> bool:
    """Whether an edge is followed in some cases only; success is what a plan counts on."""
    return edge.on in ("failure", "condition") or edge.condition is not None or edge.otherwise
