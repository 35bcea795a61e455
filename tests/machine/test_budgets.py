"""Budgets in the machine: what fits, what is set aside, what follows when nothing is left."""

from __future__ import annotations

from typing import Any

import pytest
from simulator.rehearsal import TRAITS, Rehearsal, rehearse
from simulator.runs import check_budgets
from workbench import plan

from planrunner.machine.admission import wanted
from planrunner.machine.budgets import MAX_DEPTH
from planrunner.machine.events import (
    AttemptEnded,
    AttemptStarted,
    BudgetExtended,
    BudgetWarned,
    DoubtSettled,
    FrameClosing,
    Outcome,
    RunResumed,
    RunStarted,
    StopRequested,
    TaskSettled,
)
from planrunner.machine.evolve import evolve
from planrunner.machine.requests import reply
from planrunner.machine.state import State
from planrunner.plan.model import Budgets, Plan
from planrunner.views.run import run_object
from planrunner.views.status import exit_code

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)


def task(name: str, cost: str = "", **keys: Any) -> dict[str, Any]:
    return {"id": name, "run": "work", **({"budgets": {"cost": cost}} if cost else {}), **keys}


def spent(failure: str = "", **usage: Any) -> Outcome:
    return Outcome(failure, "x" if failure else "", exit_code=int(bool(failure)), duration=1.0, usage=usage)


def run(found: Plan, outcomes: dict[str, list[Outcome]] | None = None, **more: Any) -> Rehearsal:
    ran = rehearse(found, outcomes or {}, **more)
    check_budgets(found, ran.entries)
    return ran


def events(ran: Rehearsal, kind: type) -> list[Any]:
    return [entry.event for entry in ran.entries if isinstance(entry.event, kind)]


def reserved(ran: Rehearsal) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for event in events(ran, AttemptStarted):
        found.setdefault(event.task, []).append(event.reserved.get("cost", 0.0))
    return found


def used(ran: Rehearsal, what: str = "cost") -> Any:
    return run_object(ran.state, "", None, 0.0)["budget"][what]["used"]


# Setting aside and settling


ASK = {"uses": "llm.complete", "with": {"prompt": "x"}}
ASKS = {**TRAITS, "llm.complete": ["read", False, False, ["cost"]]}


@pytest.mark.parametrize(
    ("keys", "defaults", "charged"),
    [
        pytest.param(ASK, True, 0.02, id="a capability that spends is billed by default too"),
        pytest.param({"run": "echo"}, True, None, id="a script is not billed for what all tasks may use"),
        pytest.param({"run": "echo", "budgets": {"cost": "$0.02"}}, False, 0.02, id="a script whose task has budgets"),
        pytest.param({"uses": "noop", "budgets": {"cost": "$1"}}, False, None, id="what cannot spend"),
    ],
)
def test_what_tells_nothing_is_billed_where_it_may_have_spent(
    keys: dict[str, Any], defaults: bool, charged: float | None
) -> None:
    shared = {"defaults": {"budgets": {"cost": "$0.02"}}} if defaults else {}
    ran = rehearse(plan({"id": "a", **keys}, budgets={"cost": "$5"}, **shared), started={"traits": ASKS})
    assert ran.state.status == "completed"
    assert used(ran) == (charged or 0)


def test_a_script_that_tells_what_it_used_is_billed_under_a_default_budget() -> None:
    ran = run(
        plan(task("a"), defaults={"budgets": {"cost": "$0.02"}}, budgets={"cost": "$5"}), {"a": [spent(cost=0.01)]}
    )
    assert used(ran) == 0.01


def test_a_script_that_told_what_it_used_sets_the_rest_of_a_default_budget_aside_when_tried_again() -> None:
    flaky = task("a", retry={"attempts": 4, "delay": "1s"})
    ran = rehearse(plan(flaky, defaults={"budgets": {"cost": "$1"}}), {"a": [spent("transient", cost=0.6)]})
    assert reserved(ran) == {"a": [0.0, 0.4]}
    assert (ran.state.tasks[0].failure, ran.state.tasks[0].attempts) == ("budget", 2)


def test_an_attempt_sets_its_cap_aside_and_settles_what_it_used() -> None:
    ran = run(plan(task("a", "$1"), task("b", "$1", needs=["a"]), budgets={"cost": "$1.50"}), {"a": [spent(cost=0.25)]})
    assert reserved(ran) == {"a": [1.0], "b": [1.0]}
    assert ran.state.status == "completed"
    assert used(ran) == 1.25


def test_what_is_not_told_in_good_order_counts_in_full() -> None:
    for usage in ({}, {"cost": -1}, {"cost": "much"}, {"cost": True}, {"cost": float("nan")}, {"tokens": 3}):
        ran = run(plan(task("a", "$1"), budgets={"cost": "$3"}), {"a": [Outcome(duration=1.0, usage=usage)]})
        assert used(ran) == 1.0, usage


def test_more_than_was_set_aside_is_spent_all_the_same_and_told() -> None:
    ran = rehearse(plan(task("a", "$1"), task("b", needs=["a"]), budgets={"cost": "$3"}), {"a": [spent(cost=1.5)]})
    assert used(ran) == 1.5
    assert events(ran, BudgetWarned) == [BudgetWarned("a", "cost", 1.5, 1.0, "overshoot")]


def test_retries_count_again_and_get_what_is_left_of_the_task_s_own_budget() -> None:
    flaky = task("a", "$1", retry={"attempts": 4, "delay": "1s"})
    ran = run(plan(flaky, budgets={"cost": "$9"}), {"a": [spent("transient", cost=0.5), spent("transient", cost=0.25)]})
    assert reserved(ran) == {"a": [1.0, 0.5, 0.25]}
    assert ran.state.tasks[0].failure == "budget"
    assert ran.state.tasks[0].attempts == 3


def test_parallel_attempts_never_set_aside_more_than_there_is_and_wait_for_each_other() -> None:
    tasks = [task(f"t{n}", "$1") for n in range(6)]
    ran = run(plan(*tasks, max_parallel=6, budgets={"cost": "$2"}), {f"t{n}": [spent(cost=0.2)] for n in range(6)})
    assert ran.state.status == "completed"
    assert round(used(ran), 6) == 1.2


def test_a_large_task_that_waits_is_not_overtaken_by_small_ones_after_it() -> None:
    tasks = [task("first", "$1.50"), task("large", "$1"), task("small", "$0.50")]
    ran = run(plan(*tasks, budgets={"cost": "$2"}), {"first": [spent(cost=0.1)], "large": [spent(cost=0.1)]})
    assert ran.order == ["first", "large", "small"]


def test_a_task_that_spends_nothing_goes_on_when_nothing_is_left() -> None:
    nothing = {"id": "b", "uses": "noop", "needs": ["a"]}
    ran = run(plan(task("a", "$1"), nothing, budgets={"cost": "$1"}))
    assert ran.statuses() == {"a": "completed", "b": "completed"}


def test_people_are_told_how_much_lets_a_script_start_that_sets_nothing_aside() -> None:
    ran = rehearse(
        plan(task("a"), task("b", needs=["a"]), budgets={"cost": "$0.5", "on_exhausted": "gate"}),
        {"a": [spent(cost=0.6)]},
    )
    [asked] = wanted(ran.state, 0.0)
    assert (asked.what, asked.least, asked.tasks) == ("cost", 0.11, ("b",))


def test_a_limit_of_nothing_is_told_to_what_spends() -> None:
    free = {"id": "a", **ASK, "budgets": {"cost": "$0"}}
    ran = rehearse(plan(free, budgets={"cost": "$0"}), started={"traits": ASKS})
    assert [event.reserved for event in events(ran, AttemptStarted)] == [{"cost": 0.0}]
    assert ran.state.status == "completed"


def test_a_rollback_does_not_start_scripts_once_its_reserve_is_used_up() -> None:
    tasks = [{**task(name), "rollback": {"run": "undo"}} for name in "ab"]
    bad = task("bad", needs=["a", "b"])
    reserve = {"on_failure": "rollback", "rollback": {"budgets": {"cost": "$0.5"}}}
    used_up = {"bad": [BAD], "undo:a": [spent(cost=0.6)], "undo:b": [spent(cost=0.6)]}
    ran = rehearse(plan(*tasks, bad, **reserve), used_up)
    assert ran.state.reason == "rollback_failed"


CRITIQUES = {**TRAITS, "agent.critique": ["read", False, False, ["cost", "tokens", "calls"]]}


@pytest.mark.parametrize("keys", [{}, {"on_exhausted": "gate"}])
def test_a_reflection_for_which_nothing_is_left_fails_alone(keys: dict[str, Any]) -> None:
    nothing = {"id": "b", "uses": "noop", "needs": ["a"]}
    found = plan(task("a", reflect=True), nothing, budgets={"cost": "$1", **keys})
    ran = rehearse(found, {"a": [spent(cost=2.0)]}, started={"traits": CRITIQUES})
    assert ran.statuses() == {"a": "completed", "a-reflection": "failed", "b": "completed"}
    assert ran.state.status == "completed"


def test_a_reflection_without_a_limit_of_its_own_sets_a_tenth_of_the_tightest_one_aside() -> None:
    sub = {"id": "s", "subplan": [task("a", reflect=True)], "budgets": {"cost": "$0.5"}}
    ran = rehearse(plan(sub, budgets={"cost": "$1"}), started={"traits": CRITIQUES})
    assert reserved(ran)["s/a-reflection"] == [0.05]


# Stop


def test_a_used_up_budget_lets_what_runs_end_and_fails_the_run() -> None:
    tasks = [task("slow"), task("a", "$1"), task("b", "$1", needs=["a"]), task("c", needs=["b"])]
    last = [{"id": "last", "run": "work"}]
    ran = run(plan(*tasks, budgets={"cost": "$1.50"}, **{"finally": last}), {"slow": [Outcome(duration=60.0)]})
    assert ran.statuses() == {
        "slow": "completed",
        "a": "completed",
        "b": "cancelled",
        "c": "cancelled",
        "last": "completed",
    }
    assert (ran.state.status, ran.state.reason) == ("failed", "budget")
    assert "$1 needed, $0.50 left of $1.50" in ran.state.tasks[2].detail


def test_the_budget_of_attempts_counts_retries() -> None:
    ran = run(plan(task("a", retry={"attempts": 9, "delay": "1s"}), budgets={"attempts": 3}), {"a": [BAD]})
    assert ran.state.tasks[0].attempts == 3
    assert (ran.state.status, ran.state.reason) == ("failed", "budget")


def test_the_own_budget_of_a_task_fails_only_the_task() -> None:
    found = plan(
        {"id": "a", "run": "work", "retry": 9, "budgets": {"attempts": 2}, "allow_failure": True},
        task("b", needs=["a"]),
    )
    ran = run(found, {"a": [BAD]})
    assert ran.statuses() == {"a": "failed", "b": "completed"}
    assert (ran.state.tasks[0].attempts, ran.state.tasks[0].failure) == (2, "budget")


def test_a_subplan_out_of_budget_fails_alone_and_its_handler_runs() -> None:
    inner = [task("x", "$1"), task("y", "$1", needs=["x"]), task("z", needs=["y"])]
    sub = {"id": "sub", "subplan": inner, "budgets": {"cost": "$1.20"}, "on_failure": {"to": "cheap", "recovers": True}}
    ran = run(plan(sub, task("cheap"), task("after", needs=["sub"])), {})
    assert ran.statuses() == {
        "sub": "failed",
        "cheap": "completed",
        "after": "completed",
        "sub/x": "completed",
        "sub/y": "cancelled",
        "sub/z": "cancelled",
    }
    assert ran.state.tasks[0].failure == "budget"
    assert [(event.task, event.reason) for event in events(ran, FrameClosing)] == [("sub", "budget")]
    assert ran.state.status == "completed"


def test_items_of_a_fan_out_share_its_budget_evenly() -> None:
    fan = {"id": "fan", "run": "work {{ item }}", "foreach": [1, 2, 3, 4], "budgets": {"cost": "$2"}}
    ran = run(plan(fan, max_parallel=4))
    assert reserved(ran) == {"fan": [0.0], **{f"fan[{n}]": [0.5] for n in range(4)}}
    assert ran.state.status == "completed"


def test_a_default_budget_is_for_each_item_and_not_for_what_holds_them() -> None:
    fan = {"id": "fan", **ASK, "foreach": [1, 2, 3]}
    sub = {"id": "sub", "subplan": [{"id": "x", **ASK}]}
    ran = rehearse(plan(fan, sub, defaults={"budgets": {"cost": "$1"}}), started={"traits": ASKS})
    assert reserved(ran) == {"fan": [0.0], "sub": [0.0], "sub/x": [1.0], **{f"fan[{n}]": [1.0] for n in range(3)}}


def test_rounds_count_as_iterations_of_everything_around_them() -> None:
    loop = {
        "id": "loop",
        "loop": {"max": 9, "until": "tasks.x.outputs.n > 5", "tasks": [task("x", outputs={"n": "int"})]},
    }
    never = {f"loop#{n}/x": [Outcome(outputs={"n": 0}, duration=1.0)] for n in range(1, 10)}
    ran = run(plan({**loop, "budgets": {"iterations": 3}}), never)
    assert (ran.state.tasks[0].failure, ran.state.tasks[0].inner.round) == ("budget", 3)  # type: ignore[union-attr]
    ran = run(plan(loop, budgets={"iterations": 2}), never)
    assert (ran.state.reason, used(ran, "iterations")) == ("budget", 2)


def test_depth_is_bounded() -> None:
    def nest(levels: int) -> dict[str, Any]:
        return task("x") if not levels else {"id": "in", "subplan": [nest(levels - 1)]}

    two = Budgets(depth=2)
    assert run(plan(nest(2))._replace(budgets=two)).state.status == "completed"
    ran = run(plan(nest(3))._replace(budgets=two))
    assert ran.statuses()["in/in/in"] == "failed"
    assert "it would open level 3 inside the plan, which may have 2" in ran.state.tasks[2].detail
    inner = plan({"id": "top", "subplan": [nest(3)]})
    inner = inner._replace(tasks=(inner.tasks[0]._replace(budgets=two),))
    assert run(inner).statuses()["top/in/in"] == "failed"


# Gate, warn


def test_nothing_is_nested_without_end() -> None:
    inner = plan(task("x")).tasks
    for _ in range(MAX_DEPTH + 1):
        inner = (plan(task("in")).tasks[0]._replace(uses="", run=None, script=None, subplan=inner),)
    ran = run(plan(task("x"))._replace(tasks=inner))
    assert (ran.state.status, len(ran.state.specs)) == ("failed", MAX_DEPTH + 1)
    assert "which may have 32" in ran.state.tasks[-1].detail


def test_a_gate_asks_and_an_extension_lets_the_task_go_on() -> None:
    found = plan(
        task("a", "$1"), task("b", "$1", needs=["a"]), task("c"), budgets={"cost": "$1.5", "on_exhausted": "gate"}
    )
    ran = run(found)
    assert ran.statuses() == {"a": "completed", "b": "blocked", "c": "completed"}
    assert (ran.state.status, ran.state.tasks[1].reason) == ("blocked", "budget")
    answer = reply(ran.state, "budget", {"add": {"cost": 0.5}, "reason": "worth it"}, "ada")
    assert answer.applied
    assert answer.events == (BudgetExtended("", "cost", 0.5, "ada", "worth it"),)


def test_extensions_that_make_no_sense_are_refused() -> None:
    ran = run(plan(task("a", "$1"), task("b", "$1", needs=["a"]), budgets={"cost": "$1.5", "on_exhausted": "gate"}))
    for body in ({"add": {"tokens": 5}}, {"add": {"cost": -1}}, {"add": {"cost": "x"}}, {"add": {}}, {}, {"add": 3}):
        assert not reply(ran.state, "budget", body, "ada").applied, body
    assert not reply(ran.state, "budget", {"add": {"cost": 1}, "scope": "nobody"}, "ada").applied


def test_a_warning_is_given_once_for_each_limit() -> None:
    tasks = [task(f"t{n}", "$1", needs=[f"t{n - 1}"] if n else []) for n in range(4)]
    ran = run(plan(*tasks, budgets={"cost": "$4", "attempts": 9, "warn": "50%"}))
    assert events(ran, BudgetWarned) == [BudgetWarned("", "cost", 2.0, 4.0)]
    ran = run(plan(task("a"), budgets={"time": "10s", "warn": "50%"}), {"a": [Outcome(duration=8.0)]})
    assert events(ran, BudgetWarned) == [BudgetWarned("", "time", 5.0, 10.0)]


# Capabilities that spend


def test_a_capability_that_spends_needs_a_cap_where_its_spending_is_limited() -> None:
    spending = {"traits": {**TRAITS, "shell": ["unsafe", False, False, ["cost", "calls"]]}}
    ran = run(plan(task("a"), budgets={"cost": "$1"}), started=spending)
    assert (ran.state.tasks[0].status, ran.state.tasks[0].failure) == ("failed", "budget")
    assert "nothing says how much" in ran.state.tasks[0].detail
    ran = run(plan(task("a"), budgets={"calls": 5}), started=spending)
    assert events(ran, AttemptStarted)[0].reserved == {"calls": 1}
    assert run(plan(task("a")), started=spending).state.status == "completed"


# Time


def test_the_time_budget_of_a_task_holds_for_all_its_attempts() -> None:
    a = {"id": "a", "run": "work", "retry": {"attempts": 9, "delay": "1s"}, "budgets": {"time": "10s"}}
    ran = run(plan(a), {"a": [Outcome("transient", "x", duration=4.0)]})
    assert [round(event.outcome.duration, 3) for event in events(ran, AttemptEnded)] == [4.0, 4.0, 2.0]
    assert ran.state.tasks[0].failure == "budget"


def test_a_deadline_counts_waiting_too() -> None:
    a = task("a", retry={"attempts": 2, "delay": "1h", "max_delay": "2h", "jitter": 0})
    ran = run(plan(a, deadline="30m"), {"a": [BAD]})
    assert (ran.state.status, ran.state.reason) == ("failed", "deadline")
    assert events(ran, StopRequested) == [StopRequested("deadline")]
    assert ran.entries[-1].at - ran.entries[0].at == 1800.0


def test_a_deadline_is_named_where_the_plan_has_time_left_and_no_budget_prolongs_it() -> None:
    ran = run(plan(task("a"), deadline="30m", budgets={"time": "10h"}), {"a": [Outcome(duration=7200.0)]})
    assert (ran.state.status, ran.state.reason) == ("failed", "deadline")
    said = "the deadline of the plan (30m from the start of the run) has passed"
    assert ran.state.tasks[0].detail == f"stopped: {said}"
    refused = reply(ran.state, "budget", {"add": {"time": 3600.0}}, "ann")
    assert not refused.applied
    assert refused.message.startswith(f"{said}, and no budget prolongs it")


def test_a_time_budget_is_named_where_the_deadline_is_far() -> None:
    ran = run(plan(task("a"), deadline="10h", budgets={"time": "30m"}), {"a": [Outcome(duration=7200.0)]})
    assert (ran.state.status, ran.state.reason) == ("failed", "budget")
    assert ran.state.tasks[0].detail == "stopped: the time budget of the plan is used up"
    added = reply(ran.state, "budget", {"add": {"time": 3600.0}}, "ann")
    assert added.applied
    assert added.message.endswith(", up to the deadline 10h from the start of the run")


def test_a_run_that_ran_out_of_budget_says_so_though_a_gate_was_rejected_before() -> None:
    gate = {"id": "g", "gate": "checks", "checks": ["1 == 2"], "on_reject": "fail"}
    for limits in ({"deadline": "30m"}, {"budgets": {"time": "30m"}}):
        ran = run(plan(gate, task("a"), on_failure="continue", **limits), {"a": [Outcome(duration=7200.0)]})
        assert ran.statuses() == {"g": "failed", "a": "cancelled"}
        assert exit_code(ran.state) == 6


def test_time_that_is_used_up_asks_where_people_may_extend_it() -> None:
    found = plan(task("a"), task("b", needs=["a"]), budgets={"time": "10s", "on_exhausted": "gate"})
    ran = run(found, {"a": [Outcome(duration=30.0)]})
    assert ran.statuses() == {"a": "completed", "b": "blocked"}
    evolve(ran.state, BudgetExtended("", "time", 60.0), ran.entries[-1].at)
    assert run_object(ran.state, "", None, 0.0)["budget"]["time"]["limit"] == 70.0


# What was cut off


def test_what_is_cut_off_keeps_what_it_set_aside_until_somebody_settles_it() -> None:
    found = plan(task("a", "$1"), budgets={"cost": "$2"})
    state = State(found, "r")
    given = [
        RunStarted("d", {}, 1, traits=TRAITS),
        AttemptStarted("a", 1, "k", "", "unsafe", 0, {"cost": 1.0}),
        AttemptEnded("a", 1, Outcome("interrupted", usage={"cost": 0.25})),
        RunResumed(2),
    ]
    for event in given:
        evolve(state, event, 0.0)
    account = run_object(state, "", None, 0.0)["budget"]["cost"]
    assert account == {"used": 0.25, "reserved": 0.75, "limit": 2.0}
    evolve(state, TaskSettled("a", "in_doubt", "ask"), 0.0)
    assert run_object(state, "", None, 0.0)["budget"]["cost"] == account
    evolve(state, DoubtSettled("a", 1, "completed", "ada"), 0.0)
    assert run_object(state, "", None, 0.0)["budget"]["cost"] == {"used": 1.0, "reserved": 0.0, "limit": 2.0}


# Items that are tried again


def _four(**keys: Any) -> dict[str, Any]:
    return {"id": "fan", "run": "work {{ item }}", "foreach": [1, 2, 3, 4], "budgets": {"cost": "$1"}, **keys}


def _bad(cost: float) -> Outcome:
    return spent("logic", cost=cost)


def test_an_item_that_is_tried_again_uses_what_the_others_have_left() -> None:
    fan = _four(retry={"attempts": 2, "delay": "1s"})
    outcomes = {f"fan[{number}]": [spent(cost=0.2)] for number in range(4)}
    ran = run(plan(fan), {**outcomes, "fan[1]": [_bad(0.2), spent(cost=0.2)]})
    assert ran.state.status == "completed"
    assert reserved(ran)["fan[1]"] == [0.25, 0.2]


def test_an_item_that_cannot_pay_for_another_attempt_fails_alone() -> None:
    fan = _four(retry={"attempts": 4, "delay": "1s"}, tolerate=1)
    outcomes = {f"fan[{number}]": [spent(cost=0.2)] for number in range(4)}
    ran = run(plan(fan), {**outcomes, "fan[1]": [_bad(0.2)] * 4})
    assert ran.state.status == "completed"
    item = ran.state.tasks[ran.state.index["fan[1]"]]
    assert (item.status, item.failure, item.attempts) == ("failed", "budget", 2)
    assert item.detail == "the cost budget of `fan` ($1) is used up: no attempt 3 after: x"


def test_a_fan_out_out_of_budget_names_the_limit_what_is_needed_and_what_is_left() -> None:
    fan = _four(max_parallel=1)
    ran = run(plan(fan), {f"fan[{number}]": [spent(cost=0.3)] for number in range(4)})
    found = ran.state.tasks[ran.state.index["fan"]]
    assert found.failure == "budget"
    assert found.detail == "the cost budget of `fan` is too small: $0.25 needed, $0.10 left of $1"
