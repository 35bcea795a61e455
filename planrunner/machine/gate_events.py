"""Events that few runs meet. Gates: what is asked, what was found, who said what."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Literal

    Json = Any


class GateRequested(NamedTuple):
    """A task waits for a decision. ``stage`` says of what: ``gate`` (the task is one), ``preconditions`` or
    ``criteria`` (those in plain words), ``label:NAME`` or ``policy`` (demanded before the task starts),
    ``instruction``
    (somebody carries the task out, and says what came of it). ``request`` is
    what is asked with every template filled in: kind, ask, options, form, words, inputs, and under ``looks`` what has
    to be looked at in the world. ``reserved`` is what a judge may use (cost in dollars, tokens, calls)."""

    task: str
    visit: int
    stage: str
    attempt: int = 0
    request: dict[str, Json] = {}
    reserved: dict[str, Json] = {}


class GateExamined(NamedTuple):
    """What was found of a gate's evidence: for each thing its kind, name, digest, what is shown of it and, where it
    speaks against the gate, the ``problem``. ``policy`` is the digest of the project's policy, ``usage`` what a judge
    used (cost in dollars, tokens, calls). ``failure`` is why a judge gave no answer: timeout, or interrupted (it is
    asked again when the run goes on)."""

    task: str
    visit: int
    evidence: tuple[dict[str, Json], ...] = ()
    policy: str = ""
    usage: dict[str, Json] = {}
    failure: str = ""


class GateOpened(NamedTuple):
    """People are asked; the task is blocked until they have decided. ``need`` of those with one of ``roles`` or among
    ``people`` (anybody where both are empty) decide. ``shown`` is the digest of everything an approval is for: run,
    task, visit, plan, policy, the question and the evidence. ``expires_at`` is seconds since 1970 on the run's time
    line."""

    task: str
    visit: int
    attempt: int
    stage: str
    kind: str
    ask: str
    shown: str
    options: tuple[dict[str, Json], ...] = ()
    form: tuple[dict[str, Json], ...] = ()
    evidence: tuple[dict[str, Json], ...] = ()
    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    need: int = 1
    not_starter: bool = False
    expires_at: float | None = None


class GateReopened(NamedTuple):
    """What was shown has changed before the decision: votes so far are void, ``shown`` is the digest of what there is
    now."""

    task: str
    visit: int
    request: dict[str, Json]
    evidence: tuple[dict[str, Json], ...]
    policy: str
    shown: str
    changed: tuple[str, ...] = ()


class GateVoted(NamedTuple):
    """One person's word on what ``shown`` stands for. ``user`` is who the system says it was, ``by`` the name they
    gave; ``claimed`` are roles nobody but the voter vouches for."""

    task: str
    visit: int
    verdict: Literal["approve", "reject"]
    by: str
    shown: str
    user: str = ""
    roles: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    reason: str = ""
    choice: str = ""
    fields: dict[str, Json] = {}


class GateEscalated(NamedTuple):
    """Nobody decided in time: from now on others may."""

    task: str
    visit: int
    roles: tuple[str, ...]
    people: tuple[str, ...]
    need: int
    not_starter: bool
    expires_at: float | None


class GateDecided(NamedTuple):
    """``decision`` is passed or failed (by checks), approved, rejected or expired. ``by`` are those whose votes made
    it, ``reason`` is what they said or which check failed; ``outputs`` become those of a task that is a gate, and
    ``problem`` tells which declared one has no value."""

    task: str
    visit: int
    decision: Literal["passed", "failed", "approved", "rejected", "expired"]
    by: tuple[str, ...] = ()
    reason: str = ""
    outputs: dict[str, Json] = {}
    problem: str = ""
