"""The small parts that plans are made of: expressions, declarations, edges, limits. ``plan/model.py`` offers them all.

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
    OnExhausted = Literal["", "stop", "gate", "skip_optional", "degrade"]
    RejectAction = Literal["fail", "rework", "task"]
    RollbackMode = Literal["best_effort", "strict"]
    WatchAction = Literal["warn", "ask", "cancel", "fail"]
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
    class or failure mode; ``recovers`` lets a completed target stand in for the failed task. ``rework`` sends the run
    back: the target, which runs earlier, and everything after it are done anew, at most ``max`` times."""

    target: str
    on: EdgeWhen
    condition: Expression | None = None
    failure_class: str = ""
    recovers: bool = False
    span: Span = NOWHERE
    rework: bool = False
    max: int = 0


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


class Script(NamedTuple):
    """A ``run`` text made ready for the shell (``plan/shelltext.py``): ``text`` reads each of ``values`` (name of an
    environment variable, template that gives it); empty means the ``run`` text as it is.

    ``simple`` are the words of the one command that the script is, if it needs no shell at all: they may hold
    templates, to be rendered word by word, and the program can be started directly. None for anything else.
    """

    text: str
    values: tuple[tuple[str, str], ...] = ()
    simple: tuple[str, ...] | None = None
