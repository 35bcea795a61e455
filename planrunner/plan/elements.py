"""The parts that every task and every plan has: its join, how it is tried again, its limits, its script.
``plan/model.py`` offers them all.

Durations are seconds, sizes bytes, money US dollars. Spans are left out of the digest (``plan/digest.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from planrunner.source import NOWHERE, Span

if TYPE_CHECKING:
    from typing import Literal

    from planrunner.plan.clauses import Expression

    EffectClass = Literal["pure", "read", "idempotent", "checkable", "unsafe"]
    Role = Literal["START", "LINEAR", "DECISION", "BRANCH", "SPLIT", "MERGE", "EXIT"]
    OnFailure = Literal["stop", "continue", "rollback", "cancel"]
    OnDoubt = Literal["", "probe", "retry", "ask", "rollback", "fail"]
    OnExhausted = Literal["", "stop", "gate", "skip_optional", "degrade"]
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


class Join(NamedTuple):
    """When needs are met. ``count`` belongs to ``at_least``, ``expression`` to ``expression``."""

    kind: JoinKind = "all"
    count: int = 0  # type: ignore[assignment]  # a tuple has a method of that name, which nobody needs here
    expression: Expression | None = None
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
