"""Criteria in plain words that a model judges before people are asked: its verdict counts where it is sure and quotes
what it rests on; else people decide, who see what it said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planrunner.machine.budgets import chain, fits, ledger_of, limit_of
from planrunner.machine.events import GateExamined, GateRequested
from planrunner.machine.judge import Verdict
from planrunner.machine.ledger import SPENDABLE, units
from planrunner.machine.state import State

if TYPE_CHECKING:
    from planrunner.machine.gate import GateState

Json = Any

KIND = "judge"
"""The kind of the look, and of the evidence, that a judge gives."""


def judge_of(state: State, stage: str) -> str:
    """The model that judges criteria in this run; empty where people decide at once."""
    return str(state.environment.get("judge", "")) if stage == "criteria" else ""


def allowance(state: State, number: int) -> dict[str, Json] | None:
    """What the judge of a task may use, of each amount that is limited around it. None where the project does not say
    how much that is, or a budget leaves no room for it: the judge is not asked then."""
    if state.ledger is None:
        return {}
    limited = {what for scope in chain(state, number) for what in SPENDABLE if limit_of(state, scope, what) is not None}
    given = state.environment.get("judging") or {}
    found = {what: given.get(what) for what in SPENDABLE if what in limited}
    wanted = {what: units(what, value) for what, value in found.items()}
    if None in wanted.values() or fits(state, number, {what: more or 0 for what, more in wanted.items()}) is not None:
        return None
    return found


def set_aside(state: State, number: int, event: GateRequested) -> None:
    """What the judge may use is set aside with the intent to ask it."""
    if event.reserved:
        amounts = {what: units(what, given) or 0 for what, given in event.reserved.items()}
        ledger_of(state).reserve(chain(state, number), number, amounts)


def settle(state: State, number: int, event: GateExamined) -> None:
    """The judge has answered, or was not asked."""
    if state.ledger is not None and (event.usage or number in state.ledger.holdings):
        state.ledger.settle(chain(state, number), number, event.usage)


def met(evidence: Sequence[Mapping[str, Json]]) -> Mapping[str, Json] | None:
    """The evidence by which a judge found every criterion met."""
    return next((item for item in evidence if item.get("kind") == KIND and item.get("verdict") == "met"), None)


def left_open(gate: GateState | None) -> str:
    """Why a judge left to people what they are asked now; empty where none did."""
    if gate is None or not gate.waits:
        return ""
    found = (item for item in gate.evidence if item.get("kind") == KIND and item.get("verdict") != "met")
    return next((f"judge `{item.get('name')}`: {item.get('text')}" for item in found), "")


def unmet(gate: GateState | None, attempt: int) -> Verdict | None:
    """The verdict on an attempt of which a judge found that a criterion is not met."""
    if gate is None or (gate.stage, gate.attempt, gate.decision) != ("criteria", attempt, "failed"):
        return None
    return Verdict("logic", "criterion", gate.reason)
