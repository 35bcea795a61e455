"""Where a run stands: a fold over its events, changed only by ``evolve`` and never stored."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from planrunner.frozen import EMPTY
from planrunner.machine.events import FreshnessSeen, Outcome, ResetPlanned, RunStatus, TaskStatus
from planrunner.machine.graph import Frame, Shape
from planrunner.machine.ledger import Ledger
from planrunner.machine.timers import Alarms, TimeMeter, Wheel
from planrunner.plan.model import Budgets, EffectClass, Plan, Script, Task
from planrunner.plan.tasks import holds, tools_of

if TYPE_CHECKING:
    from planrunner.machine.compensation_log import CompensationLog
    from planrunner.machine.events import GateVoted
    from planrunner.machine.evidence import Pieces
    from planrunner.plan.rights import Level

Json = Any


class GateState:
    """The gate of a task in one of its visits. ``stage`` and ``request`` are as in GateRequested; ``evidence`` and
    ``policy`` are known once it was ``examined``, ``cut`` says that its judge was interrupted; it waits for people
    while it is ``opened`` and has no ``decision``."""

    __slots__ = (
        "again",
        "attempt",
        "by",
        "cut",
        "decision",
        "escalated",
        "evidence",
        "examined",
        "expires_at",
        "need",
        "not_starter",
        "opened",
        "opened_at",
        "people",
        "policy",
        "reason",
        "request",
        "roles",
        "shown",
        "stage",
        "unchosen",
        "visit",
        "votes",
    )

    def __init__(self, visit: int, stage: str, attempt: int, request: dict[str, Json]) -> None:
        self.visit = visit
        self.stage = stage
        self.attempt = attempt
        self.request = request
        self.examined = self.opened = self.escalated = self.cut = False
        self.evidence: tuple[dict[str, Json], ...] = ()
        self.policy = self.shown = self.unchosen = ""
        self.again = ""
        """Why it asks again; empty where it asks for the first time."""
        self.votes: list[GateVoted] = []
        self.roles: tuple[str, ...] = ()
        self.people: tuple[str, ...] = ()
        self.need = 1
        self.not_starter = False
        self.opened_at = 0.0
        self.expires_at: float | None = None
        self.decision = self.reason = ""
        self.by: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it is for people to decide now."""
        return self.opened and not self.decision and not self.verdict

    @property
    def verdict(self) -> str:
        """What the votes amount to: ``rejected`` by one of them, ``approved`` by as many as it needs for the same
        choice, empty where more are wanted."""
        for vote in self.votes:
            if vote.verdict == "reject":
                return "rejected"
            if len(self.agreeing(vote.choice)) >= self.need:
                return "approved"
        return ""

    def agreeing(self, choice: str) -> list[str]:
        """Who approved with that choice, in the order in which they did."""
        return [vote.by for vote in self.votes if vote.verdict == "approve" and vote.choice == choice]

    @property
    def is_behind(self) -> bool:
        """Decided well, with the work of the task still ahead of it."""
        return self.decision in ("passed", "approved") and self.stage not in ("gate", "criteria", "instruction")


class Kept(NamedTuple):
    """How the visit ``visit`` of the task ``number`` ended, and the digest of what it was called with. A task that
    holds others has instead the ``frame`` that it opened last, whose tasks are compared one by one; with ``by_call``
    an equal call is enough for each of them. Where the plan was revised ``since`` is the time of that: an equal call is
    enough for what comes after nothing that ran since. ``gate`` is what people said at a gate."""

    number: int
    visit: int
    inputs: str = ""
    outcome: Outcome | None = None
    frame: Frame | None = None
    by_call: bool = False
    since: float | None = None
    gate: GateState | None = None


class Circuit:
    """What a breaker has seen: failures in a row, since when it is open (None: it lets through), and the task whose
    attempt was let through to try."""

    __slots__ = ("failures", "since", "trial", "waiting")

    def __init__(self) -> None:
        self.failures = 0
        self.since: float | None = None
        self.trial = -1
        self.waiting: dict[int, None] = {}


class Checkpointed:
    """A moment is the task, its visit, its attempt and the round (0: all of it). ``asked`` are those whose
    checkpoint is requested and not answered; ``taken`` is the last answered one of each task. ``newest`` is the newest
    manifest by the patterns that it was made with; ``problems`` tells by task (or ``task#round``) whether the newest
    checkpoint holds any files, and what it lacks."""

    __slots__ = ("asked", "newest", "problems", "taken")

    def __init__(self) -> None:
        self.asked: set[tuple[int, int, int, int]] = set()
        self.taken: dict[int, tuple[int, int, int, int]] = {}
        self.newest: dict[tuple[str, ...], str] = {}
        self.problems: dict[str, tuple[bool, str]] = {}


class Governed(NamedTuple):
    """``plan`` is the plan without what the operator adds; ``levels`` are the operator's."""

    plan: Plan
    levels: tuple[Level, ...]


DependencyOutcome = Literal["", "completed", "tolerated", "failed", "skipped", "omitted", "cut_off", "cancelled"]
"""How a task looks to those that depend on it: empty while it is not decided. A failed task whose handlers may
still recover it has no outcome yet; a recovered one stands as completed, one whose failure is allowed as
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
    included; ``uncertain`` marks one of unknown end. ``frame`` is the level it stands on, ``inner`` the one it
    opened last, for a task that holds others; ``visit`` counts how often the task was reset. ``gate`` is the
    question it puts or put to people, ``cleared`` names the stages of this visit that were decided well."""

    __slots__ = (
        "attempts",
        "began",
        "broken",
        "cleared",
        "dependency_outcome",
        "detail",
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
        """Tasks of its level, each with its visit, that had failed or ended the plan when it was reset: that does not
        keep it from beginning."""
        self.kept: Kept | None = None
        """What the task came to before it was reset; it stands if the next call is the same."""
        self.rework: dict[str, Json] | None = None
        self.revised = 0
        """The last revision of the plan with which it was reset, or is gone."""
        self.gate: GateState | None = None
        self.cleared: tuple[str, ...] = ()
        self.status: TaskStatus = "pending"
        self.dependency_outcome: DependencyOutcome = ""
        self.attempts = 0
        self.reissues = 0
        self.uncertain = False
        self.judged = True
        self.missing = missing
        self.broken = -1
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

    def with_result(self, outcome: Outcome, outputs: dict[str, Json]) -> TaskState:
        """A copy with another result."""
        other = TaskState(self.missing, self.frame)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.outcome, other.outputs = outcome, outputs
        return other


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
    ``asked`` are tasks for which facts or a probe were asked for and have not come; ``containers`` are loops,
    fan-outs and subplans (a fan-out with the task that each item is); ``failing`` counts the frames in which nothing
    new starts,
    ``closing`` those that are being stopped; ``freshness`` is what was seen of tasks that may be done already;
    ``held`` are tasks that wait until those that are to be reset with them have ended; ``restarts`` are
    services that start again with their run, and those that failed to; ``meters`` are the time budgets of tasks that
    hold others, while they run; ``restricted`` says that some policy may take rights away,
    ``saves`` that some task names files to save; ``checkpoints`` is None where none keeps files, ``governed`` where
    the operator's policy says nothing; ``plans`` are those of later revisions by digest, ``gone`` holds the tasks of
    earlier ones that the plan has no more, ``approved_digest`` is of the plan that approvals are bound to;
    ``begun_at`` is when the run itself began, one that was forked at the fork, ``started_at`` when the times of its
    plan began to count."""

    __slots__ = (
        "active",
        "active_since",
        "again",
        "alarms",
        "approved_digest",
        "asked",
        "attended",
        "begun_at",
        "candidates",
        "checkpoints",
        "circuits",
        "closing",
        "compensation_log",
        "containers",
        "counts",
        "detail",
        "edition",
        "ended_at",
        "endings",
        "environment",
        "epoch",
        "evidence",
        "failing",
        "foreign",
        "freshness",
        "gone",
        "governed",
        "held",
        "index",
        "labels_running",
        "ledger",
        "limits",
        "max_parallel",
        "meters",
        "now",
        "outputs",
        "params",
        "plan",
        "plan_digest",
        "plans",
        "proposal",
        "queue",
        "reason",
        "recovering",
        "releases",
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
        "sessions",
        "shape",
        "slots",
        "specs",
        "started_at",
        "status",
        "stirred",
        "stop_by",
        "stop_comment",
        "stop_reason",
        "tasks",
        "top",
        "traits",
        "unattended",
        "wheel",
    )

    def __init__(self, plan: Plan, run_id: str, plans: Mapping[str, Plan] = EMPTY) -> None:
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
        self.containers: dict[int, Task | None] = {}
        self.counts: dict[TaskStatus, int] = {"pending": 0}
        self.failing = self.closing = self.endings = 0
        self.resets: list[ResetPlanned] = []
        self.sent_back: dict[int, int] = {}
        self.held: dict[int, None] = {}
        self.again: dict[str, str] = {}
        """Why the gates of tasks ask again as soon as they do."""
        self.releases: dict[tuple[int, str], str] = {}
        """Digests of what gates release, as far as they are known (``approvals.py``)."""
        self.proposal = ""
        """The task that proposes the next revision of the plan; empty where none does."""
        self.sessions: dict[tuple[int, str], str] = {}
        """Conversations of agents, as ``sessions.py`` has them."""
        self.evidence: dict[int, Pieces] | None = None
        """What the results of tasks say of hypotheses, by number; None while nothing was said."""
        self.restarts: dict[int, None] = {}
        self.compensation_log: CompensationLog | None = None
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
        """What timeboxes, deadlines and watchdogs of tasks come to; None without any."""
        self.meters: dict[int, TimeMeter] = {}
        self.stirred: set[int] = set()
        """Tasks of which something has changed since it was last looked at whether time waits for people."""
        if plan.budgets != _FREE:
            plain = plan.budgets.warn is None and plan.budgets.on_exhausted in ("", "stop")
            self.limit(plan.budgets._replace(time=None) if plain else plan.budgets)
        self.top = Frame("plan", -1, 0, len(plan.tasks))
        self.top.on_failure = plan.on_failure
        self.index = self.add(self.top, plan.tasks, plan.tasks)
        self._not_begun()

    def _not_begun(self) -> None:
        """What a run is before its first event."""
        self.status: RunStatus = "pending"
        self.reason = self.detail = ""
        self.params: dict[str, Json] = {}
        self.seed, self.edition = 0, 1
        self.selected: frozenset[str] | None = None
        self.traits: dict[str, Trait] = {}
        self.environment: dict[str, Json] = {}
        self.max_parallel, self.limits = self.plan.max_parallel, dict(self.plan.limits)
        self.epoch = self.slots = 0
        self.stop_reason = self.stop_by = self.stop_comment = ""
        self.candidates: dict[int, None] = {}
        self.asked: set[int] = set()
        self.queue = Queue()
        self.wheel = Wheel()
        self.recovering: dict[int, None] = {}
        self.running: dict[int, None] = {}
        self.labels_running: dict[str, int] = {}
        self.outputs: dict[str, Json] = {}
        self.started_at = self.begun_at = self.active = 0.0
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
                self.specs[number], self.containers[number] = divided(self.specs[number])
            elif task.loop is not None or task.sub is not None or (task.subplan and holds(task)):
                self.containers[number] = None
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


def member(holder: Task, item: Task, value: Json) -> Task:
    """The task that an item of a fan-out is. Of calls that a model asks for it is that of their tool, with the inputs
    that the call has arguments for."""
    tools = tools_of(holder)
    if not tools:
        return item
    tool = next(each for each in tools if each.id == value["tool"])
    given = value.get("arguments") or {}
    if tool.sub is not None:
        return tool._replace(params=_of_arguments(tool.params, given))
    if tool.run is not None:
        return tool._replace(run=given["command"], script=_WORD_FOR_WORD)
    return tool._replace(inputs=_of_arguments(tool.inputs, given))


_WORD_FOR_WORD = Script("")
"""A script without values: what looks like a template in it is text."""


def _of_arguments(written: Json, given: dict[str, Json]) -> Json:
    """The inputs of a tool without those that are left to the model and that it did not give."""
    left_out = {name for name, text in (written or {}).items() if text == argument(name) and name not in given}
    return {name: text for name, text in (written or {}).items() if name not in left_out}


def argument(name: str) -> str:
    """The template of an input that a model gives."""
    return f"{{{{ call.arguments.{name} }}}}"


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
