"""The graph of a plan as a drawing of the page: laid out on the server, coloured by a run where there is one.

Containers are boxes around what they hold; a fan-out is one node with a cell for each item. Above ``OPEN`` nodes
containers are drawn closed, and columns of a larger level that went well are drawn as one node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from planrunner.frozen import EMPTY
from planrunner.plan.graph import Graph
from planrunner.plan.model import Plan, Task
from planrunner.plan.tasks import inner
from planrunner.records import Struct
from planrunner.views.page.layout import Layout, Level, Link, Node, laid_out, laid_upright
from planrunner.views.page.signs import Sign, task_sign
from planrunner.views.page.story import CALM, WORST, with_owners
from planrunner.views.status import counts_text
from planrunner.views.terminal import cut

OPEN = 300
"""Nodes up to which all containers are open."""
WHOLE = 1_000
"""Nodes that are drawn one by one where all is asked for."""
EVENTFUL = 60
"""Nodes of a large level that stand for themselves because they need a look."""
HEIGHT = 42
NARROW, WIDE = 120.0, 210.0
"""Widths of a node, by the length of its name."""
LETTER = 7.1
"""The width of a letter of a name."""
SMALL = 5.8
"""The same in the line below it."""
CELLS = 8
"""Items of a fan-out that have a cell each."""
_CALM = CALM | {"", "cancelled", "rolled_back"}
"""Statuses that need no look."""


class Cell(Struct):
    """An item of a fan-out, by its place."""

    place: str
    sign: Sign


class Coloured(Struct):
    """What a run adds to a drawing, by place: statuses, a short text below the name (with the number of the entry that
    made it known), items of fan-outs, the edges of the critical path, and notes for edges that were sent back along."""

    statuses: Mapping[str, str] = EMPTY
    note: Callable[[str], tuple[str, int]] = lambda place: ("", 0)
    items: Callable[[str], Sequence[Cell]] = lambda place: ()
    critical: frozenset[tuple[str, str]] = frozenset()
    backs: Mapping[tuple[str, str], tuple[str, int]] = EMPTY


class Drawn(Struct):
    """A node in its place. ``sign`` is None where no run colours the drawing; ``known`` is the entry since which
    ``note`` holds. ``tasks`` counts what a bundle stands for, ``last`` is one under ``finally``."""

    place: str
    name: str
    title: str
    x: float
    y: float
    width: float
    height: float
    sign: Sign | None
    note: str
    known: int
    cells: tuple[Cell, ...]
    undoable: bool
    group: bool
    tasks: int = 1
    last: bool = False


class Edge(Struct):
    """An edge as an SVG path. ``kind`` is need, success, failure, always, condition or back; ``label`` stands at
    ``x``, ``y``; ``known`` is the entry since which a back edge was taken, 0 for one that was not."""

    source: str
    target: str
    kind: str
    path: str
    critical: bool
    taken: bool
    label: str = ""
    x: float = 0.0
    y: float = 0.0
    known: int = 0


class Picture(Struct):
    """A drawing: groups come before what they hold, nodes in the order of the plan."""

    width: float
    height: float
    nodes: tuple[Drawn, ...]
    edges: tuple[Edge, ...]
    hidden: int
    """Tasks that are drawn only as part of a bundle or of a closed container."""


PLAIN = Coloured()


class Skeleton:
    """What a drawing takes from the plan alone."""

    def __init__(self, plan: Plan) -> None:
        self.tasks = plan.tasks
        self.count = _count(plan.tasks)
        self.graph = Graph(Plan("", tasks=plan.tasks))
        self.ranks = self.graph.levels()


def picture(plan: Skeleton, run: Coloured | None = None, whole: bool = False, upright: bool = False) -> Picture:
    """The drawing of a plan; with ``whole`` everything is open, up to ``WHOLE`` nodes. ``upright`` leads from the top
    to the bottom where no node holds others."""
    drawing = _Drawing(run or PLAIN, run is not None)
    whole = whole and plan.count <= WHOLE
    drawing.opens = (lambda place: True) if whole or plan.count <= OPEN else drawing.is_lively
    bundled = not whole and len(plan.tasks) > OPEN
    level = drawing.bundled(plan) if bundled else drawing.level(plan.graph, plan.ranks, "")
    if upright and not any(node.inside for node in level.nodes):
        return drawing.finished(laid_upright(level), plan.count, beside=True)
    return drawing.finished(laid_out(level), plan.count)


def _count(tasks: Sequence[Task]) -> int:
    todo, count = list(tasks), 0
    while todo:
        task = todo.pop()
        count += 1
        todo += _held(task)
    return count


def _held(task: Task) -> tuple[Task, ...]:
    """What is drawn inside a task: neither items of a fan-out nor the rounds of an agent."""
    return () if task.agent is not None or task.fanout is not None else inner(task)


class _Drawing:
    """Collects what the layout does not know: names, notes and signs by place."""

    def __init__(self, run: Coloured, coloured: bool) -> None:
        self.run, self.coloured = run, coloured
        self.tasks: dict[str, Task] = {}
        self.bundles: dict[str, tuple[str, str, int]] = {}
        self.opens: Callable[[str], bool] = lambda place: True
        self.backs: dict[tuple[str, str], str] = {}
        self.lively = with_owners(place for place, status in run.statuses.items() if status not in _CALM)

    def is_lively(self, place: str) -> bool:
        """Whether something inside a place needs a look."""
        return place in self.lively

    def level(self, graph: Graph, ranks: Sequence[int], prefix: str) -> Level:
        """The tasks of one level, with what they hold."""
        nodes = tuple(self._node(task, prefix, rank) for task, rank in zip(graph.tasks, ranks, strict=True))
        return Level(nodes, tuple(self._links(graph, prefix)))

    def _node(self, task: Task, prefix: str, rank: int) -> Node:
        place = prefix + task.id
        self.tasks[place] = task
        held, inside = _held(task), None
        if held and self.opens(place):
            graph = Graph(Plan("", tasks=held))
            inside = self.level(graph, graph.levels(), f"{place}/")
        return Node(place, rank, _width(self._name(place), self.run.note(place)[0]), HEIGHT, inside)

    def _name(self, place: str) -> str:
        return cut(place.rpartition("/")[2], int((WIDE - 46) / LETTER))

    def _links(self, graph: Graph, prefix: str) -> list[Link]:
        links: dict[tuple[int, int], Link] = {}
        for at, task in enumerate(graph.tasks):
            for need in graph.needs[at]:
                links[need, at] = Link(need, at, "need")
            for edge in task.edges:
                target = graph.find(edge.target)
                if target >= 0:
                    self._mark(task, prefix, target, graph, edge.max if edge.rework else 0)
                    links[at, target] = Link(at, target, "back" if edge.rework else edge.on, edge.rework)
            if task.gate is not None and task.gate.on_reject.action == "rework":
                target = graph.find(task.gate.on_reject.target)
                if target >= 0:
                    self._mark(task, prefix, target, graph, task.gate.on_reject.max)
                    links[at, target] = Link(at, target, "back", True)
        return list(links.values())

    def _mark(self, task: Task, prefix: str, target: int, graph: Graph, most: int) -> None:
        if most:
            self.backs[prefix + task.id, prefix + graph.ids[target]] = f"at most {most} times"

    def bundled(self, plan: Skeleton) -> Level:
        """A large level: what needs a look stands for itself, all else of a stretch of columns as one node."""
        graph, ranks = plan.graph, plan.ranks
        lively = [task.id for task in graph.tasks if task.id in self.lively]
        lively.sort(key=lambda place: WORST.get(self.run.statuses.get(place, ""), len(WORST)))
        shown = set(lively[:EVENTFUL])
        seen = [task.id in shown for task in graph.tasks]
        key = _stretches(ranks, seen)
        names = [task.id if seen[at] else f"bundle {key[ranks[at]]}" for at, task in enumerate(graph.tasks)]
        members: dict[str, list[int]] = {}
        for at, name in enumerate(names):
            members.setdefault(name, []).append(at)
        nodes = [
            self._bundle(name, [graph.tasks[at] for at in at_], key[ranks[at_[0]]]) for name, at_ in members.items()
        ]
        index = {name: at for at, name in enumerate(members)}
        pairs = {(names[need], names[at]) for at in range(len(graph)) for need in graph.before(at)}
        links = tuple(Link(index[a], index[b], "need") for a, b in sorted(pairs) if a != b)
        return Level(tuple(nodes), tuple(link for link in links if nodes[link.source].rank < nodes[link.target].rank))

    def _bundle(self, name: str, tasks: list[Task], rank: int) -> Node:
        if not name.startswith("bundle "):
            return self._node(tasks[0], "", rank)._replace(rank=rank)
        counts: dict[str, int] = {}
        for task in tasks:
            status = self.run.statuses.get(task.id, "pending")
            counts[status] = counts.get(status, 0) + 1
        first, last = tasks[0].id, tasks[-1].id
        text = first if len(tasks) == 1 else f"{len(tasks):,} tasks"
        self.bundles[name] = (text, f"{first} to {last}: {counts_text(counts)}", len(tasks))
        self.tasks[name] = tasks[0]
        return Node(name, rank, 150.0, HEIGHT)

    def finished(self, layout: Layout, count: int, beside: bool = False) -> Picture:
        """The drawing, with everything that is known about its nodes and edges; labels of edges stand in the middle of
        these, or ``beside`` them on the right."""
        nodes = tuple(self._drawn(box.key, (box.x, box.y, box.width, box.height), box.group) for box in layout.boxes)
        edges = tuple(
            self._edge(line.source, line.target, line.kind, line.path, (line.label_x, line.label_y))
            for line in layout.lines
        )
        edges, width = _legible(edges, layout.width, beside)
        shown = sum(1 for node in nodes if node.place not in self.bundles)
        return Picture(width, layout.height, nodes, edges, count - shown)

    def _drawn(self, place: str, room: tuple[float, float, float, float], group: bool) -> Drawn:
        if place in self.bundles:
            text, title, size = self.bundles[place]
            return Drawn(place, text, title, *room, self._sign(""), "", 0, (), False, False, size)
        task = self.tasks[place]
        note, known = self.run.note(place)
        status = self.run.statuses.get(place, "pending")
        cells = tuple(self.run.items(place))
        undoable = task.rollback is not None or bool(task.backup)
        sign = self._sign(status)
        final = task.finally_
        return Drawn(place, self._name(place), task.title, *room, sign, note, known, cells, undoable, group, 1, final)

    def _sign(self, status: str) -> Sign | None:
        return task_sign(status or "pending") if self.coloured else None

    def _edge(self, source: str, target: str, kind: str, path: str, place: tuple[float, float]) -> Edge:
        taken = self.run.statuses.get(target, "pending") not in ("pending", "queued")
        critical = (source, target) in self.run.critical
        if kind != "back":
            return Edge(source, target, kind, path, critical, taken)
        label, known = self.run.backs.get((source, target), (self.backs.get((source, target), ""), 0))
        return Edge(source, target, kind, path, False, bool(known), label, *place, known)


def _width(name: str, note: str) -> float:
    return max(NARROW, min(WIDE, 46 + max(LETTER * len(name), SMALL * len(note))))


def _legible(edges: tuple[Edge, ...], width: float, beside: bool) -> tuple[tuple[Edge, ...], float]:
    """The edges with their labels inside the drawing, and the width that this takes."""
    placed = []
    for edge in edges:
        if edge.label:
            half = SMALL * len(edge.label) / 2
            x = edge.x + half - 6 if beside else max(edge.x, half)
            edge, width = edge._replace(x=round(x, 1)), max(width, round(x + half, 1))
        placed.append(edge)
    return tuple(placed), width


def _stretches(ranks: Sequence[int], seen: Sequence[bool]) -> list[int]:
    """For each column the number of its stretch: a column with a task that is seen stands for itself."""
    columns = max(ranks) + 1
    eventful = [False] * columns
    for rank, look in zip(ranks, seen, strict=True):
        eventful[rank] = eventful[rank] or look
    stretch, numbers = -1, []
    for column in range(columns):
        if column == 0 or eventful[column] or eventful[column - 1]:
            stretch += 1
        numbers.append(stretch)
    return numbers
