"""The plan as the machine sees it: frozen, names resolved, every string that is a template still as written.

Data types here and on the way to a running task are ``NamedTuple``: frozen and typed, and defining one costs a tenth of
a slotted dataclass at import, which is most of what a short run pays (``docs/explanation/design.md``).
Durations are seconds, sizes bytes, money US dollars. Spans are left out of the digest (``plan/digest.py``).
"""

from __future__ import annotations

from planrunner.record import TYPE_CHECKING, NamedTuple
from planrunner.source import Span

if TYPE_CHECKING:
    from typing import Any, Literal

    Json = Any
    """Data as JSON has it: None, bool, int, float, str, list and dict with string keys."""
    EffectClass = Literal["pure", "read", "idempotent", "checkable", "unsafe"]
    Role = Literal["START", "LINEAR", "DECISION", "BRANCH", "SPLIT", "MERGE", "EXIT"]
    OnFailure = Literal["stop", "continue", "rollback"]
    OnDoubt = Literal["", "probe", "retry", "ask", "rollback", "fail"]
    EdgeWhen = Literal["success", "failure", "always", "condition"]
    JoinKind = Literal[
        "all",
        "any",
        "at_least",
        "always",
        "all_done",
        "all_failed",
        "one_failed",
        "none_failed",
        "expression",
    ]

NOWHERE = Span(0, 0)


class Expression(NamedTuple):
    """A parsed expression. ``tree`` is nested tuples as ``plan/expressions/evaluate.py`` reads them; ``paths`` are the
    names it reads, such as ``("tasks", "test", "outputs", "count")``."""

    text: str
    tree: Json
    paths: tuple[tuple[str, ...], ...] = ()
    span: Span = NOWHERE


class Criterion(NamedTuple):
    """A condition on a task: an expression, or (``expression`` is None) plain words that a judge or a person
    decides."""

    text: str
    expression: Expression | None
    span: Span = NOWHERE


class Param(NamedTuple):
    """A parameter of the plan; ``type`` is string, int, number, bool, duration, size, money, list, map or any."""

    name: str
    type: str = "any"
    default: Json = None
    required: bool = False
    description: str = ""
    choices: tuple[Json, ...] = ()
    span: Span = NOWHERE


class Output(NamedTuple):
    """A declared output; ``type`` as in Param, ``value`` a template that gives it, ``path`` a file that holds it."""

    name: str
    type: str = "any"
    value: Json = None
    path: str = ""
    description: str = ""
    span: Span = NOWHERE


class Artifact(NamedTuple):
    """A file to keep by content when the task completes; ``source`` names another task's artifact (plan level
    ``from``)."""

    name: str
    path: str = ""
    type: str = ""
    retention: str = ""
    source: str = ""
    span: Span = NOWHERE


class Join(NamedTuple):
    """When needs are met. ``count`` belongs to ``at_least``, ``expression`` to ``expression``."""

    kind: JoinKind = "all"
    count: int = 0  # type: ignore[assignment]  # a tuple has a method of that name, which nobody needs here
    expression: Expression | None = None
    span: Span = NOWHERE


class Edge(NamedTuple):
    """A route from the task that holds it to ``target`` (a task id). ``failure_class`` limits a failure edge to one
    class or failure mode; ``recovers`` lets a completed target stand in for the failed task."""

    target: str
    on: EdgeWhen
    condition: Expression | None = None
    failure_class: str = ""
    recovers: bool = False
    span: Span = NOWHERE


class Retry(NamedTuple):
    """``attempts`` counts the first one. Delay before attempt n+1 by ``backoff``, at most ``max_delay``; ``jitter``
    is a fraction of the delay. ``on`` lists failure classes; empty means every class but policy."""

    attempts: int = 1
    backoff: Literal["fixed", "linear", "exponential"] = "exponential"
    delay: float = 1.0
    max_delay: float = 300.0
    jitter: float = 0.1
    on: tuple[str, ...] = ()


class FailureMode(NamedTuple):
    """A failure the author foresaw: ``detect`` reads the outcome and gives the failure the class ``name``.
    ``recover`` is a task id (then an edge exists too) or words."""

    name: str
    detect: Criterion | None = None
    recover: str = ""
    span: Span = NOWHERE


class Budgets(NamedTuple):
    """Limits; None means no limit. ``time`` seconds, ``cost`` dollars, the others counts."""

    time: float | None = None
    cost: float | None = None
    tokens: int | None = None
    calls: int | None = None
    attempts: int | None = None
    iterations: int | None = None
    depth: int | None = None


class Action(NamedTuple):
    """A capability with its inputs, as a rollback or a step of an inline list names it."""

    uses: str
    inputs: Json
    run: str | tuple[str, ...] | None = None


class Script(NamedTuple):
    """A ``run`` text made ready for the shell (``plan/shelltext.py``): ``text`` reads each of ``values`` (name of an
    environment variable, template that gives it); empty means the ``run`` text as it is.

    ``simple`` are the words of the one command that the script is, if it needs no shell at all: they may hold
    templates, to be rendered word by word, and the program can be started directly. None for anything else.
    """

    text: str
    values: tuple[tuple[str, str], ...] = ()
    simple: tuple[str, ...] | None = None


class Loop(NamedTuple):
    max: int
    until: Expression | None
    tasks: tuple[Task, ...]
    carry: Json = None


class Fanout(NamedTuple):
    """``foreach`` (an expression) or ``matrix`` (axes with include and exclude)."""

    foreach: Expression | None = None
    items: Json = None
    matrix: Json = None
    name: str = "item"
    max_parallel: int | None = None
    max_items: int | None = None
    tolerate: Json = None


class Gate(NamedTuple):
    """A decision by people or checks; ``kind`` is approval, checks, schema, invariants, tests, diff or decision."""

    kind: str = "approval"
    ask: str = ""
    checks: tuple[Criterion, ...] = ()
    approvers: Json = None
    expires: float | None = None
    on_expiry: str = ""
    on_reject: Json = None
    options: Json = None
    evidence: Json = None


class Task(NamedTuple):
    """One node of the graph.

    What it does is one of: a capability (``uses``, ``inputs`` and for those that take a script ``run``: text with
    templates or a tuple of arguments), an instruction in plain words (``command``), a gate, a subplan (``steps`` or
    ``subplan_file``), a loop. ``needs`` holds task ids; ``span`` is the task's id in the text and ``spans`` the
    places of its other keys.
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
    """What people read: created_at, state, stakeholders, deadline, definition of done, memory keys, labels …"""
    span: Span = NOWHERE


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
