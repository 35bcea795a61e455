"""What few plans have: gates, fan-outs, watchdogs, undoing; and what is known of capabilities. ``plan/model.py`` offers
them all.

Durations are seconds, sizes bytes, money US dollars. Spans are left out of the digest (``plan/digest.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from planrunner.plan.elements import Budgets, Retry
from planrunner.source import NOWHERE, Span

if TYPE_CHECKING:
    from typing import Any, Literal

    from planrunner.plan.clauses import Criterion, Expression, Param
    from planrunner.plan.elements import EffectClass, Script

    Json = Any
    RejectAction = Literal["fail", "rework", "task"]
    RollbackMode = Literal["best_effort", "strict"]
    WatchAction = Literal["warn", "ask", "cancel", "fail"]


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
    and all of ``outputs`` exist (patterns of files), or ``condition`` holds, which reads facts. Inputs with ``!`` in
    front are left out, and with ``gitignore`` the files that git ignores."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    condition: Expression | None = None
    gitignore: bool = False


class Axis(NamedTuple):
    """An axis of a matrix: its values, or the expression that gives them."""

    name: str
    items: Json = None
    expression: Expression | None = None


MAX_ITEMS = 100_000
"""Items of a fan-out that declares no ``max_items``."""


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


class Field(NamedTuple):
    """One input or output of a capability; ``schema`` is JSON Schema, ``type`` as in Param. ``use`` is what an input
    becomes that foreign text may not become, such as command or url."""

    name: str
    type: str = "any"
    required: bool = False
    default: Json = None
    description: str = ""
    schema: Json = None
    use: str = ""


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
    preview: bool = False
    undo: bool = False
    """It can take back exactly what it did, without the plan saying how."""
    irreversible: bool = False
    foreign: tuple[str, ...] = ()
    """Outputs that somebody outside wrote."""
    own: tuple[str, ...] = ()
    """Outputs that it makes itself, whatever it is given."""
    shaped: Json = {}
    """Outputs that fit the schema which an input holds, by name."""
    preconditions: tuple[str, ...] = ()
    """What must be there before it acts: programs, packages, keys."""
    writes: tuple[str, ...] = ()
    """Inputs that name files which it writes."""
