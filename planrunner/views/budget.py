"""Budgets as lines for people: warnings, and a table of what is used, set aside and left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planrunner.later import Later
from planrunner.machine import budgets
from planrunner.machine.budgets import scope_of
from planrunner.machine.events import BudgetExtended, BudgetWarned
from planrunner.machine.state import State
from planrunner.views.status import amount_text
from planrunner.views.terminal import word

if TYPE_CHECKING:
    from planrunner.views.documents import document
    from planrunner.views.run import budget_object
else:
    document = Later("planrunner.views.documents:document")
    budget_object = Later("planrunner.views.run:budget_object")


Json = Any


def warning_text(event: BudgetWarned) -> str:
    """The line of a warning."""
    where = f" of {event.scope}" if event.scope else ""
    spent, limit = amount_text(event.what, event.spent), amount_text(event.what, event.limit)
    if event.reason == "overshoot":
        return f"warning: {event.scope} used {spent} of its {event.what} and had set aside {limit}"
    return f"warning: {spent} of {limit} {event.what}{where} is used"


def extension_text(event: BudgetExtended) -> str:
    """The line of an extension."""
    where = event.scope or "the plan"
    by = f" by {event.by}" if event.by else ""
    said = f": {event.comment}" if event.comment else ""
    return f"{amount_text(event.what, event.amount)} more {event.what} for {where}{by}{said}"


def budget_line(state: State, now: float) -> str:
    """``budget: $0.65 of $1 cost, 48s of 1m time``: what is limited for the whole run; empty where nothing is."""
    parts = []
    for what, found in budget_object(state, now).items():
        if found["limit"] is None or what == "depth":
            continue
        aside = found.get("reserved")
        held = f" ({amount_text(what, aside)} set aside)" if aside else ""
        parts.append(f"{amount_text(what, found['used'])}{held} of {amount_text(what, found['limit'])} {what}")
    return "budget: " + ", ".join(parts) if parts else ""


def _reserved(state: State) -> list[tuple[str, dict[str, dict[str, float | None]]]]:
    if state.compensation_log is None and state.plan.rollback is None:
        return []
    return budgets.rollback_amounts(state)


def budget_document(state: State, now: float) -> dict[str, Json]:
    """What a run has used, reserved and may use at ``now`` (seconds since 1970)."""
    return document(run_id=state.run_id, budget=budget_object(state, now), rollbacks=reserves_object(state))


def reserves_object(state: State) -> list[dict[str, Json]]:
    """What each rollback used and may use, ``within`` is the task that links the plan which is undone, empty for the
    run."""
    return [{"within": within, "budget": amounts} for within, amounts in _reserved(state)]


def budget_table(state: State, now: float) -> list[str]:
    """A line for the plan, each task that has a limit and each rollback, with what is used, set aside and allowed."""
    reserved = _reserved(state)
    if state.ledger is None and not reserved:
        return [budget_line(state, now) or "nothing of this run is limited"]
    rows = [("the plan", what, found) for what, found in budget_object(state, now).items()]
    for number, task in enumerate(state.specs if state.ledger is not None else ()):
        if scope_of(state, number) is not None:
            rows += [(task.id, what, found) for what, found in budgets.budget_state(state, number).items()]
    for within, amounts in reserved:
        name = f"rollback of {within}" if within else "the rollback"
        rows += [(name, what, found) for what, found in amounts.items()]
    table = [("scope", "what", "used", "set aside", "limit")]
    for name, what, found in rows:
        limit = found["limit"]
        aside = amount_text(what, found["reserved"]) if found.get("reserved") else ""
        shown = "" if limit is None else amount_text(what, limit)
        table.append((name, what, amount_text(what, found["used"] or 0), aside, shown))
    widths = [max(len(row[at]) for row in table) for at in range(5)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def extending(detail: str) -> str:
    """The options of ``budget`` that add to the limit which a sentence of ``machine.budgets`` tells of."""
    before, _, where = detail.partition(" budget of ")
    what = before.rpartition(" ")[2]
    scope = where.partition("`")[2].partition("`")[0] if where.startswith("`") else ""
    task = f"--task {word(scope)} " if scope else ""
    return f"{task}--add {what if where and what.isalpha() else 'WHAT'}=AMOUNT"
