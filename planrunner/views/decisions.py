"""What people decided in a run: votes at gates, doubts settled, budgets, stops, revisions, resets, rollbacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.frozen import EMPTY
from planrunner.machine.answers import filled_in
from planrunner.machine.events import (
    BudgetExtended,
    BudgetRefused,
    DoubtSettled,
    Entry,
    Event,
    GateDecided,
    GateOpened,
    GateRequested,
    GateVoted,
    PolicyChanged,
    RevisionDeclined,
    RollbackStarted,
    RunForked,
    RunReopened,
    RunResumed,
    RunRevised,
    RunStarted,
    StopRequested,
    TasksReset,
)
from planrunner.plan.expressions.quantities import format_duration, format_money
from planrunner.records import Struct
from planrunner.views.runs import rfc3339

Json = Any


class Decision(Struct):
    """One decision. ``at`` is seconds since 1970, ``kind`` a short code (vote, gate, doubt, budget, stop, reset,
    revise, reopen, rollback, policy, trust, sandbox, fork); ``task`` is empty for the whole run. ``said`` is a clause
    without its subject, such as ``approved``; ``ask`` is the question of a gate and ``shown`` the digest of what was
    decided on. ``answers`` are the ``fields`` of a form as it would take them."""

    seq: int
    at: float
    by: str
    kind: str
    task: str
    said: str
    reason: str = ""
    visit: int = 0
    ask: str = ""
    shown: str = ""
    fields: dict[str, Json] = EMPTY
    answers: str = ""

    @property
    def place(self) -> tuple[str, str, int]:
        """What two runs have to share for their decisions to be about the same thing."""
        return self.kind, self.task, self.visit


def decisions(entries: Iterable[Entry]) -> list[Decision]:
    """The decisions in a record, in its order. What planrunner decided alone is not among them, except a gate that
    ended without a person: by checks, or since its time was over."""
    asked: dict[tuple[str, int], str] = {}
    forms: dict[tuple[str, int], Json] = {}
    listed: list[Decision] = []
    for seq, at, event, _ in entries:
        if isinstance(event, GateOpened):
            asked[event.task, event.visit] = event.ask
        elif isinstance(event, GateRequested):
            forms[event.task, event.visit] = event.request.get("form", ())
        elif isinstance(event, (RunStarted, RunResumed)):
            listed += [Decision(seq, at, by, kind, "", said) for kind, by, said in _allowed(event)]
        elif (made := _decision(event)) is not None:
            by, kind, task, said, reason = made
            one = Decision(seq, at, by, kind, task, said, reason, getattr(event, "visit", 0))
            if isinstance(event, GateVoted):
                answers = filled_in(forms.get((task, one.visit), ()), event.fields)
                one = one._replace(shown=event.shown, fields=event.fields, answers=answers)
            listed.append(one._replace(ask=asked.get((task, one.visit), "")))
    return listed


def _decision(event: Event) -> tuple[str, str, str, str, str] | None:
    """Who, kind, task, what was said and why; None for an event that is not a decision."""
    if isinstance(event, GateVoted) or (isinstance(event, GateDecided) and not event.by):
        return _of_gate(event)
    if isinstance(event, (BudgetExtended, BudgetRefused)):
        return event.by, "budget", event.scope, _budget(event), event.comment
    if isinstance(event, DoubtSettled) and event.by:
        return event.by, "doubt", event.task, f"settled the doubt: {event.resolution}", ""
    if isinstance(event, TasksReset) and event.by and event.reason != "revised":
        what = f"sent {event.cause} back" if event.cause else f"had {_count(event.tasks)} run again ({event.reason})"
        return event.by, "reset", event.cause, what, event.comment
    return _of_run(event)


def _of_run(event: Event) -> tuple[str, str, str, str, str] | None:
    if isinstance(event, StopRequested) and event.by and event.reason in ("pause", "cancelled", "killed", ""):
        words = {"pause": "paused the run", "": "took the pause back"}
        return event.by, "stop", "", words.get(event.reason, "cancelled the run"), event.comment
    if isinstance(event, RunRevised):
        return event.by, "revise", "", f"gave the run revision {event.number} of its plan", event.reason
    if isinstance(event, RevisionDeclined):
        return event.by, "revise", event.task, "declined the proposed plan", event.reason
    if isinstance(event, RunReopened) and event.by:
        return event.by, "reopen", "", f"opened the run again ({event.reason})", ""
    if isinstance(event, RunForked):
        return event.by, "fork", "", f"made this run from run {event.parent} after its event {event.seq}", ""
    if isinstance(event, RollbackStarted) and event.reason == "person":
        return event.by, "rollback", event.within, f"had {_count(event.tasks)} rolled back", event.comment
    if isinstance(event, PolicyChanged) and event.reason == "accepted":
        return event.by, "policy", "", "accepted the changed policy", ""
    return None


def _of_gate(event: GateVoted | GateDecided) -> tuple[str, str, str, str, str]:
    if isinstance(event, GateDecided):
        words = {"passed": "its checks passed", "failed": "its checks failed", "expired": "it expired undecided"}
        return "", "gate", event.task, words.get(event.decision, event.decision), event.reason
    roles = event.roles or event.claimed
    as_role = f" as {', '.join(roles)}{' by their own word' if event.claimed else ''}" if roles else ""
    choice = f" with `{event.choice}`" if event.choice else ""
    verb = "approved" if event.verdict == "approve" else "rejected"
    return event.by, "vote", event.task, f"{verb}{choice}{as_role}", event.reason


def _budget(event: BudgetExtended | BudgetRefused) -> str:
    of = f" of `{event.scope}`" if event.scope else ""
    if isinstance(event, BudgetRefused):
        return f"refused more {event.what}{of}"
    amounts = {"cost": format_money, "time": format_duration}
    amount = amounts[event.what](event.amount) if event.what in amounts else f"{event.amount:g}"
    return f"extended the {event.what} budget{of} by {amount}"


def _allowed(event: RunStarted | RunResumed) -> Iterator[tuple[str, str, str]]:
    """What a person allowed, or went without, when the run began or went on."""
    if isinstance(event, RunResumed):
        if event.unconfined:
            yield "sandbox", event.by, "let the run go on without a sandbox"
        return
    trust = event.environment.get("trust") or {}
    if trust.get("origin") in ("outside", "drafted"):
        which = "from outside the project" if trust["origin"] == "outside" else "with text from outside"
        yield "trust", str(trust.get("by") or ""), f"allowed a plan {which}"
    if off := (event.environment.get("sandbox") or {}).get("off"):
        yield "sandbox", str(off.get("by", "")), "started the run without a sandbox"


def _count(tasks: tuple[str, ...]) -> str:
    return f"`{tasks[0]}`" if len(tasks) == 1 else f"{len(tasks)} tasks"


def decision_object(decision: Decision) -> dict[str, Json]:
    """A decision as data; ``at`` by RFC 3339."""
    return {**decision._asdict(), "at": rfc3339(decision.at)}


def decision_text(decision: Decision) -> str:
    """``bo approved as release: the notes are right``; a gate that ended without a person has no name."""
    who = f"{decision.by} " if decision.by else ""
    return f"{who}{decision.said}{f': {decision.reason}' if decision.reason else ''}"
