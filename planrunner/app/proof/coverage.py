"""What the cases of a plan reached: tasks, edges both ways, gates, ways of failing, conditions both ways."""

from __future__ import annotations

from typing import Any

from planrunner.app.proof.lives import Lived
from planrunner.app.proof.names import specs, walk, written
from planrunner.machine.events import RetryScheduled, TaskSettled
from planrunner.machine.routes import fired
from planrunner.plan.model import Edge, Plan, Task
from planrunner.record import NamedTuple

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
    for path, task in walk(plan.tasks):
        found.append(Point("tasks", path, "starts"))
        found += [Point("conditions", path, f"when `{_when(task)}` is {word}") for word in ("true", "false") if task.when]
        for edge in task.edges:
            found += [Point("edges", path, edge_text(edge)), Point("edges", path, edge_text(edge) + " not taken")]
        if task.gate is not None:
            words = ["approved", "rejected", *(["expired"] if task.gate.expires is not None else [])]
            found += [Point("gates", path, word) for word in words]
        found += [Point("failures", path, text) for text in _failures(task)]
    return found


def _when(task: Task) -> str:
    assert task.when is not None
    return task.when.text


def edge_text(edge: Edge) -> str:
    """An edge as a point names it."""
    only = f" ({edge.failure_class})" if edge.failure_class else ""
    condition = f" when `{edge.condition.text}`" if edge.condition is not None else ""
    return f"on {edge.on}{only} to {edge.target}{condition}"


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

    __slots__ = ("points", "reached")

    def __init__(self, plan: Plan) -> None:
        self.points = points(plan)
        self.reached: set[Point] = set()

    def note(self, lived: Lived) -> int:
        """Take a run in; gives how many points it was the first to reach."""
        before = len(self.reached)
        known = set(self.points)
        self.reached |= {point for point in _reached(lived) if point in known}
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


def reached_tasks(lived: Lived) -> set[str]:
    """The written paths of the tasks that a run reached."""
    return {point.task for point in _reached(lived) if point.kind == "tasks"}


def _reached(lived: Lived) -> set[Point]:
    state = lived.state
    found: set[Point] = set()
    for number, task in enumerate(specs(state)):
        path, seen = written(task.id), state.tasks[number]
        if seen.attempts or seen.status == "blocked" or (task.gate is not None and seen.reason in _DECIDED):
            found.add(Point("tasks", path, "starts"))
            if task.when is not None:
                found.add(Point("conditions", path, f"when `{task.when.text}` is true"))
        if task.when is not None and seen.status == "skipped" and seen.reason == "when":
            found.add(Point("conditions", path, f"when `{task.when.text}` is false"))
        if seen.status == "failed" and task.allow_failure:
            found.add(Point("failures", path, "fails with leave"))
        if seen.status == "rolled_back":
            found.add(Point("failures", path, "is rolled back"))
        for route in state.shape.routes_out.get(number, ()):
            text = edge_text(route.edge)
            verdict = fired(state, route)
            if verdict is not None:
                found.add(Point("edges", path, text if verdict else text + " not taken"))
    return found | _from_entries(lived)


_DECIDED = ("approved", "rejected", "expired")


def _from_entries(lived: Lived) -> set[Point]:
    """What only the journal tells: attempts that were tried again, the classes of failures, decisions."""
    found: set[Point] = set()
    for entry in lived.entries:
        event = entry.event
        if isinstance(event, RetryScheduled):
            found.add(Point("failures", written(event.task), "is tried again"))
            found.add(Point("failures", written(event.task), f"fails as {event.failure}"))
        elif isinstance(event, TaskSettled):
            if event.failure:
                found.add(Point("failures", written(event.task), f"fails as {event.failure}"))
            if event.reason in _DECIDED:
                found.add(Point("gates", written(event.task), event.reason))
    return found


def coverage_object(coverage: Coverage) -> dict[str, Json]:
    """The coverage of a plan as data."""
    return {
        "share": round(coverage.share(), 4),
        "kinds": {kind: {"reached": one, "all": every} for kind, (one, every) in coverage.counts().items()},
        "missing": [point._asdict() for point in coverage.missing()],
    }
