"""Limits that people are asked about: which tasks wait for more, and what follows where somebody adds nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from planrunner.machine.budgets import fits, ledger_of, need, scope_name, scope_number, sentence, shown
from planrunner.machine.events import BudgetRefused
from planrunner.machine.fitting import time_short
from planrunner.machine.ledger import amount, units
from planrunner.machine.state import State

Json = Any


class Wanted(NamedTuple):
    """A limit that tasks wait for people to extend: of the task ``scope`` (empty: the plan), for ``what``. One of
    ``tasks`` (paths) goes on with ``least`` more and all of them with ``more`` (time: with any more, which is 0 here);
    seconds, dollars or counts. ``ask`` is the sentence for people."""

    scope: str
    what: str
    least: float
    more: float
    limit: float
    ask: str
    tasks: tuple[str, ...]

    @property
    def name(self) -> str:
        """What people call it: ``budget``, or ``TASK/budget``."""
        return f"{self.scope}/budget" if self.scope else "budget"


def wanted(state: State, now: float) -> list[Wanted]:
    """Every limit that somebody is asked about; one that was extended or refused since is not among them."""
    found: dict[tuple[int, str], Wanted] = {}
    for number, task in enumerate(state.tasks):
        if task.status != "blocked" or task.reason != "budget":
            continue
        spends = need(state, number)
        if isinstance(spends, str):
            continue
        short = time_short(state, number, now) or fits(state, number, {**spends, "attempts": 1})
        if short is None or not short.final or (short.scope, short.what) in ledger_of(state).refused:
            continue
        name, key = state.specs[number].id, (short.scope, short.what)
        timed = short.what == "time"
        least = 0.0 if timed else amount(short.what, int(short.need - short.left))
        limit = short.limit if timed else amount(short.what, int(short.limit))
        one = Wanted(scope_name(state, short.scope), short.what, least, least, limit, sentence(state, short), (name,))
        before = found.get(key)
        if before is not None:
            whole = 0.0 if timed else amount(short.what, int(short.need))
            one = before._replace(least=min(before.least, least), more=before.more + whole, tasks=(*before.tasks, name))
        found[key] = one
    return list(found.values())


def refusal(state: State, body: Mapping[str, Json], by: str) -> tuple[BudgetRefused, ...] | str:
    """The events by which a person adds nothing to what tasks wait for, or why there is nothing to refuse. ``refuse``
    lists what (time, cost …), ``scope`` is a task, empty for the plan."""
    scope = str(body.get("scope", ""))
    waiting = {each.what for each in wanted(state, state.active_since or 0.0) if each.scope == scope}
    asked = [str(what) for what in body["refuse"]]
    missing = [what for what in asked if what not in waiting]
    if missing or not asked:
        where = f"`{scope}`" if scope else "the plan"
        return f"no task waits for more {' or '.join(missing) or 'of a budget'} of {where}"
    return tuple(BudgetRefused(scope, what, by, str(body.get("reason", ""))) for what in asked)


def still_short(state: State, scope: str, added: Mapping[str, float]) -> str:
    """What is missing after an extension that lets none of those who wait go on; empty where one of them can."""
    for each in wanted(state, state.active_since or 0.0):
        missing = each.least - added.get(each.what, 0.0)
        if each.scope == scope and each.what in added and each.what != "time" and missing > 0:
            return f"{shown(each.what, units(each.what, missing) or 0)} more {each.what} is needed"
    return ""


# Folds


def refused(state: State, event: BudgetRefused, at: float) -> None:
    why = f"refused by {event.by}" if event.by else "refused"
    key = scope_number(state, event.scope), event.what
    ledger_of(state).refused[key] = f"{why}: {event.comment}" if event.comment else why
    for number, found in enumerate(state.tasks):
        if found.status == "blocked" and found.reason == "budget":
            state.candidates[number] = None


FOLDS: dict[type, Callable[[State, Any, float], None]] = {BudgetRefused: refused}
