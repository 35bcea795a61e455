"""What the cases of a plan reached: tasks, edges both ways, gates, ways of failing, conditions both ways."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

from planrunner.app.proof.lives import Lived
from planrunner.app.proof.names import demands, home, paths, walk
from planrunner.machine.events import GateDecided, RetryScheduled, TaskSettled, TasksReset, UndoSettled
from planrunner.machine.joins import fired
from planrunner.plan.model import Edge, Gate, Plan, Task

Json = Any

KINDS = ("tasks", "edges", "gates", "failures", "conditions")


class Point(NamedTuple):
    """Something that a run can reach: ``task`` is a written path, ``text`` says the rest."""

    kind: str
    task: str
    text: str


def points(plan: Plan) -> list[Point]:
    """Everything in a plan that its tests should reach, in the order of the plan."""
    found: list[Point] = []
    labelled = demands(plan)
    for path, task in walk(plan.tasks):
        found.append(Point("tasks", path, "starts"))
        found += [
            Point("conditions", path, f"when `{_when(task)}` is {word}") for word in ("true", "false") if task.when
        ]
        for edge in task.edges:
            found += [Point("edges", path, edge_text(edge)), Point("edges", path, edge_text(edge) + " not taken")]
        gates = [gate for _, gate in labelled.get(path, ())] if task.gate is None else [task.gate]
        words = dict.fromkeys(word for gate in gates for word in _decisions(gate))
        found += [Point("gates", path, word) for word in words]
        found += [Point("failures", path, text) for text in _failures(task)]
    return found


def _decisions(gate: Gate) -> list[str]:
    """The ways in which a gate can be decided."""
    words = any(check.expression is None for check in gate.checks)
    asks = gate.ask or gate.roles or gate.people or gate.options or gate.form
    if gate.kind not in ("approval", "decision", "diff") and not (words or asks):
        return ["passed", "failed"]
    return ["approved", "rejected", *(["expired"] if gate.expires is not None else [])]


def _when(task: Task) -> str:
    assert task.when is not None
    return task.when.text


def edge_text(edge: Edge) -> str:
    """An edge as a point names it."""
    only = f" ({edge.failure_class})" if edge.failure_class else ""
    condition = f" when `{edge.condition.text}`" if edge.condition is not None else " else" if edge.otherwise else ""
    return f"on {edge.on}{only} {'back ' if edge.rework else ''}to {edge.target}{condition}"


def _failures(task: Task) -> list[str]:
    texts = []
    if task.retry.attempts > 1:
        texts.append("is tried again")
    if task.allow_failure:
        texts.append("fails with leave")
    texts += [f"fails as {mode.name}" for mode in task.failure_modes]
    if task.rollback is not None:
        texts.append("is rolled back")
    return texts


class Coverage:
    """The points of a plan and those that runs of it have reached."""

    __slots__ = ("_known", "points", "reached", "tasks")

    def __init__(self, plan: Plan) -> None:
        self.points = points(plan)
        self.tasks = paths(plan)
        self._known = frozenset(self.points)
        self.reached: set[Point] = set()

    def note(self, lived: Lived) -> int:
        """Take a run in; gives how many points it was the first to reach."""
        before = len(self.reached)
        self.reached |= _reached(lived, self.tasks) & self._known
        return len(self.reached) - before

    def share(self) -> float:
        """The part of the points that was reached, from 0 to 1."""
        return len(self.reached) / len(self.points) if self.points else 1.0

    def counts(self) -> dict[str, tuple[int, int]]:
        """Reached and all, by kind; kinds that the plan does not have are left out."""
        found: dict[str, tuple[int, int]] = {}
        for kind in KINDS:
            every = [point for point in self.points if point.kind == kind]
            if every:
                found[kind] = (sum(point in self.reached for point in every), len(every))
        return found

    def missing(self) -> list[Point]:
        """The points that no run has reached."""
        return [point for point in self.points if point not in self.reached]


def reached_tasks(lived: Lived, every: Container[str]) -> set[str]:
    """The written paths of the tasks that a run reached; ``every`` are those that the plan has."""
    return {point.task for point in _reached(lived, every) if point.kind == "tasks"}


def _reached(lived: Lived, every: Container[str]) -> set[Point]:
    state = lived.state
    found: set[Point] = set()
    for number, task in enumerate(state.specs):
        path, seen = home(task.id, every), state.tasks[number]
        if seen.attempts or seen.status == "blocked" or seen.gate is not None:
            found.add(Point("tasks", path, "starts"))
            if task.when is not None:
                found.add(Point("conditions", path, f"when `{task.when.text}` is true"))
        if task.when is not None and seen.status == "skipped" and seen.reason == "when":
            found.add(Point("conditions", path, f"when `{task.when.text}` is false"))
        if seen.status == "failed" and task.allow_failure:
            found.add(Point("failures", path, "fails with leave"))
        for route in state.shape.routes_out.get(number, ()):
            text = edge_text(route.edge)
            verdict = fired(state, route)
            if verdict is not None:
                found.add(Point("edges", path, text if verdict else text + " not taken"))
        for route in state.shape.reworks.get(number, ()):
            if seen.standing:
                found.add(Point("edges", path, edge_text(route.edge) + " not taken"))
    return found | _from_entries(lived, every)


def _from_entries(lived: Lived, every: Container[str]) -> set[Point]:
    """What only the journal tells: attempts that were tried again, the classes of failures, decisions, work done
    anew."""
    found: set[Point] = set()
    state = lived.state
    for entry in lived.entries:
        event = entry.event
        if isinstance(event, RetryScheduled):
            found.add(Point("failures", home(event.task, every), "is tried again"))
            found.add(Point("failures", home(event.task, every), f"fails as {event.failure}"))
        elif isinstance(event, TaskSettled):
            if event.failure:
                found.add(Point("failures", home(event.task, every), f"fails as {event.failure}"))
        elif isinstance(event, UndoSettled) and event.status == "undone":
            found.add(Point("failures", home(event.task, every), "is rolled back"))
        elif isinstance(event, GateDecided):
            found.add(Point("gates", home(event.task, every), event.decision))
        elif isinstance(event, TasksReset) and event.cause in state.index:
            for route in state.shape.reworks.get(state.index[event.cause], ()):
                if state.specs[route.target].id in event.tasks:
                    found.add(Point("edges", home(event.cause, every), edge_text(route.edge)))
    return found


def coverage_object(coverage: Coverage) -> dict[str, Json]:
    """The coverage of a plan as data."""
    return {
        "share": round(coverage.share(), 4),
        "kinds": {kind: {"reached": one, "all": every} for kind, (one, every) in coverage.counts().items()},
        "missing": [point._asdict() for point in coverage.missing()],
    }
