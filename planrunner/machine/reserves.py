"""What is reserved for a rollback: budgets of its own, which nothing else uses and no other budget is asked about.

An undo sets aside an equal share of what is left, so that none is refused for what an earlier one might have used.
"""

from __future__ import annotations

from typing import Any

from planrunner.machine import budgets
from planrunner.machine.budgets import ledger_of
from planrunner.machine.events import UndoEnded, UndoStarted
from planrunner.machine.ledger import COUNTED, ROLLBACK, SPENDABLE, amount, units
from planrunner.machine.owing import acted
from planrunner.machine.state import State
from planrunner.machine.undoing import Rollback
from planrunner.plan.model import Budgets

Json = Any

_NONE = Budgets()
_CUT_OFF = ("interrupted", "unstarted", "cancelled")


def budgets_of(rollback: Rollback) -> Budgets:
    """What is reserved for a rollback."""
    return _NONE if rollback.policy is None else rollback.policy.budgets


def left(state: State, rollback: Rollback, what: str) -> int | None:
    """What of its reserve a rollback has neither spent nor set aside, in whole numbers; None where it has no limit."""
    limit = units(what, getattr(budgets_of(rollback), what))
    if limit is None or state.ledger is None:
        return limit
    return limit - state.ledger.account(rollback.account).taken(what)


def _spends(state: State, position: int) -> tuple[str, ...]:
    """What the capability spends that undoes a position."""
    assert state.debts is not None
    owed = state.debts.owed[position]
    action = acted(state, owed).rollback
    trait = state.traits.get(action.uses) if action is not None and owed.kind == "action" else None
    return tuple(what for what in trait.spends if what in SPENDABLE) if trait is not None else ()


def used_up(state: State, rollback: Rollback, position: int) -> str:
    """What of the reserve is used up that another attempt to undo ``position`` needs; empty where it has it all."""
    if budgets_of(rollback) == _NONE:
        return ""
    for what in ("attempts", *_spends(state, position)):
        rest = left(state, rollback, what)
        if rest is not None and rest <= 0:
            return what
    return ""


def share(state: State, rollback: Rollback, position: int) -> dict[str, Json]:
    """What the next attempt to undo ``position`` sets aside."""
    found: dict[str, Json] = {}
    for what in _spends(state, position) if budgets_of(rollback) != _NONE else ():
        rest = left(state, rollback, what)
        if rest:
            others = sum(what in _spends(state, at) for at in rollback.todo)
            found[what] = amount(what, 1 if what == "calls" else max(rest // max(others, 1), 1))
    return found


def held(state: State, position: int) -> dict[str, Json]:
    """What an attempt has set aside that was cut off and goes on."""
    holding = state.ledger.holdings.get(~position, {}) if state.ledger is not None else {}
    return {what: amount(what, more) for what, more in holding.items() if more}


def started(state: State, event: UndoStarted) -> None:
    """An undo begins: it counts, and what it may spend is set aside."""
    assert state.debts is not None
    rollback = state.debts.under[event.owed]
    if state.ledger is None and budgets_of(rollback) == _NONE:
        return
    ledger = ledger_of(state)
    if not event.reissue:
        ledger.count([rollback.account], "attempts")
    amounts = {what: units(what, given) or 0 for what, given in event.reserved.items()}
    ledger.reserve([rollback.account], ~event.owed, amounts)


def ended(state: State, position: int, event: UndoEnded) -> None:
    """What an undo used is settled; one that was cut off keeps what it has set aside for when it goes on."""
    assert state.debts is not None
    ledger, rollback = ledger_of(state), state.debts.under[position]
    if event.outcome.failure in _CUT_OFF:
        ledger.draw([rollback.account], ~position, event.outcome.usage)
    else:
        ledger.settle([rollback.account], ~position, event.outcome.usage)
    number = state.debts.owed[position].number
    known = [each for each in ledger.over if each.number != ~position or left(state, rollback, each.what) is not None]
    ledger.over = [each._replace(number=number) if each.number == ~position else each for each in known]


def given_up(state: State, position: int) -> None:
    """Nobody will tell what an undo used: all it had set aside counts as spent."""
    if state.ledger is not None and state.debts is not None:
        state.ledger.settle([state.debts.under[position].account], ~position, {})


def standing(state: State) -> list[tuple[str, dict[str, dict[str, float | None]]]]:
    """What each rollback used, has set aside and may use, by the task that links the plan which is undone (empty: the
    run); for a run that was not rolled back what is reserved for that."""
    found = [] if state.debts is None else list(state.debts.rollbacks)
    if state.plan.rollback is not None and all(each.owner >= 0 for each in found):
        found.append(Rollback())
        found[-1].policy, found[-1].account = state.plan.rollback, ROLLBACK
    return [(_within(state, each), amounts) for each in found if (amounts := _amounts(state, each))]


def _amounts(state: State, rollback: Rollback) -> dict[str, dict[str, float | None]]:
    reserved = budgets_of(rollback)
    found: dict[str, dict[str, float | None]] = {}
    if reserved.time is not None:
        used = 0.0 if rollback.ended is None else rollback.ended - rollback.began
        found["time"] = {"used": round(used, 3), "limit": reserved.time}
    if state.ledger is not None:
        return found | budgets.standing(state, rollback.account)
    limits = {what: getattr(reserved, what) for what in COUNTED if getattr(reserved, what) is not None}
    return found | {what: {"used": 0, "reserved": 0, "limit": limit} for what, limit in limits.items()}


def _within(state: State, rollback: Rollback) -> str:
    return state.specs[rollback.owner].id if rollback.owner >= 0 else ""
