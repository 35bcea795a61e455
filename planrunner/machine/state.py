"""Where a run stands: a fold over its events, changed only by ``evolve`` and never stored."""

from __future__ import annotations

from planrunner.machine.events import Outcome
from planrunner.machine.shape import Shape
from planrunner.plan.model import Plan, Task
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Literal

    from planrunner.machine.events import RunStatus, TaskStatus
    from planrunner.plan.model import EffectClass

    Json = Any
    Standing = Literal["", "completed", "tolerated", "failed", "skipped", "omitted", "cancelled"]
    """How a task looks to those that depend on it: empty while it is not decided. A failed task whose handlers may
    still
    recover it has no standing yet; a recovered one stands as completed, one whose failure is allowed as tolerated."""


class Trait(NamedTuple):
    """What the machine needs to know of a capability."""

    effect: EffectClass = "unsafe"
    instant: bool = False
    probe: bool = False


class TaskState:
    """One task of a run. ``attempts`` counts attempts that were started, ``uncertain`` marks one whose end nobody
    saw."""

    __slots__ = (
        "attempts",
        "broken",
        "detail",
        "due",
        "ended",
        "facts",
        "failure",
        "judged",
        "missing",
        "outcome",
        "outputs",
        "reason",
        "recovered_by",
        "reissues",
        "standing",
        "started",
        "status",
        "uncertain",
    )

    def __init__(self, missing: int) -> None:
        self.status: TaskStatus = "pending"
        self.standing: Standing = ""
        self.attempts = 0
        self.reissues = 0
        self.uncertain = False
        self.judged = True
        self.missing = missing
        self.broken = -1
        self.due: float | None = None
        self.facts: dict[str, Json] | None = None
        self.outcome: Outcome | None = None
        self.outputs: dict[str, Json] = {}
        self.recovered_by = ""
        self.reason = ""
        self.detail = ""
        self.failure = ""
        self.started: float | None = None
        self.ended: float | None = None


class Queue:
    """Ready tasks that wait for a slot, best last: higher priority first, then the order of the plan.

    Tasks are kept apart by the labels that have limits, so that a full label never makes the search pass over a long
    line of tasks that cannot start.
    """

    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: dict[tuple[str, ...], list[tuple[int, int]]] = {}

    def add(self, labels: tuple[str, ...], priority: int, number: int) -> None:
        from bisect import insort  # late: most runs have a slot for every task

        insort(self.lines.setdefault(labels, []), (priority, -number))

    def remove(self, labels: tuple[str, ...], priority: int, number: int) -> None:
        from bisect import bisect_left  # late, as above

        line = self.lines[labels]
        del line[bisect_left(line, (priority, -number))]
        if not line:
            del self.lines[labels]

    def numbers(self) -> list[int]:
        """Every task that waits, by number."""
        return sorted(-entry[1] for line in self.lines.values() for entry in line)


class State:
    """A whole run. ``candidates`` are the tasks that the next decision has to look at; ``open`` counts the tasks of the
    main part that are not settled, ``finals_open`` those under ``finally``; ``failures`` are the tasks that stand as
    failed, in the order in which they did; ``asked`` are tasks for which facts or a probe
    were asked for and have not come."""

    __slots__ = (
        "active",
        "active_since",
        "asked",
        "candidates",
        "counts",
        "ended_at",
        "environment",
        "epoch",
        "failures",
        "finals_open",
        "index",
        "labels_running",
        "limits",
        "max_parallel",
        "open",
        "outputs",
        "params",
        "plan",
        "queue",
        "reason",
        "recovering",
        "run_id",
        "running",
        "seed",
        "selected",
        "shape",
        "slots",
        "started_at",
        "status",
        "stop_by",
        "stop_comment",
        "stop_reason",
        "tasks",
        "timers",
        "traits",
    )

    def __init__(self, plan: Plan, run_id: str) -> None:
        self.plan = plan
        self.run_id = run_id
        self.shape = shape = Shape(plan)
        self.index = shape.index
        self.tasks = [TaskState(len(needs)) for needs in shape.needs]
        self.status: RunStatus = "pending"
        self.reason = ""
        self.params: dict[str, Json] = {}
        self.seed = 0
        self.selected: frozenset[str] | None = None
        self.traits: dict[str, Trait] = {}
        self.environment: dict[str, Json] = {}
        self.max_parallel = plan.max_parallel
        self.limits = dict(plan.limits)
        self.epoch = 0
        self.failures: list[int] = []
        self.stop_reason = self.stop_by = self.stop_comment = ""
        self.candidates: dict[int, None] = {}
        self.asked: set[int] = set()
        self.queue = Queue()
        self.timers: list[tuple[float, int]] = []
        self.recovering: dict[int, None] = {}
        self.running: dict[int, None] = {}
        self.slots = 0
        self.labels_running: dict[str, int] = {}
        self.finals_open = len(shape.finals)
        self.open = shape.count - self.finals_open
        self.counts: dict[TaskStatus, int] = {"pending": shape.count}
        self.outputs: dict[str, Json] = {}
        self.started_at = 0.0
        self.ended_at: float | None = None
        self.active = 0.0
        self.active_since: float | None = None

    def trait(self, task: Task) -> Trait:
        """The traits of the capability a task calls; the task's own ``effect`` narrows or widens the class."""
        trait = self.traits.get(task.uses, _UNKNOWN)
        return trait if task.effect is None else trait._replace(effect=task.effect)

    def limited_labels(self, task: Task) -> tuple[str, ...]:
        """The labels of a task that have a limit, in a fixed order."""
        if not self.limits or not task.labels:
            return ()
        return tuple(sorted(label for label in set(task.labels) if label in self.limits))

    def spent_time(self, now: float) -> float:
        """Seconds the run was held by a runner so far; time between a park and a resume does not count."""
        return self.active + (now - self.active_since if self.active_since is not None else 0.0)


_UNKNOWN = Trait()
