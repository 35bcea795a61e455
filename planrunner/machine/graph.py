"""The graph of a run: levels of tasks that see each other, their needs and edges as lists of task numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from planrunner.plan.joins import TOLERANT
from planrunner.records import Mutable, field

if TYPE_CHECKING:
    from planrunner.plan.model import Edge, Plan, RollbackPolicy, Task


class Route(Mutable):
    """An edge between two tasks, by number."""

    source: int
    target: int
    edge: Edge


class Shape(Mutable):
    """Needs and routes in both directions. Tasks are numbered in the order in which they came; a need or an edge that
    names no task is left out here, lint has refused such a plan. ``uncounted`` are the tasks whose join is not met by a
    count of missing needs that reaches nought: they are looked at whenever a need is decided. ``tolerant`` may start
    though the tasks beside them failed."""

    needs: list[tuple[int, ...]] = []
    dependents: list[list[int]] = []
    routes_in: dict[int, list[Route]] = {}
    routes_out: dict[int, list[Route]] = {}
    reworks: dict[int, list[Route]] = {}
    """Edges that send back to an earlier task instead of leading on."""
    uncounted: set[int] = field(default_factory=set)
    tolerant: set[int] = field(default_factory=set)

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
            if task.join.kind != "all" or task.join.named:
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
        tolerant = {
            number
            for number, task in enumerate(tasks, first)
            if (task.join.kind in TOLERANT and task.needs)
            or any(route.edge.on in ("failure", "always") for route in self.routes_in.get(number, ()))
        }
        todo = list(tolerant)
        while todo:
            for other in self.following(todo.pop()):
                if other not in tolerant:
                    tolerant.add(other)
                    todo.append(other)
        self.tolerant |= tolerant

    def following(self, number: int) -> list[int]:
        """Tasks that need this one, or that its edges lead to."""
        return self.dependents[number] + [route.target for route in self.routes_out.get(number, ())]


Json = Any
Kind = Literal["plan", "subplan", "round", "items"]


class Rollback(Mutable):
    """One rollback: of the run, or of a plan that another one links (``owner`` is the task that links it, whose
    ``attempt`` ends as ``failure`` and ``message`` say once it is over; -1 for the run).

    ``todo`` are the positions that it has still to undo, the next one first, ``done`` those that it settled, in that
    order; ``doubts`` are tasks that fail once they are undone, with the positions that are theirs. ``left`` is what was
    left of the time of the task that links the plan: its rollback does not use it.
    """

    owner: int = -1
    attempt: int = 0
    account: int = 0
    """The number under which the ledger keeps what it spends."""
    active: bool = False
    bare: tuple[str, ...] = ()
    """Tasks that acted and do not say how they are undone."""
    policy: RollbackPolicy | None = None
    reason: str = ""
    strict: bool = False
    by: str = ""
    comment: str = ""
    failure: str = ""
    message: str = ""
    left: float | None = None
    began: float = 0.0
    ended: float | None = None
    todo: list[int] = []
    current: int | None = None
    doubts: dict[int, tuple[int, ...]] = {}
    done: dict[int, None] = {}
    status: str = ""


class Frame(Mutable):
    """The tasks numbered ``first`` to ``first + size - 1``.

    ``owner`` is the task that holds them, -1 for the plan. ``open`` counts those of the main part that are not settled,
    ``finals_open`` those under ``finally``; ``failures`` are the tasks that stand as failed, in the order in which they
    did, and ``tolerate`` of them are allowed. ``values`` are the items of a fan-out (a list), what a loop carries or
    the parameters of a linked subplan (mappings). Of the items only those before ``limit`` may begin.
    """

    kind: Kind
    owner: int
    first: int
    size: int
    index: dict[str, int] = {}
    on_failure: str = "stop"
    finals: list[int] = []
    finals_open: int = 0
    last: int = -1
    """The task that stands for the ``done`` of its plan, -1 for none."""
    failures: list[int] = []
    ended: int = -1
    """The task that has ended the plan of this level; -1: none."""
    tolerate: int = 0
    closing: str = ""
    """Why nothing of it starts any more: ``timeout``, ``cancelled`` or ``budget``; empty while it goes on."""
    why: str = ""
    """The sentence for that, where there is one."""
    values: Json = None
    round: int = 0
    same: int = 0
    alike: int = 0
    """Rounds in a row before this one that changed nothing that is carried, and that failed alike."""
    sign: tuple[tuple[str, str, str], ...] = ()
    """How the round before failed."""
    limit: int = 0
    """Number after the last item that may begin; 0 where none waits for another."""
    earlier: Frame | None = None
    """The round before this one."""
    before: Frame | None = None
    """What its tasks are compared with, where the task that holds it was reset and may keep what it gave."""
    renewed: set[int] = field(default_factory=set)
    """Tasks of it that a person runs again by name: nothing is kept of them."""
    linked: Plan | None = None
    """The plan of a subplan from a file, whose tasks see nothing of what is around them."""
    undoing: Rollback | None = None
    """The rollback of that plan, once there is one."""
    open: int = -1

    def __post_init__(self) -> None:
        if self.open < 0:
            self.open = self.size

    @property
    def failing(self) -> bool:
        """Whether nothing but handlers and ``finally`` starts in it."""
        return len(self.failures) > self.tolerate and self.on_failure != "continue"
