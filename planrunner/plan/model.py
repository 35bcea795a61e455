"""The plan as the machine sees it: frozen, names resolved, every string that is a template still as written.

Durations are seconds, sizes bytes, money US dollars. Spans are left out of the digest (``plan/identity.py``).
"""

from __future__ import annotations

from typing import Any, Literal

from planrunner.frozen import EMPTY
from planrunner.records import Struct
from planrunner.source import NOWHERE, Span

Json = Any


"""Data as JSON has it: None, bool, int, float, str, list and dict with string keys."""
EffectClass = Literal["pure", "read", "idempotent", "checkable", "unsafe"]
Role = Literal["START", "LINEAR", "DECISION", "BRANCH", "SPLIT", "MERGE", "EXIT"]
OnFailure = Literal["stop", "continue", "rollback", "cancel"]
OnDoubt = Literal["", "probe", "retry", "ask", "rollback", "fail"]
OnExhausted = Literal["", "stop", "gate"]
JoinKind = Literal[
    "all",
    "any",
    "at_least",
    "always",
    "all_done",
    "all_done_any",
    "all_failed",
    "one_failed",
    "none_failed",
    "expression",
]
EdgeWhen = Literal["success", "failure", "always", "condition"]
RejectAction = Literal["fail", "rework", "task"]
RollbackMode = Literal["best_effort", "strict"]
WatchAction = Literal["warn", "ask", "cancel", "fail"]


class Tree(tuple[Any, ...]):
    """A parsed expression as nested tuples."""

    __slots__ = ()


class Expression(Struct):
    """A parsed expression. ``tree`` is nested tuples as ``plan/expressions/evaluate.py`` reads them; ``paths`` are the
    names it reads, such as ``("tasks", "test", "outputs", "count")``."""

    text: str
    tree: Tree
    paths: tuple[tuple[str, ...], ...] = ()
    span: Span = NOWHERE


class Join(Struct):
    """When needs are met. ``count`` belongs to ``at_least``, ``expression`` to ``expression``. Where single members of
    a family are needed, ``named`` are the needs as the plan names them."""

    kind: JoinKind = "all"
    count: int = 0
    expression: Expression | None = None
    span: Span = NOWHERE
    named: tuple[str, ...] = ()


class Retry(Struct):
    """``attempts`` counts the first one. Delay before attempt n+1 by ``backoff``, at most ``max_delay``; ``jitter``
    is a fraction of the delay. ``on`` lists failure classes; empty means every class but policy."""

    attempts: int = 1
    backoff: Literal["fixed", "linear", "exponential"] = "exponential"
    delay: float = 1.0
    max_delay: float = 300.0
    jitter: float = 0.1
    on: tuple[str, ...] = ()


class Budgets(Struct):
    """Limits; None means no limit. ``time`` seconds, ``cost`` dollars, the others counts.

    ``warn`` is the share of a limit from which on the run warns, ``on_exhausted`` what happens when one is reached
    (empty: stop).
    """

    time: float | None = None
    cost: float | None = None
    tokens: int | None = None
    calls: int | None = None
    attempts: int | None = None
    iterations: int | None = None
    depth: int | None = None
    warn: float | None = None
    on_exhausted: OnExhausted = ""


class Script(Struct):
    """A ``run`` text made ready for the shell (``plan/shell/quoting.py``): ``text`` reads each of ``values`` (name of
    an environment variable, template that gives it); empty means the ``run`` text as it is.

    ``simple`` are the words of the one command that the script is, if it needs no shell at all: they may hold
    templates, to be rendered word by word, and the program can be started directly. None for anything else.
    """

    text: str
    values: tuple[tuple[str, str], ...] = ()
    simple: tuple[str, ...] | None = None


class Computed(Struct):
    """A setting of a task that is evaluated when the task starts: ``name`` is timeout, delay, retry.attempts,
    max_parallel or tolerate. ``visit`` is the visit of the task for which it was evaluated, 0 in a plan."""

    name: str
    expression: Expression
    visit: int = 0


class Criterion(Struct):
    """A condition on a task: an expression, or (``expression`` is None) plain words that a judge or a person
    decides."""

    text: str
    expression: Expression | None
    span: Span = NOWHERE


class Param(Struct):
    """A parameter of the plan; ``type`` is string, int, number, bool, duration, size, money, list, map or any."""

    name: str
    type: str = "any"
    default: Json = None
    required: bool = False
    description: str = ""
    choices: tuple[Json, ...] = ()
    span: Span = NOWHERE


class Output(Struct):
    """A declared output; ``type`` as in Param, ``value`` a template that gives it, ``path`` a file that holds it."""

    name: str
    type: str = "any"
    value: Json = None
    path: str = ""
    description: str = ""
    span: Span = NOWHERE


class Artifact(Struct):
    """A file to keep by content when the task completes; ``source`` names another task's artifact (plan level
    ``from``)."""

    name: str
    path: str = ""
    type: str = ""
    retention: str = ""
    source: str = ""
    span: Span = NOWHERE


class Edge(Struct):
    """A route from the task that holds it to ``target`` (a task id). ``failure_class`` limits a failure edge to one
    class or failure mode; ``recovers`` lets a completed target replace the failed task. ``rework`` sends the run
    back: the target, which runs earlier, and everything after it are repeated, at most ``max`` times. ``otherwise``
    (``else``) fires where no other edge of the task does."""

    target: str
    on: EdgeWhen
    condition: Expression | None = None
    failure_class: str = ""
    recovers: bool = False
    span: Span = NOWHERE
    rework: bool = False
    max: int = 0
    otherwise: bool = False


class FailureMode(Struct):
    """A failure the author foresaw: ``detect`` reads the outcome and gives the failure the class ``name``.
    ``recover`` is a task id (then an edge exists too) or words."""

    name: str
    detect: Criterion | None = None
    recover: str = ""
    span: Span = NOWHERE


class Action(Struct):
    """A capability with its inputs beside that of the task: what undoes it (``rollback``). ``script`` follows from
    ``run``; ``timeout`` is for each attempt."""

    uses: str
    inputs: Json
    run: str | tuple[str, ...] | None = None
    script: Script | None = None
    retry: Retry = Retry()
    timeout: float | None = None


class Watch(Struct):
    """A step of a watchdog: what is done with an attempt that still runs ``after`` so many seconds."""

    after: float
    do: WatchAction


class Fresh(Struct):
    """When a task is done already: the files of ``inputs`` and its rendered call are those of the time when it was done
    and all of ``outputs`` exist (patterns of files), or ``condition`` holds, which reads facts. Inputs with ``!`` in
    front are left out, and with ``gitignore`` the files that git ignores."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    condition: Expression | None = None
    gitignore: bool = False


class Axis(Struct):
    """An axis of a matrix: its values, or the expression that gives them."""

    name: str
    items: Json = None
    expression: Expression | None = None


MAX_ITEMS = 100_000
"""Items of a fan-out that declares no ``max_items``."""


class Fanout(Struct):
    """``foreach`` (an expression) or ``items`` (a list), or ``matrix`` as written, whose ``axes`` stand for all
    its keys but ``include`` and ``exclude``."""

    foreach: Expression | None = None
    items: Json = None
    matrix: Json = None
    name: str = "item"
    max_parallel: int | None = None
    max_items: int | None = None
    tolerate: Json = None
    axes: tuple[Axis, ...] = ()
    tools: tuple[Task, ...] = ()
    """Of the calls that a model asks for: the task that each item becomes is the one whose id is its ``tool``."""


class Hook(Struct):
    """What happens to calls of ``tools`` (names or patterns) for which ``when`` holds: they are refused (``deny``), a
    person is asked first (``ask``), or the model is told something with their result (``say``). ``text`` is what the
    model or the person is told."""

    tools: tuple[str, ...]
    when: Expression | None
    does: Literal["deny", "ask", "say"]
    text: str


class Agent(Struct):
    """What the author of a task says of the agent that carries it out: its name, what it is to do (a template), the
    conversation that it continues and that later tasks may (empty: one of its own), and when its answer counts. One
    that is ``fresh`` begins that conversation again, also where its answer did not count. ``tries`` is how many answers
    may be refused (0: as many as there are rounds)."""

    name: str
    prompt: str = ""
    session: str = ""
    until: Expression | None = None
    fresh: bool = False
    tries: int = 0
    calls: tuple[Hook, ...] = ()


class Approvers(Struct):
    """Who decides: members of ``roles`` and ``people`` (anybody where both are empty), ``need`` of them, and with
    ``not_starter`` excludes the person who started the run."""

    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    need: int = 1
    not_starter: bool = False


class Option(Struct):
    """A choice at a decision, chosen by its ``name``; ``target`` is the task that runs if it is, or with ``rework`` the
    earlier one to which the run goes back, at most ``max`` times. ``each`` gives a list: the entry stands for one
    option for each of its items."""

    name: str
    title: str = ""
    description: str = ""
    pros: tuple[str, ...] = ()
    cons: tuple[str, ...] = ()
    cost: str = ""
    target: str = ""
    span: Span = NOWHERE
    rework: bool = False
    max: int = 0
    each: Expression | None = None


class Reject(Struct):
    """What a rejection leads to: the task fails, ``target`` runs (as after any failure), or the run goes back to
    ``target`` at most ``max`` times."""

    action: RejectAction = "fail"
    target: str = ""
    max: int = 0
    span: Span = NOWHERE


class Gate(Struct):
    """A decision by people or checks; ``kind`` is approval, checks, schema, invariants, tests, diff or decision.

    ``roles``, ``people``, ``need`` and ``not_starter`` are as in ``Approvers``; ``escalate`` names those who decide
    when the gate has expired and ``on_expiry`` is escalate. ``form`` are the fields that an answer fills, which become
    outputs. ``evidence`` is what is shown, and what the checks of the kind read. ``choose`` gives the name of the
    option that is taken without asking; people decide where it gives none. Gates of one ``window`` are reviewed
    together.
    """

    kind: str = "approval"
    ask: str = ""
    checks: tuple[Criterion, ...] = ()
    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    need: int = 1
    not_starter: bool = False
    expires: float | None = None
    on_expiry: str = ""
    escalate: Approvers | None = None
    on_reject: Reject = Reject()
    options: tuple[Option, ...] = ()
    form: tuple[Param, ...] = ()
    evidence: Json = None
    choose: Expression | None = None
    window: str = ""


class Hypothesis(Struct):
    """A statement that results of tasks support or refute. ``prior`` is its confidence before any evidence, a fraction;
    ``notes`` are for people: title, rationale, tests, cost …"""

    name: str
    statement: str = ""
    prior: float = 0.5
    notes: Json = None
    span: Span = NOWHERE


BEST, RANKED = "best", "ranked"
"""What ``hypotheses`` has beside the hypotheses: the name of the most probable one, and the records of all."""

HEAVIEST = 100.0
"""The largest weight of one piece of evidence, and of all that one task gives with its rounds and items."""


class Evidence(Struct):
    """What the result of a task says about a hypothesis: where ``supports`` holds the odds are multiplied by
    ``weight``, where ``refutes`` holds they are divided by it; a result that does neither is neutral."""

    hypothesis: str
    supports: Expression | None = None
    refutes: Expression | None = None
    weight: float = 5.0
    span: Span = NOWHERE


class RollbackPolicy(Struct):
    """How a run is undone. ``only`` are ids or labels of the tasks to undo (empty: all); ``budgets`` is a reserve of
    its own. ``best_effort`` goes on after an action that failed, ``strict`` stops there."""

    mode: RollbackMode = "best_effort"
    only: tuple[str, ...] = ()
    budgets: Budgets = Budgets()


class Breaker(Struct):
    """A circuit breaker: after ``failures`` in a row of capabilities whose names fit ``uses`` (``http.*``), no more
    starts for ``cooldown`` seconds."""

    uses: str
    failures: int = 5
    cooldown: float = 60.0
    span: Span = NOWHERE


class Field(Struct):
    """One input or output of a capability; ``schema`` is JSON Schema, ``type`` as in Param. ``use`` is what an input
    becomes that foreign text may not become, such as command or url."""

    name: str
    type: str = "any"
    required: bool = False
    default: Json = None
    description: str = ""
    schema: Json = None
    use: str = ""


ANY = "any"
"""Among what a capability spends: it may tell more than it declares, as a plugin can."""


class Capability(Struct):
    """What the loader and the machine know of a capability without importing it.

    ``instant`` ones take no time and no concurrency slot; ``takes_run`` ones get the task's ``run`` text as a script;
    ``open_inputs`` accept inputs they do not name, ``open_outputs`` give outputs the task declares.
    """

    name: str
    summary: str = ""
    description: str = ""
    effect: EffectClass = "unsafe"
    inputs: tuple[Field, ...] = ()
    outputs: tuple[Field, ...] = ()
    instant: bool = False
    takes_run: bool = False
    open_inputs: bool = False
    open_outputs: bool = False
    probe: bool = False
    risks: tuple[str, ...] = ()
    plugin: str = "planrunner"
    spends: tuple[str, ...] = ()
    """What an attempt uses that costs: cost, tokens, calls."""
    preview: bool = False
    undo: bool = False
    """It can take back exactly what it did, without the plan saying how."""
    irreversible: bool = False
    foreign: tuple[str, ...] = ()
    """Outputs that come from outside."""
    own: tuple[str, ...] = ()
    """Outputs that it makes itself, whatever it is given."""
    shaped: Json = EMPTY
    """Outputs that fit the schema which an input holds, by name."""
    preconditions: tuple[str, ...] = ()
    """What must be there before it acts: programs, packages, keys."""
    writes: tuple[str, ...] = ()
    """Inputs that name files which it writes."""


class Loop(Struct):
    """At most ``max`` rounds of ``tasks``, until ``until`` holds. ``carry`` are templates of the values handed from
    round to round. ``breaker`` rounds in a row that change nothing carried, or fail alike, end the loop (0: never); a
    checkpoint is made every ``checkpoint`` rounds (0: none)."""

    max: int
    until: Expression | None
    tasks: tuple[Task, ...]
    carry: Json = None
    breaker: int = 0
    checkpoint: int = 0
    at_bound: Literal["fail", "continue"] = "fail"
    """The result of a loop whose ``until`` is still false after its last round."""


class Task(Struct):
    """One node of the graph.

    What it does is one of: a capability (``uses``, ``inputs`` and for those that take a script ``run``: text with
    templates or a tuple of arguments), an instruction in plain words (``command``), a gate, a subplan (``steps``, or
    ``subplan_file`` and the linked ``sub``), a loop. ``needs`` holds task ids; ``span`` is the task's id in the text
    and ``spans`` the places of its other keys.
    """

    id: str
    title: str = ""
    description: str = ""
    kind: str = ""
    role: str = ""
    priority: int = 0
    owner: str = ""
    labels: tuple[str, ...] = ()
    uses: str = ""
    inputs: Json = None
    run: str | tuple[str, ...] | None = None
    script: Script | None = None
    """Follows from ``run``; None where that is not text."""
    command: str = ""
    gate: Gate | None = None
    steps: tuple[Json, ...] = ()
    subplan: tuple[Task, ...] = ()
    subplan_file: str = ""
    loop: Loop | None = None
    fanout: Fanout | None = None
    needs: tuple[str, ...] = ()
    join: Join = Join()
    edges: tuple[Edge, ...] = ()
    when: Expression | None = None
    preconditions: tuple[Criterion, ...] = ()
    postconditions: tuple[Criterion, ...] = ()
    expect: tuple[Criterion, ...] = ()
    failure_modes: tuple[FailureMode, ...] = ()
    retry: Retry = Retry()
    timeout: float | None = None
    allow_failure: bool = False
    effect: EffectClass | None = None
    on_doubt: OnDoubt = ""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    shell: str = ""
    stdout: Literal["", "text", "json", "lines"] = ""
    outputs: tuple[Output, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    budgets: Budgets = Budgets()
    rollback: Action | None = None
    notes: Json = None
    """What people read and the machine does not: assumptions, risks, capabilities, effects, evidence, validation,
    status …"""
    finally_: bool = False
    """Stands under the plan's ``finally``: runs when everything else is settled, whatever happened."""
    span: Span = NOWHERE
    spans: tuple[tuple[str, Span], ...] = ()
    timebox: float | None = None
    """The most time for the task with all its attempts and the waits between them."""
    heartbeat: float | None = None
    """An attempt that prints nothing for so long is stuck: it is stopped and fails with the class ``stalled``."""
    watchdog: tuple[Watch, ...] = ()
    fresh: Fresh | None = None
    backup: tuple[str, ...] = ()
    """Patterns of files that are saved before the task starts and put back when it is rolled back."""
    params: Json = None
    """Values for the parameters of a linked subplan, as templates."""
    sub: Plan | None = None
    """The linked subplan: another file, or one of the plan's ``subplans``."""
    checkpoint: tuple[str, ...] | None = None
    """Patterns of files that are kept when the task has completed (empty: all of the working directory); None: none
    are."""
    irreversible: bool = False
    """Said by the plan: nothing takes back what the task does, and nothing is noted for that."""
    policy: Json = None
    """The rights of the task, which narrow those of the plan; see ``plan/rights.py``."""
    secrets: Json = None
    """The credentials that the task is given: a list of ids, or a mapping from the variable that brings each."""
    due_in: float | None = None
    """Seconds from the start of the run after which the task must be done; follows from the notes."""
    due: float | None = None
    """When the task must be done, in seconds since 1970; follows from the notes."""
    stdin: str = ""
    """What the script or the program of the task reads from its standard input: text with templates."""
    ready: str = ""
    """It is a service: what tells that it is ready, from when on it runs beside the others to the end of the run."""
    delay: float | None = None
    """Seconds between the moment at which the task could start and its first attempt."""
    renewed: bool = False
    """Said by ``fresh: never``: whenever the run repeats it, it runs, whatever it would be called with."""
    ends_plan: bool = False
    """Once it has completed the plan has: nothing else of it begins, and what runs is stopped."""
    computed: tuple[Computed, ...] = ()
    """Settings that are evaluated when the task starts; until then their fields are as if they were not written."""
    concluding: bool = False
    """Stands for the plan's ``done``: starts when every other task of the main part is settled and none failed."""
    agent: Agent | None = None
    """The agent that carries the task out: its ``loop`` asks a model and makes the calls that it wants, round by
    round (``lower/agents.py``)."""
    evidence: tuple[Evidence, ...] = ()
    """What its result says about the hypotheses of the plan."""


class Plan(Struct):
    """A whole plan. ``tasks`` are in the order of the text, those under ``finally`` last; ``limits`` are per label."""

    id: str
    title: str = ""
    description: str = ""
    owner: str = ""
    version: str = ""
    params: tuple[Param, ...] = ()
    tasks: tuple[Task, ...] = ()
    budgets: Budgets = Budgets()
    on_failure: OnFailure = "stop"
    max_parallel: int = 5
    limits: tuple[tuple[str, int], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    outputs: tuple[Output, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    policy: Json = None
    hypotheses: tuple[Hypothesis, ...] = ()
    seed: int | None = None
    notes: Json = None
    """What people read: created_at, state, stakeholders, a date as deadline, memory keys, labels …; and ``done`` as it
    is written, which ``tasks`` has as its concluding task."""
    span: Span = NOWHERE
    deadline: float | None = None
    """Seconds from the start of the run after which it must be done."""
    rollback: RollbackPolicy | None = None
    breakers: tuple[Breaker, ...] = ()
    gated: tuple[tuple[str, Gate], ...] = ()
    """Labels whose tasks wait for a gate, from ``policy: {gates: …}``."""
    file: str = ""
    """The file of a linked plan, from the folder of the outermost one; its spans are places there."""
    due: float | None = None
    """When a run must be done, in seconds since 1970; follows from the notes."""
