"""What is reserved for a rollback: money, tokens, calls and attempts, apart from what the tasks may spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import workbench
from simulator.rehearsal import TRAITS, Rehearsal, rehearse
from simulator.runs import PLACE, Disk, Nobody, check_budgets

from planrunner.engine.loop import Driver
from planrunner.engine.simulated import Script, SimulatedEffects
from planrunner.machine.budgets import rollback_amounts
from planrunner.machine.events import BudgetWarned, Entry, Outcome, RunResumed, UndoSettled, UndoStarted
from planrunner.machine.evolve import fold
from planrunner.machine.state import State
from planrunner.plan.model import Plan
from planrunner.views.budget import budget_table, reserves_object

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
SPENDING = {**TRAITS, "shell": ["unsafe", False, False, ["cost", "tokens", "calls"]], "fail": ["pure", True, False]}
RUN = "20231114-2213-000000"


plan = partial(workbench.plan, on_failure="rollback")


def task(name: str, *needs: str, **keys: Any) -> dict[str, Any]:
    budgets = {"cost": "$1", "tokens": 100}
    return {"id": name, "run": "work", "needs": list(needs), "rollback": {"run": "undo"}, "budgets": budgets, **keys}


def last(*needs: str) -> dict[str, Any]:
    return {"id": "bad", "uses": "fail", "with": {"class": "logic"}, "needs": list(needs)}


def spent(failure: str = "", **usage: Any) -> Outcome:
    return Outcome(failure, "x" if failure else "", exit_code=int(bool(failure)), duration=1.0, usage=usage)


def run(found: Plan, outcomes: Mapping[str, Sequence[Outcome]] = {}) -> Rehearsal:
    ran = rehearse(found, outcomes, started={"traits": SPENDING})
    check_budgets(found, ran.entries)
    return ran


def fates(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    return [(e.event.task, e.event.status) for e in entries if isinstance(e.event, UndoSettled)]


def reserved(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    return [e.event.reserved for e in entries if isinstance(e.event, UndoStarted)]


TASKS = (task("a"), task("b", "a"), last("b"))
USED = {"a": [spent(cost=1.0, tokens=100)], "b": [spent(cost=1.0, tokens=100)], "bad": [BAD]}
LIMITS = {"cost": "$2", "tokens": 200, "calls": 2}
RESERVE = {"budgets": {"cost": "$0.50", "tokens": 50, "calls": 4}}


def test_undos_are_not_refused_though_the_tasks_used_everything_up() -> None:
    ran = run(plan(*TASKS, budgets=LIMITS, rollback=RESERVE), USED)
    assert fates(ran.entries) == [("b", "undone"), ("a", "undone")]
    assert ran.state.reason == "rolled_back"


def test_without_a_reserve_undos_have_no_limit_and_what_they_use_is_told() -> None:
    ran = run(plan(*TASKS, budgets=LIMITS), {**USED, "undo:a": [spent(cost=3.0)], "undo:b": [spent(cost=4.0)]})
    assert fates(ran.entries) == [("b", "undone"), ("a", "undone")]
    assert reserved(ran.entries) == [{}, {}]
    ((within, amounts),) = rollback_amounts(ran.state)
    assert (within, amounts["cost"]) == ("", {"used": 7.0, "reserved": 0.0, "limit": None})


def test_each_undo_sets_aside_a_share_of_what_is_left() -> None:
    ran = run(
        plan(*TASKS, budgets=LIMITS, rollback=RESERVE),
        {**USED, "undo:b": [spent(cost=0.1, tokens=5)], "undo:a": [spent(cost=0.1, tokens=5, calls=1)]},
    )
    assert reserved(ran.entries) == [
        {"cost": 0.25, "tokens": 25, "calls": 1},
        {"cost": 0.4, "tokens": 45, "calls": 1},
    ]
    ((_, amounts),) = rollback_amounts(ran.state)
    assert amounts["cost"] == {"used": 0.2, "reserved": 0.0, "limit": 0.5}
    assert amounts["calls"]["used"] == 2


def test_what_an_undo_does_not_tell_counts_as_used_and_the_next_still_has_its_share() -> None:
    ran = run(plan(*TASKS, rollback=RESERVE), USED)
    assert fates(ran.entries) == [("b", "undone"), ("a", "undone")]
    ((_, amounts),) = rollback_amounts(ran.state)
    assert amounts["cost"] == {"used": 0.5, "reserved": 0.0, "limit": 0.5}


def test_what_is_left_when_the_reserve_is_used_up_is_left_and_told() -> None:
    ran = run(plan(*TASKS, rollback={"budgets": {"cost": "$0.50"}}), {**USED, "undo:b": [spent(cost=0.5)]})
    assert fates(ran.entries) == [("b", "undone"), ("a", "left")]
    detail = [e.event.detail for e in ran.entries if isinstance(e.event, UndoSettled)][1]
    assert detail == "not tried: the cost reserved for the rollback is used up"
    warned = [e.event for e in ran.entries if isinstance(e.event, BudgetWarned)]
    assert [(event.scope, event.what, event.spent, event.reason) for event in warned] == [
        ("b", "cost", 0.5, "overshoot")
    ]


def test_attempts_of_the_reserve_bound_how_often_undos_are_tried() -> None:
    often = {"run": "undo", "retry": {"attempts": 9, "delay": "1s"}}
    ran = run(
        plan(task("a"), task("b", "a", rollback=often), last("b"), rollback={"budgets": {"attempts": 3}}),
        {**USED, "undo:b": [BAD]},
    )
    assert [e.event.task for e in ran.entries if isinstance(e.event, UndoStarted)] == ["b", "b", "b"]
    assert fates(ran.entries) == [("b", "failed"), ("a", "left")]


def test_an_undo_that_was_cut_off_keeps_what_it_set_aside() -> None:
    spec = plan(*TASKS, budgets=LIMITS, rollback=RESERVE)
    ran = run(spec, USED)
    at = next(e.seq for e in ran.entries if isinstance(e.event, UndoStarted))
    disk = Disk()
    disk.entries = [e for e in ran.entries if e.seq <= at]
    state = fold(spec, RUN, disk.entries)
    effects = SimulatedEffects(Script(lambda call: spent(cost=0.1, tokens=1), lambda names: {}), disk.entries[-1].at)
    driver = Driver(state, disk.append, effects, PLACE, Nobody(), at)
    driver.record(RunResumed(2))
    driver.run()
    check_budgets(spec, disk.entries)
    assert reserved(disk.entries)[:2] == [{"cost": 0.25, "tokens": 25, "calls": 1}] * 2
    ((_, amounts),) = rollback_amounts(state)
    assert amounts["cost"] == {"used": 0.2, "reserved": 0.0, "limit": 0.5}


def test_a_linked_plan_has_the_reserve_of_its_own_policy() -> None:
    inner = {"on_failure": "rollback", "rollback": RESERVE, "tasks": list(TASKS)}
    spec = plan(
        {"id": "fan", "foreach": [1, 2], "subplan": "inner"},
        subplans={"inner": inner},
        on_failure="continue",
        rollback={"budgets": {"cost": "$9"}},
    )
    ran = run(spec, {f"fan[{item}]/{name}": found for item in range(2) for name, found in USED.items()})
    assert [(within, amounts["cost"]["limit"]) for within, amounts in rollback_amounts(ran.state)] == [
        ("fan[0]", 0.5),
        ("fan[1]", 0.5),
        ("", 9.0),
    ]
    assert {fate for _, fate in fates(ran.entries)} == {"undone"}
    assert [each["within"] for each in reserves_object(ran.state)] == ["fan[0]", "fan[1]", ""]


def test_the_table_shows_what_is_reserved_before_anything_is_undone() -> None:
    lines = budget_table(State(plan(*TASKS, rollback=RESERVE), RUN), 0.0)
    assert ["the", "rollback", "cost", "$0", "$0.50"] in [line.split() for line in lines]
