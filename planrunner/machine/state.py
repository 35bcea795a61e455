"""Where a run stands: a fold over its events, changed only by ``evolve`` and never stored."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from planrunner.machine.checkpointed import Checkpointed
from planrunner.machine.events import FreshnessSeen, Outcome, ResetPlanned, RunStatus, TaskStatus
from planrunner.machine.frame import Frame
from planrunner.machine.ledger import Ledger
from planrunner.machine.shape import Shape
from planrunner.plan.model import Budgets, EffectClass, Plan, Task
from planrunner.plan.tasks import holds

if TYPE_CHECKING:
    from planrunner.machine.alarms import Alarms
    from planrunner.machine.circuit import Circuit
    from planrunner.machine.gate import GateState
    from planrunner.machine.governed import Governed
    from planrunner.machine.kept import Kept
    from planrunner.machine.stint import Stint
    from planrunner.machine.undoing import Debts

Json = Any
Standing = Literal["", "completed", "tolerated", "failed", "skipped", "omitted", "cut_off", "cancelled"]
"""How a task looks to those that depend on it: empty while it is not decided. A failed task whose handlers may
still recover it has no standing yet; a recovered one stands as completed, one whose failure is allowed as
tolerated. A task that is omitted stands as cut off where a failure before it is the cause, as cancelled where a
cancellation is."""


class Trait(NamedTuple):
    """What the machine needs to know of a capability."""

    effect: EffectClass = "unsafe"
    instant: bool = False
    probe: bool = False
    spends: tuple[str, ...] = ()
    undo: bool = False
    taint: Json = None


class Tried(NamedTuple):
    """How an attempt ended that was followed by another one: the class of the failure, what the attempt itself came to
    (``outcome`` empty where it went well and a criterion failed), and how long it took in seconds."""

    attempt: int
    failure: str
    outcome: str
    message: str
    exit_code: int | None
    duration: float
    reason: str = ""
    """What was wrong: the message of the attempt, or the criterion that failed."""


class TaskState:
    """One task of a run. ``attempts`` counts attempts that were started, those before it was sent back (``past``)
    included; ``uncertain`` marks one whose end nobody saw. ``frame`` is the level it stands on, ``inner`` the one it
    opened last, for a task that holds others; ``visit`` counts how often the task was begun anew. ``gate`` is the
    question it puts or put to people, ``cleared`` names the stages of this visit that were decided well."""

    __slots__ = (
        "attempts",
        "began",
        "broken",
        "cleared",
        "detail",
        "due",
        "ended",
        "facts",
        "failure",
        "frame",
        "gate",
        "idle",
        "inner",
        "inputs",
        "insisted",
        "judged",
        "kept",
        "missing",
        "outcome",
        "outputs",
        "overlooks",
        "past",
        "reason",
        "recovered_by",
        "reissues",
        "revised",
        "rework",
        "standing",
        "started",
        "status",
        "tried",
        "uncertain",
        "visit",
    )

    def __init__(self, missing: int, frame: Frame) -> None:
        self.frame = frame
        self.inner: Frame | None = None
        self.visit = 1
        self.past = 0
        self.inputs = ""
        self.insisted = False
        """It begins though its level fails, whatever fails there (resets of older journals)."""
        self.overlooks: frozenset[tuple[str, int]] = frozenset()
        """Tasks of its level, each with its visit, that had failed or ended the plan when it began anew: that does not
        keep it from beginning."""
        self.kept: Kept | None = None
        """What the task came to before it was begun anew; it stands if the next call is the same."""
        self.rework: dict[str, Json] | None = None
        self.revised = 0
        """The last revision of the plan with which it began anew, or is gone."""
        self.gate: GateState | None = None
        self.cleared: tuple[str, ...] = ()
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
        self.began = 0.0
        """When the attempt that began last was started for the first time."""
        self.ended: float | None = None
        self.idle = 0.0
        """Seconds after the start in which no process acted on the run."""
        self.tried: tuple[Tried, ...] = ()
        """The attempts of this visit that another one followed, the last few of them."""


class Queue:
    """Ready tasks that wait for a slot, best last: higher priority first, then the order of the plan.

    Tasks are kept apart by the labels that have limits, so that a full label never makes the search pass over a long
    line of tasks that cannot start.
    """

    __slots__ = ("lines",)

    def __init__(self) -> None:
        self.lines: dict[tuple[str, ...], list[tuple[int, int]]] = {}

    def add(self, labels: tuple[str, ...], priority: int, number: int) -> None:
        insort(self.lines.setdefault(labels, []), (priority, -number))

    def remove(self, labels: tuple[str, ...], priority: int, number: int) -> None:
        line = self.lines[labels]
        del line[bisect_left(line, (priority, -number))]
        if not line:
            del self.lines[labels]

    def numbers(self) -> list[int]:
        """Every task that waits, by number."""
        return sorted(-entry[1] for line in self.lines.values() for entry in line)


class State:
    """A whole run. ``specs`` and ``tasks`` hold every task there is by number: those of the plan first, then, as tasks
    that hold others begin, what is inside them. ``candidates`` are the tasks that the next decision has to look at;
    ``asked`` are tasks for which facts or a probe were asked for and have not come; ``holders`` are the tasks that hold
    others, for a fan-out with the task that each item is; ``failing`` counts the frames in which nothing new starts,
    ``closing`` those that are being stopped; ``freshness`` is what was seen of tasks that may be done already;
    ``held`` are tasks that wait until those that are to begin anew with them have come to rest; ``restarts`` are
    services that start again with their run, and those that failed to; ``stints`` are the time budgets of tasks that
    hold others, while they run; ``restricted`` says that some policy may take rights away,
    ``saves`` that some task names files to save; ``checkpoints`` is None where none keeps files, ``governed`` where
    the operator's policy says nothing; ``plans`` are those of later revisions by digest, ``gone`` holds the tasks of
    earlier ones that the plan has no more, ``approved_digest`` is of the plan that approvals are bound to."""

    __slots__ = (
        "active",
        "active_since",
        "alarms",
        "approved_digest",
        "asked",
        "attended",
        "candidates",
        "checkpoints",
        "circuits",
        "closing",
        "counts",
        "debts",
        "degraded",
        "detail",
        "edition",
        "ended_at",
        "endings",
        "environment",
        "epoch",
        "failing",
        "foreign",
        "freshness",
        "gone",
        "governed",
        "held",
        "holders",
        "index",
        "labels_running",
        "ledger",
        "limits",
        "max_parallel",
        "now",
        "outputs",
        "params",
        "plan",
        "plan_digest",
        "plans",
        "queue",
        "reason",
        "recovering",
        "resets",
        "restarts",
        "restricted",
        "revision",
        "run_id",
        "running",
        "saves",
        "seed",
        "selected",
        "sent_back",
        "shape",
        "slots",
        "specs",
        "started_at",
        "status",
        "stints",
        "stop_by",
        "stop_comment",
        "stop_reason",
        "tasks",
        "timers",
        "top",
        "traits",
        "unattended",
    )

    def __init__(self, plan: Plan, run_id: str, plans: Mapping[str, Plan] = {}) -> None:
        self.plan, self.run_id = plan, run_id
        self.now = 0.0
        """The time of the decision under way, else of the last event."""
        self.plans, self.revision = plans, 1
        self.gone: Frame | None = None
        self.plan_digest = self.approved_digest = ""
        self.attended = self.unattended = False
        self.shape = Shape()
        self.specs: list[Task] = []
        self.tasks: list[TaskState] = []
        self.holders: dict[int, Task | None] = {}
        self.counts: dict[TaskStatus, int] = {"pending": 0}
        self.failing = self.closing = self.endings = 0
        self.resets: list[ResetPlanned] = []
        self.sent_back: dict[int, int] = {}
        self.held: dict[int, None] = {}
        self.restarts: dict[int, None] = {}
        self.debts: Debts | None = None
        """What the run owes, None while that is nothing."""
        self.circuits: dict[int, Circuit] = {}
        """What the breakers of the plan have seen, by their place in it."""
        self.freshness: dict[int, FreshnessSeen] = {}
        self.governed: Governed | None = None
        self.saves, self.foreign, self.restricted = False, False, plan.policy is not None
        self.checkpoints: Checkpointed | None = None
        self.ledger: Ledger | None = None
        """What is spent and set aside; None while nothing is limited and nothing was spent."""
        self.alarms: Alarms | None = None
        """When somebody looks after what runs; None where nobody does."""
        self.stints: dict[int, Stint] = {}
        self.degraded: dict[int, Task] = {}
        """Tasks that do what they declare for when a budget runs short, as the plan has them."""
        if plan.budgets != _FREE:
            plain = plan.budgets.warn is None and plan.budgets.on_exhausted in ("", "stop")
            self.limit(plan.budgets._replace(time=None) if plain else plan.budgets)
        self.top = Frame("plan", -1, 0, len(plan.tasks))
        self.top.on_failure = plan.on_failure
        self.index = self.add(self.top, plan.tasks, plan.tasks)
        self.status: RunStatus = "pending"
        self.reason = self.detail = ""
        self.params: dict[str, Json] = {}
        self.seed, self.edition = 0, 1
        self.selected: frozenset[str] | None = None
        self.traits: dict[str, Trait] = {}
        self.environment: dict[str, Json] = {}
        self.max_parallel = plan.max_parallel
        self.limits = dict(plan.limits)
        self.epoch = self.slots = 0
        self.stop_reason = self.stop_by = self.stop_comment = ""
        self.candidates: dict[int, None] = {}
        self.asked: set[int] = set()
        self.queue = Queue()
        self.timers: list[tuple[float, int]] = []
        self.recovering: dict[int, None] = {}
        self.running: dict[int, None] = {}
        self.labels_running: dict[str, int] = {}
        self.outputs: dict[str, Json] = {}
        self.started_at = self.active = 0.0
        self.ended_at: float | None = None
        self.active_since: float | None = None

    def add(self, frame: Frame, tasks: Sequence[Task], named: Sequence[Task]) -> dict[str, int]:
        """Append the tasks of a frame: as they stand in the plan, and under the names they have in this run."""
        first = len(self.specs)
        frame.index = index = self.shape.add(tasks)
        self.specs += named
        self.tasks += [TaskState(len(needs), frame) for needs in self.shape.needs[first:]]
        self.counts["pending"] += len(tasks)
        for number, task in enumerate(tasks, first):
            if task.finally_:
                frame.finals.append(number)
            elif task.concluding:
                frame.last = number
            if task.backup:
                self.saves = True
            if task.checkpoint is not None or (task.loop is not None and task.loop.checkpoint):
                self.checkpoints = self.checkpoints or Checkpointed()
            if task.fanout is not None:
                self.specs[number], self.holders[number] = divided(self.specs[number])
            elif task.loop is not None or task.sub is not None or (task.subplan and _acts(task)):
                self.holders[number] = None
            if task.budgets is not _FREE and task.budgets != _FREE:
                self.limit(task.budgets)
            if task.sub is not None:
                self.limit(task.sub.budgets)
                self.restricted = self.restricted or task.sub.policy is not None
            if task.policy is not None:
                self.restricted = True
        frame.finals_open = len(frame.finals)
        frame.open = len(tasks) - frame.finals_open
        return index

    def limit(self, budgets: Budgets) -> None:
        """Keep a ledger as soon as anything is limited; time and depth of the plan alone need none."""
        if self.ledger is None and budgets._replace(depth=None, on_exhausted="") != _FREE:
            self.ledger = Ledger()

    @property
    def open(self) -> int:
        """Tasks of the plan's main part that are not settled."""
        return self.top.open

    @property
    def finals_open(self) -> int:
        """Tasks under the plan's ``finally`` that are not settled."""
        return self.top.finals_open

    @property
    def failures(self) -> list[int]:
        """The tasks of the plan that stand as failed, in the order in which they did."""
        return self.top.failures

    def trait(self, task: Task) -> Trait:
        """The traits of the capability a task calls; the task's own ``effect`` narrows or widens the class."""
        trait = self.traits.get(task.uses, _UNKNOWN)
        if task.ready:  # it waits more than it works, and what needs it would wait for its slot
            trait = trait._replace(instant=True)
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
_FREE: Budgets = Task._field_defaults["budgets"]


def _acts(task: Task) -> bool:
    """Whether the steps of a task are more than an instruction in plain words."""
    return bool(holds(task))


def divided(task: Task) -> tuple[Task, Task]:
    """A fan-out as the task that holds its items, and the task that each item is.

    Where it stands in the graph, and whether it may fail, belongs to the former; what is done, and how that is judged
    and tried again, to the latter. A condition belongs to the items when it reads them.
    """
    fanout = task.fanout
    assert fanout is not None
    names = {fanout.name, "item", "index", "matrix"}
    each = task.when is not None and any(path[0] in names for path in task.when.paths)
    bare = Task(task.id)
    holder = bare._replace(**{name: getattr(task, name) for name in _OF_HOLDER}, when=None if each else task.when)
    of_all = ("max_parallel", "tolerate")
    holder = holder._replace(computed=tuple([one for one in task.computed if one.name in of_all]))
    task = task._replace(computed=tuple([one for one in task.computed if one.name not in of_all]))
    by_default = all(name != "budgets" for name, _ in task.spans)
    if by_default:  # what the plan gives every task is for each item, what the task says is for all of them
        holder = holder._replace(budgets=_FREE)
    item = task._replace(
        **{
            name: getattr(bare, name)
            for name in _OF_HOLDER
            if name not in ("title", "priority", "labels", "span", "spans")
        },
        when=task.when if each else None,
    )
    return holder, item._replace(budgets=task.budgets) if by_default else item


_OF_HOLDER = tuple(
    "title description role owner priority labels fanout needs join edges allow_failure finally_ budgets checkpoint "
    "ends_plan span spans".split()
)
