"""The plan as the machine sees it: frozen, names resolved, every string that is a template still as written.

Data types here and on the way to a running task are ``NamedTuple``: frozen and typed, and defining one costs a tenth of
a slotted dataclass at import, which is most of what a short run pays (``docs/explanation/design.md``).
Durations are seconds, sizes bytes, money US dollars. Spans are left out of the digest (``plan/digest.py``).
"""

from __future__ import annotations

# ruff: noqa: I001 - what is passed on stands in one block
from planrunner.plan.elements import (
    NOWHERE as NOWHERE,
    Artifact as Artifact,
    Budgets as Budgets,
    Criterion as Criterion,
    Edge as Edge,
    Expression as Expression,
    FailureMode as FailureMode,
    Join as Join,
    Output as Output,
    Param as Param,
    Retry as Retry,
    Script as Script,
)
from planrunner.record import TYPE_CHECKING, NamedTuple
from planrunner.source import Span

if TYPE_CHECKING:
    from typing import Literal

    from planrunner.plan.elements import (
        EdgeWhen as EdgeWhen,
        EffectClass as EffectClass,
        JoinKind as JoinKind,
        Json as Json,
        OnDoubt as OnDoubt,
        OnExhausted as OnExhausted,
        OnFailure as OnFailure,
        RejectAction as RejectAction,
        Role as Role,
        RollbackMode as RollbackMode,
        WatchAction as WatchAction,
    )


class Action(NamedTuple):
    """A capability with its inputs beside that of the task: what undoes it (``rollback``), or what is done instead when
    a budget runs short (``degraded``). ``script`` follows from ``run``; ``timeout`` is for each attempt."""

    uses: str
    inputs: Json
    run: str | tuple[str, ...] | None = None
    script: Script | None = None
    retry: Retry = Retry()
    timeout: float | None = None


class Watch(NamedTuple):
    """A step of a watchdog: what is done with an attempt that still runs ``after`` so many seconds."""

    after: float
    do: WatchAction


class Fresh(NamedTuple):
    """When a task is done already: the files of ``inputs`` and its rendered call are those of the time when it was done
    and all of ``outputs`` exist (patterns of files), or ``condition`` holds, which reads facts."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    condition: Expression | None = None


class Loop(NamedTuple):
    """At most ``max`` rounds of ``tasks``, until ``until`` holds. ``carry`` are templates of the values handed from
    round to round. ``breaker`` rounds in a row that change nothing carried, or fail alike, end the loop (0: never); a
    checkpoint is made every ``checkpoint`` rounds (0: none)."""

    max: int
    until: Expression | None
    tasks: tuple[Task, ...]
    carry: Json = None
    breaker: int = 0
    checkpoint: int = 0


class Axis(NamedTuple):
    """An axis of a matrix: its values, or the expression that gives them."""

    name: str
    items: Json = None
    expression: Expression | None = None


class Fanout(NamedTuple):
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


class Approvers(NamedTuple):
    """Who decides: members of ``roles`` and ``people`` (anybody where both are empty), ``need`` of them, and with
    ``not_starter`` nobody who started the run."""

    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    need: int = 1
    not_starter: bool = False


class Option(NamedTuple):
    """A choice at a decision, chosen by its ``name``; ``target`` is the task that runs if it is."""

    name: str
    title: str = ""
    description: str = ""
    pros: tuple[str, ...] = ()
    cons: tuple[str, ...] = ()
    cost: str = ""
    target: str = ""
    span: Span = NOWHERE


class Reject(NamedTuple):
    """What a rejection leads to: the task fails, ``target`` runs (as after any failure), or the run goes back to
    ``target`` at most ``max`` times."""

    action: RejectAction = "fail"
    target: str = ""
    max: int = 0
    span: Span = NOWHERE


class Gate(NamedTuple):
    """A decision by people or checks; ``kind`` is approval, checks, schema, invariants, tests, diff or decision.

    ``roles``, ``people``, ``need`` and ``not_starter`` are as in ``Approvers``; ``escalate`` names those who decide
    when the gate has expired and ``on_expiry`` is escalate. ``form`` are the fields that an answer fills, which become
    outputs. ``evidence`` is what is shown, and what the checks of the kind read.
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


class Task(NamedTuple):
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
    """Follows from ``run``; None where that is no text."""
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
    optional: bool = False
    """May be left out when a budget runs short."""
    degraded: Action | None = None
    """What is done instead when a budget runs short."""
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


class RollbackPolicy(NamedTuple):
    """How a run is undone. ``only`` are ids or labels of the tasks to undo (empty: all); ``budgets`` is a reserve of
    its own. ``best_effort`` goes on after an action that failed, ``strict`` stops there."""

    mode: RollbackMode = "best_effort"
    only: tuple[str, ...] = ()
    budgets: Budgets = Budgets()


class Breaker(NamedTuple):
    """A circuit breaker: after ``failures`` in a row of capabilities whose names fit ``uses`` (``http.*``), no more
    starts for ``cooldown`` seconds."""

    uses: str
    failures: int = 5
    cooldown: float = 60.0
    span: Span = NOWHERE


class Plan(NamedTuple):
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
    hypotheses: Json = None
    seed: int | None = None
    notes: Json = None
    """What people read: created_at, state, stakeholders, a date as deadline, definition of done, memory keys,
    labels …"""
    span: Span = NOWHERE
    deadline: float | None = None
    """Seconds from the start of the run after which it must be done."""
    rollback: RollbackPolicy | None = None
    breakers: tuple[Breaker, ...] = ()
    gated: tuple[tuple[str, Gate], ...] = ()
    """Labels whose tasks wait for a gate, from ``policy: {gates: …}``."""
    file: str = ""
    """The file of a linked plan, from the folder of the outermost one; its spans are places there."""


class Field(NamedTuple):
    """One input or output of a capability; ``schema`` is JSON Schema, ``type`` as in Param."""

    name: str
    type: str = "any"
    required: bool = False
    default: Json = None
    description: str = ""
    schema: Json = None


class Capability(NamedTuple):
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
