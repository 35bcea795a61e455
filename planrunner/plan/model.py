"""The plan as the machine sees it: frozen, names resolved, every string that is a template still as written.

Data types here and on the way to a running task are ``NamedTuple``: frozen and typed, and defining one costs a tenth of
a slotted dataclass at import, which is most of what a short run pays (``docs/explanation/design.md``).
Durations are seconds, sizes bytes, money US dollars. Spans are left out of the digest (``plan/digest.py``).
"""

from __future__ import annotations

# ruff: noqa: I001 - what is passed on stands in one block
from planrunner.plan.elements import (
    Budgets as Budgets,
    Join as Join,
    Retry as Retry,
    Script as Script,
)
from typing import TYPE_CHECKING, NamedTuple
from planrunner.source import NOWHERE as NOWHERE
from planrunner.source import Span
from planrunner.plan import blocks
from planrunner.plan import clauses

if TYPE_CHECKING:
    from typing import Any, Literal

    from planrunner.plan.blocks import (
        Action as Action,
        Approvers as Approvers,
        Axis as Axis,
        Breaker as Breaker,
        Capability as Capability,
        Fanout as Fanout,
        Field as Field,
        Fresh as Fresh,
        Gate as Gate,
        Option as Option,
        Reject as Reject,
        RejectAction as RejectAction,
        RollbackMode as RollbackMode,
        RollbackPolicy as RollbackPolicy,
        Watch as Watch,
        WatchAction as WatchAction,
    )
    from planrunner.plan.clauses import (
        Artifact as Artifact,
        Computed as Computed,
        Criterion as Criterion,
        Edge as Edge,
        EdgeWhen as EdgeWhen,
        Expression as Expression,
        FailureMode as FailureMode,
        Json as Json,
        Output as Output,
        Param as Param,
    )
    from planrunner.plan.elements import (
        EffectClass as EffectClass,
        JoinKind as JoinKind,
        OnDoubt as OnDoubt,
        OnExhausted as OnExhausted,
        OnFailure as OnFailure,
        Role as Role,
    )


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
    at_bound: Literal["fail", "continue"] = "fail"
    """What a loop comes to whose ``until`` is still false after its last round."""


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
    ready: str = ""
    """It is a service: what tells that it is ready, from when on it runs beside the others to the end of the run."""
    """What the script or the program of the task reads from its standard input: text with templates."""
    delay: float | None = None
    """Seconds between the moment at which the task could start and its first attempt."""
    renewed: bool = False
    """Said by ``fresh: never``: whenever the run begins it anew it runs, whatever it would be called with."""
    ends_plan: bool = False
    """Once it has completed the plan has: nothing else of it begins, and what runs is stopped."""
    computed: tuple[Computed, ...] = ()
    """Settings that are evaluated when the task starts; until then their fields are as if they were not written."""
    concluding: bool = False
    """Stands for the plan's ``done``: starts when every other task of the main part is settled and none failed."""


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


_CLAUSES = frozenset("Expression Computed Criterion Param Output Artifact Edge FailureMode".split())
_BLOCKS = frozenset(
    "Action Watch Fresh Axis Fanout Approvers Option Reject Gate RollbackPolicy Breaker Field Capability".split()
)
"""Records that small plans do without, by the module that holds them; it is loaded when one of them is asked for."""


def __getattr__(name: str) -> Any:
    if name in _CLAUSES:
        found = getattr(clauses, name)
    elif name in _BLOCKS:
        found = getattr(blocks, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found
