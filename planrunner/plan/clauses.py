"""What a task or a plan says in a few words: expressions, declarations, edges. ``plan/model.py`` offers them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from planrunner.source import NOWHERE, Span

if TYPE_CHECKING:
    from typing import Any, Literal

    Json = Any
    """Data as JSON has it: None, bool, int, float, str, list and dict with string keys."""
    EdgeWhen = Literal["success", "failure", "always", "condition"]


class Expression(NamedTuple):
    """A parsed expression. ``tree`` is nested tuples as ``plan/expressions/evaluate.py`` reads them; ``paths`` are the
    names it reads, such as ``("tasks", "test", "outputs", "count")``."""

    text: str
    tree: Json
    paths: tuple[tuple[str, ...], ...] = ()
    span: Span = NOWHERE


class Computed(NamedTuple):
    """A setting of a task that is evaluated when the task starts: ``name`` is timeout, delay, retry.attempts,
    max_parallel or tolerate. ``visit`` is the visit of the task for which it was evaluated, 0 in a plan."""

    name: str
    expression: Expression
    visit: int = 0


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


class Edge(NamedTuple):
    """A route from the task that holds it to ``target`` (a task id). ``failure_class`` limits a failure edge to one
    class or failure mode; ``recovers`` lets a completed target stand in for the failed task. ``rework`` sends the run
    back: the target, which runs earlier, and everything after it are done anew, at most ``max`` times. ``otherwise``
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


class FailureMode(NamedTuple):
    """A failure the author foresaw: ``detect`` reads the outcome and gives the failure the class ``name``.
    ``recover`` is a task id (then an edge exists too) or words."""

    name: str
    detect: Criterion | None = None
    recover: str = ""
    span: Span = NOWHERE
