"""What a run asks people: each question with its kind and its name, who may decide it, and what decides it so far.

Command line, prompt, page, API, notices and lists show these records and nothing else; what a decision comes to is said
by ``requests`` for a vote, and by the settling of doubts for a task in doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, Protocol

from planrunner.errors import NextStep
from planrunner.machine.admission import Wanted, wanted
from planrunner.machine.events import GateVoted, TaskStatus
from planrunner.machine.names import label
from planrunner.machine.recovery import is_done, on_resume
from planrunner.machine.state import GateState, State
from planrunner.machine.windows import Window, window_of, windows
from planrunner.plan.expressions.quantities import duration_text
from planrunner.records import Struct

# Who may decide


class Asks(Protocol):
    """What names its deciders, a gate, the event that opened one, or a question: those with one of ``roles`` or among
    ``people`` (anyone where both are empty), with ``not_starter`` except the person who started the run."""

    @property
    def roles(self) -> Sequence[str]: ...
    @property
    def people(self) -> Sequence[str]: ...
    @property
    def not_starter(self) -> bool: ...


def named(asks: Asks) -> str:
    """``role `release` or ana``; ``anyone`` where none are named."""
    return " or ".join([*(f"role `{role}`" for role in asks.roles), *asks.people]) or "anyone"


def who_may(asks: Asks) -> str:
    """``role `release` or ana, except the person who started the run``."""
    return named(asks) + (", except the person who started the run" if asks.not_starter else "")


def is_limited(asks: Asks) -> bool:
    """Whether there is a person who may not decide."""
    return bool(asks.roles or asks.people or asks.not_starter)


def reason_not_allowed(asks: Asks, gate: str, who: str, roles: Collection[str], starter: object) -> str:
    """Why a person with these roles may not decide; empty where they may."""
    if (asks.roles or asks.people) and not set(roles) & set(asks.roles) and who not in asks.people:
        return f"{who} may not decide `{gate}`: it needs {who_may(asks)}"
    if asks.not_starter and who == starter:
        other = "another person" if not (asks.roles or asks.people) else named(asks)
        return f"{who} started the run and may not decide `{gate}`: it needs {other}, or `approvers: {{starter: true}}`"
    return ""


def tally(votes: Iterable[GateVoted], need: int) -> str:
    """How many approvals there are and how many are needed: of a decision, how many votes each option has."""
    chosen: dict[str, int] = {}
    for vote in votes:
        if vote.verdict == "approve":
            chosen[vote.choice] = chosen.get(vote.choice, 0) + 1
    split = ", ".join(f"{choice} {number}" for choice, number in chosen.items() if choice)
    most = max(chosen.values(), default=0)
    return f"{most} of {need} vote{'s' * (need != 1)} ({split})" if split else f"{most} of {need} approvals"


# Questions


Kind = Literal["doubt", "gate", "window", "watchdog", "budget", "trust", "trigger"]
"""A task whose attempt was interrupted with an unknown result, a gate of the plan, gates that are reviewed together, a
task that runs for long, a used-up limit; and what a project asks without a run: to trust a plan, to mend a trigger."""

SCOPES: dict[Kind, str] = {"doubt": "run", "trust": "admin", "trigger": "admin"}
"""What a token has to be for, to decide a question of a kind; ``decide`` for all others."""


class Question(Struct):
    """What people are asked. ``name`` is what commands, addresses and requests call it: the path of its task, the name
    of a window, ``TASK/budget``; ``task`` is the number of the task that asks, or -1. ``since`` is in
    seconds since 1970; ``given`` are the approvals out of ``need``; ``gates`` are those of a window."""

    kind: Kind
    name: str
    ask: str
    task: int = -1
    since: float | None = None
    roles: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    not_starter: bool = False
    starter: str = ""
    need: int = 1
    given: int = 0
    window: str = ""
    gates: tuple[Question, ...] = ()
    limit: Wanted | None = None
    plan: str = ""
    steps: tuple[NextStep, ...] = ()
    """What a project asks about, and the commands that go on."""

    def reason_not_allowed(self, who: str, roles: Collection[str]) -> str:
        """Why a person with these roles may not decide it; empty where they may."""
        asked = self.gates or (self,)
        return next(filter(None, (reason_not_allowed(each, each.name, who, roles, self.starter) for each in asked)), "")


def questions(state: State, now: float) -> list[Question]:
    """Everything of a run that waits for people at ``now``, the most urgent first: tasks in doubt, gates, tasks that
    run for long, used-up limits. The gates of a window stand by themselves; see ``together``."""
    asked: list[Question] = []
    unsettled: tuple[TaskStatus, ...] = (
        ("in_doubt",) if state.status in ("pending", "running") else ("in_doubt", "running")
    )
    if state.ended_at is None and any(state.counts.get(status) for status in unsettled):
        asked += [
            _doubt(state, number)
            for number, task in enumerate(state.tasks)
            if task.status in unsettled
            and number not in state.containers
            and not (is_done(task) or on_resume(state, number))
        ]
    if state.counts.get("blocked"):
        asked += [_gate(state, number) for number in waiting_gates(state)]
    if state.alarms is not None:
        asked += [_watchdog(state, number, *state.alarms.asked[number]) for number in sorted(state.alarms.asked)]
    if state.ledger is not None and state.counts.get("blocked"):
        asked += [Question("budget", limit.name, limit.ask, limit=limit) for limit in wanted(state, now)]
    return asked


def waiting_gates(state: State) -> list[int]:
    """The tasks whose gates wait for people, by number."""
    return [
        number
        for number, task in enumerate(state.tasks)
        if task.status == "blocked" and task.gate is not None and task.gate.waits and number not in state.held
    ]


def limits_of(asked: Iterable[Question]) -> list[Wanted]:
    """The limits that some questions are about."""
    return [question.limit for question in asked if question.limit is not None]


def together(asked: Sequence[Question], fewest: int = 2) -> list[Question]:
    """The same with the gates of a window as one question, where ``fewest`` of them wait."""
    reviewed: dict[str, list[Question]] = {}
    for question in asked:
        if question.window:
            reviewed.setdefault(question.window, []).append(question)
    merged: list[Question] = []
    for question in asked:
        gates = tuple(reviewed.get(question.window, ()))
        if len(gates) < fewest:
            merged.append(question)
        elif question is gates[0]:
            ask = f"{question.window}: {len(gates)} gates to review together"
            since, starter = question.since, question.starter
            merged.append(Question("window", question.window, ask, question.task, since, starter=starter, gates=gates))
    return merged


def find(asked: Sequence[Question], name: str) -> list[Question]:
    """The questions that a name means: one of them, a window, or the limits of a budget, which may also be named by a
    task that waits for it."""
    reviewed = (question for question in together(asked, 1) if question.kind == "window")
    exact = [question for question in (*asked, *reviewed) if question.name == name]
    if exact:
        return [question for question in exact if question.kind == exact[0].kind]
    return [question for question in asked if question.limit is not None and name in question.limit.tasks]


def _gate(state: State, number: int) -> Question:
    gate = gate_at(state, number)
    return Question(
        "gate",
        state.specs[number].id,
        str(gate.request.get("ask", "")),
        *(number, gate.opened_at, gate.roles, gate.people, gate.not_starter),
        starter=str(state.environment.get("user") or ""),
        need=gate.need,
        given=sum(vote.verdict == "approve" for vote in gate.votes),
        window=window_of(state, number),
    )


def _doubt(state: State, number: int) -> Question:
    ask = f"`{label(state, number)}` was interrupted, result unknown: did it succeed?"
    return Question("doubt", state.specs[number].id, ask, number, state.tasks[number].started)


def _watchdog(state: State, number: int, after: float, since: float) -> Question:
    ask = f"`{label(state, number)}` still runs after {duration_text(after)}: let it continue, or end it?"
    return Question("watchdog", state.specs[number].id, ask, number, since)


def window_at(state: State, question: Question) -> Window:
    """The review window that a question is about."""
    (window,) = windows(state, [gate.task for gate in question.gates]).values()
    return window


def gate_at(state: State, number: int) -> GateState:
    """The gate that a task waits at."""
    gate = state.tasks[number].gate
    assert gate is not None, "it waits for people"
    return gate
