"""Where a run stands: a fold over its events, changed only by ``evolve`` and never stored."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from planrunner.frozen import EMPTY
from planrunner.later import Later
from planrunner.machine.events import FreshnessSeen, Outcome, ResetPlanned, RunStatus, TaskStatus
from planrunner.machine.graph import Frame, Rollback, Shape
from planrunner.machine.timers import Alarms, TimeMeter, Wheel
from planrunner.plan.agents import ASKING, PLANNING
from planrunner.plan.model import Budgets, EffectClass, Plan, Script, Task
from planrunner.plan.tasks import holds, tools_of
from planrunner.records import Mutable, Struct, field

if TYPE_CHECKING:
    from planrunner.machine.events import GateVoted
    from planrunner.machine.ledger import Ledger
    from planrunner.plan.rights import Level

Json = Any


class GateState(Mutable):
    """The gate of a task in one of its visits. ``stage`` and ``request`` are as in GateRequested; ``evidence`` and
    ``policy`` are known once it was ``examined``, ``cut`` says that its judge was interrupted; it waits for people
    while it is ``opened`` and has no ``decision``."""

    visit: int
    stage: str
    attempt: int
    request: dict[str, Json]
    examined: bool = False
    opened: bool = False
    escalated: bool = False
    cut: bool = False
    evidence: tuple[dict[str, Json], ...] = ()
    policy: str = ""
    shown: str = ""
    unchosen: str = ""
    again: str = ""
    """Why it asks again; empty where it asks for the first time."""
    votes: list[GateVoted] = []
    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    need: int = 1
    not_starter: bool = False
    opened_at: float = 0.0
    expires_at: float | None = None
    decision: str = ""
    reason: str = ""
    by: tuple[str, ...] = ()

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


Ratio = tuple[int, int]
"""Odds of a hypothesis, or a factor of them: numerator and denominator."""


class Piece(Struct):
    """One piece of evidence: ``said`` by the result of a task about a hypothesis. ``why`` is the condition that held,
    or why none did; the odds are multiplied by ``factor``."""

    hypothesis: str
    said: Literal["supports", "refutes", "neutral"]
    factor: Ratio
    why: str


Pieces = tuple[Piece, ...]


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


Fate = Literal["", "undone", "failed", "left"]


class UndoStep(Mutable):
    """One thing to undo: the ``rollback`` action of a task, the files that were saved before it started, or what its
    capability did, by what it noted before.

    There is one for each visit of a task, whatever number of attempts it took; ``attempt`` is the last of them, 0 while
    none has started, and ``acted`` the last that did something. ``outputs`` are those of an earlier visit (None: the
    task still has them). ``tries`` counts the attempts to undo it in the rollback that goes on, ``last`` is the number
    of the newest one. What has the higher ``rank`` started later and is undone earlier. ``shown_by`` is the task, with
    its visit, that has as its result what is to be undone: another one where that was kept when the run was reset.
    """

    kind: Literal["action", "files", "capability"]
    number: int
    visit: int
    task: Task | None = None
    """As it was defined when it acted, where a revision has another definition since."""
    rank: int = 0
    attempt: int = 0
    acted: int = 0
    files: tuple[dict[str, Json], ...] = ()
    patterns: tuple[str, ...] = ()
    outputs: dict[str, Json] | None = None
    fate: Fate = ""
    detail: str = ""
    tries: int = 0
    last: int = 0
    reissues: int = 0
    cut: bool = False
    """The end of its newest attempt was not seen: it is issued again."""
    outcome: Outcome | None = None
    due: float | None = None
    began: float | None = None
    ended: float | None = None
    shown_by: tuple[int, int] = (-1, 0)

    def __post_init__(self) -> None:
        if self.shown_by == (-1, 0):
            self.shown_by = (self.number, self.visit)


class CompensationLog(Mutable):
    """Everything a run owes, and its rollbacks.

    ``of`` gives the positions in ``steps`` that belong to a task, ``inside`` those of what started inside a task that
    links a plan which is rolled back. ``main`` is the rollback of the whole run that goes on or was the last one;
    ``frames`` are those of linked plans that go on, by the task that links the plan; ``rollbacks`` are all there were,
    and ``under`` tells which of them was the last to take on a position. ``counts`` are attempts to undo a task so far,
    ``doing`` what is being undone of a task, and ``ranks`` the places given away.
    """

    steps: list[UndoStep] = []
    of: dict[int, list[int]] = {}
    inside: dict[int, list[int]] = {}
    problems: dict[int, tuple[str, str, str]] = {}
    """Why the files of a task could not be saved, the class of that failure, and the rule that refused it."""
    ranks: int = 0
    through: int = 0
    """Rank up to which a rollback of the whole run has looked."""
    counts: dict[int, int] = {}
    main: Rollback = field(default_factory=Rollback)
    frames: dict[int, Rollback] = {}
    rollbacks: list[Rollback] = []
    under: dict[int, Rollback] = {}
    doing: dict[int, int] = {}

    @property
    def active(self) -> bool:
        """Whether something is being rolled back."""
        return self.main.active or bool(self.frames)

    def add(self, step: UndoStep) -> int:
        """Register something to undo; gives its position."""
        position = len(self.steps)
        self.steps.append(step)
        self.of.setdefault(step.number, []).append(position)
        self.rank(step)
        return position

    def rank(self, step: UndoStep) -> None:
        """It started last: it is the first to be undone."""
        self.ranks += 1
        step.rank = self.ranks

    def begin(self, owner: int) -> Rollback:
        """A new rollback of the run (-1) or of the plan that a task links."""
        rollback = Rollback(owner)
        rollback.active = True
        self.rollbacks.append(rollback)
        if owner < 0:
            self.main = rollback
        else:
            self.frames[owner] = rollback
        return rollback


class Circuit(Mutable):
    """What a breaker has seen: failures in a row, since when it is open (None: it lets through), and the task whose
    attempt was let through to try."""

    failures: int = 0
    since: float | None = None
    trial: int = -1
    waiting: dict[int, None] = {}


class Checkpointed(Mutable):
    """A moment is the task, its visit, its attempt and the round (0: all of it). ``asked`` are those whose
    checkpoint is requested and not answered; ``taken`` is the last answered one of each task. ``newest`` is the newest
    manifest by the patterns that it was made with; ``problems`` tells by task (or ``task#round``) whether the newest
    checkpoint holds any files, and what it lacks."""

    asked: set[tuple[int, int, int, int]] = field(default_factory=set)
    taken: dict[int, tuple[int, int, int, int]] = {}
    newest: dict[tuple[str, ...], str] = {}
    problems: dict[str, tuple[bool, str]] = {}


class Governed(Struct):
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


class Tried(Struct):
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


class TaskState(Mutable):
    """One task of a run. ``attempts`` counts attempts that were started, those before it was sent back (``past``)
    included; ``uncertain`` marks one of unknown end. ``frame`` is the level it stands on, ``inner`` the one it
    opened last, for a task that holds others; ``visit`` counts how often the task was reset. ``gate`` is the
    question it puts or put to people, ``cleared`` names the stages of this visit that were decided well."""

    missing: int
    frame: Frame
    inner: Frame | None = None
    visit: int = 1
    past: int = 0
    inputs: str = ""
    insisted: bool = False
    """It was open around a task that was sent back: it goes on though its level fails, whatever fails there."""
    overlooks: frozenset[tuple[str, int]] = field(default_factory=frozenset)
    """Tasks of its level, each with its visit, that had failed or ended the plan when it was reset: that does not
    keep it from beginning."""
    kept: Kept | None = None
    """What the task came to before it was reset; it stands if the next call is the same."""
    rework: dict[str, Json] | None = None
    revised: int = 0
    """The last revision of the plan with which it was reset, or is gone."""
    gate: GateState | None = None
    cleared: tuple[str, ...] = ()
    status: TaskStatus = "pending"
    dependency_outcome: DependencyOutcome = ""
    attempts: int = 0
    reissues: int = 0
    uncertain: bool = False
    judged: bool = True
    broken: int = -1
    facts: dict[str, Json] | None = None
    outcome: Outcome | None = None
    outputs: dict[str, Json] = {}
    recovered_by: str = ""
    reason: str = ""
    detail: str = ""
    failure: str = ""
    started: float | None = None
    began: float = 0.0
    """When the attempt that began last was started for the first time."""
    ended: float | None = None
    idle: float = 0.0
    """Seconds after the start in which no process acted on the run."""
    tried: tuple[Tried, ...] = ()
    """The attempts of this visit that another one followed, the last few of them."""

    def with_result(self, outcome: Outcome, outputs: dict[str, Json]) -> TaskState:
        """A copy with another result."""
        other = copy(self)
        other.outcome, other.outputs = outcome, outputs
        return other


class Queue(Mutable):
    """Ready tasks that wait for a slot, best last: higher priority first, then the order of the plan.

    Tasks are kept apart by the labels that have limits, so that a full label never makes the search pass over a long
    line of tasks that cannot start.
    """

    lines: dict[tuple[str, ...], list[tuple[int, int]]] = {}

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


Feature = Literal[
    "alarms",
    "breakers",
    "budgets",
    "hypotheses",
    "meters",
    "proposals",
    "reuse",
    "services",
    "sessions",
    "turns",
    "undo",
]
"""What a run may do without: its events are told to the policy of a feature once something of it is there."""


class State(Mutable):
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

    plan: Plan
    run_id: str
    plans: Mapping[str, Plan] = EMPTY
    now: float = 0.0
    """The time of the decision under way, else of the last event."""
    revision: int = 1
    gone: Frame | None = None
    plan_digest: str = ""
    approved_digest: str = ""
    attended: bool = False
    unattended: bool = False
    shape: Shape = field(default_factory=Shape)
    specs: list[Task] = []
    tasks: list[TaskState] = []
    top: Frame = field(default_factory=lambda: Frame("plan", -1, 0, 0))
    index: dict[str, int] = {}
    containers: dict[int, Task | None] = {}
    counts: dict[TaskStatus, int] = field(default_factory=lambda: {"pending": 0})
    failing: int = 0
    closing: int = 0
    endings: int = 0
    resets: list[ResetPlanned] = []
    sent_back: dict[int, int] = {}
    held: dict[int, None] = {}
    turns: dict[int, None] = {}
    """Items that are open again and wait for their turn, since their fan-out lets only so many go on at once."""
    again: dict[str, str] = {}
    """Why the gates of tasks ask again as soon as they do."""
    releases: dict[tuple[int, str], str] = {}
    """Digests of what gates release, as far as they are known (``approvals.py``)."""
    proposal: str = ""
    """The task that proposes the next revision of the plan; empty where none does."""
    sessions: dict[tuple[int, str], str] = {}
    """Conversations of agents, as ``agents.py`` has them."""
    evidence: dict[int, Pieces] | None = None
    """What the results of tasks say of hypotheses, by number; None while nothing was said."""
    restarts: dict[int, None] = {}
    compensation_log: CompensationLog | None = None
    """What the run owes, None while that is nothing."""
    circuits: dict[int, Circuit] = {}
    """What the breakers of the plan have seen, by their place in it."""
    freshness: dict[int, FreshnessSeen] = {}
    governed: Governed | None = None
    saves: bool = False
    foreign: bool = False
    restricted: bool = False
    checkpoints: Checkpointed | None = None
    ledger: Ledger | None = None
    """What is spent and set aside; None while nothing is limited and nothing was spent."""
    alarms: Alarms | None = None
    """What timeboxes, deadlines and watchdogs of tasks come to; None without any."""
    meters: dict[int, TimeMeter] = {}
    stirred: set[int] = field(default_factory=set)
    """Tasks of which something has changed since it was last looked at whether time waits for people."""
    status: RunStatus = "pending"
    reason: str = ""
    detail: str = ""
    params: dict[str, Json] = {}
    seed: int = 0
    selected: frozenset[str] | None = None
    traits: dict[str, Trait] = {}
    environment: dict[str, Json] = {}
    max_parallel: int = 0
    limits: dict[str, int] = {}
    epoch: int = 0
    slots: int = 0
    stop_reason: str = ""
    stop_by: str = ""
    stop_comment: str = ""
    candidates: dict[int, None] = {}
    asked: set[int] = field(default_factory=set)
    queue: Queue = field(default_factory=Queue)
    wheel: Wheel = field(default_factory=Wheel)
    recovering: dict[int, None] = {}
    running: dict[int, None] = {}
    labels_running: dict[str, int] = {}
    outputs: dict[str, Json] = {}
    started_at: float = 0.0
    begun_at: float = 0.0
    active: float = 0.0
    ended_at: float | None = None
    active_since: float | None = None
    uses: set[Feature] = field(default_factory=set)
    listeners: dict[type, tuple[Callable[[State, Any, float], None], ...]] = {}
    """By kinds of events, those of the features in use: kept by ``evolve``."""

    def __post_init__(self) -> None:
        plan = self.plan
        self.restricted = plan.policy is not None
        self.max_parallel, self.limits = plan.max_parallel, dict(plan.limits)
        if plan.budgets != _FREE:
            plain = plan.budgets.warn is None and plan.budgets.on_exhausted in ("", "stop")
            self.limit(plan.budgets._replace(time=None) if plain else plan.budgets)
        if plan.breakers:
            self.use("breakers")
        self.top = Frame("plan", -1, 0, len(plan.tasks))
        self.top.on_failure = plan.on_failure
        self.index = self.add(self.top, plan.tasks, plan.tasks)

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
            self.use_what_it_asks_for(task)
        frame.finals_open = len(frame.finals)
        frame.open = len(tasks) - frame.finals_open
        return index

    def limit(self, budgets: Budgets) -> None:
        """Keep a ledger as soon as anything is limited; time and depth of the plan alone need none."""
        if self.ledger is None and budgets._replace(depth=None, on_exhausted="") != _FREE:
            self.begin_ledger()

    def begin_ledger(self) -> Ledger:
        """From now on what is spent and set aside is counted."""
        self.use("budgets")
        ledger: Ledger = _new_ledger()
        self.ledger = ledger
        return ledger

    def use_what_it_asks_for(self, task: Task) -> None:
        """The features that a task has by its keys and by what it calls."""
        if task.timebox is not None or task.watchdog or task.due is not None or task.due_in is not None:
            self.use("alarms")
        if task.fresh is not None:
            self.use("reuse")
        if task.evidence:
            self.use("hypotheses")
        if task.uses in _FEATURES:
            self.use(_FEATURES[task.uses])

    def use(self, feature: Feature) -> None:
        """From now on the policy of a feature is told of events."""
        if feature not in self.uses:
            self.uses.add(feature)
            self.listeners.clear()

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
_FEATURES: dict[str, Feature] = {ASKING: "sessions", PLANNING: "proposals"}
_new_ledger = Later("planrunner.machine.ledger:Ledger")
_FREE: Budgets = Task("").budgets


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
