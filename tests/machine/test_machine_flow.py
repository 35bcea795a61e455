"""How runs go: joins, edges, conditions, failure intents, limits. Outcomes in, statuses and order compared."""

from __future__ import annotations

from typing import Any

import pytest
from rows import rows
from simulator.rehearsal import Rehearsal, rehearse
from workbench import working_plan as plan

from planrunner.app.plans.tasks import select
from planrunner.app.proof.lives import RUN_ID
from planrunner.machine.events import Outcome, RunParked, RunResumed, TaskSettled
from planrunner.machine.evolve import evolve, fold
from planrunner.machine.explain import why
from planrunner.views.status import elapsed

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
FLAKY = Outcome("transient", "try later", duration=1.0)
GOOD = Outcome(exit_code=0, duration=1.0)


def run(*tasks: dict[str, Any], bad: tuple[str, ...] = (), **keys: Any) -> Rehearsal:
    return rehearse(plan(*tasks, **keys), {task: [BAD] for task in bad})


def test_a_chain_runs_in_order_and_completes() -> None:
    ran = run({"id": "c", "needs": ["b"]}, {"id": "a"}, {"id": "b", "needs": ["a"]})
    assert ran.order == ["a", "b", "c"]
    assert ran.state.status == "completed"


def test_a_failed_need_omits_what_depends_on_it_and_fails_the_run() -> None:
    ran = run({"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]}, bad=("a",))
    assert ran.statuses() == {"a": "failed", "b": "omitted", "c": "omitted"}
    assert ran.state.status == "failed"
    assert "needs `a`, which failed" in ran.state.tasks[1].detail


def test_the_stop_policy_cancels_what_has_nothing_to_do_with_the_failure() -> None:
    tasks = ({"id": "a"}, {"id": "slow"}, {"id": "other", "needs": ["slow"]})
    stopped = rehearse(plan(*tasks), {"a": [BAD], "slow": [Outcome(duration=60.0)]})
    assert stopped.statuses() == {"a": "failed", "slow": "completed", "other": "cancelled"}
    going_on = rehearse(plan(*tasks, on_failure="continue"), {"a": [BAD], "slow": [Outcome(duration=60.0)]})
    assert going_on.statuses() == {"a": "failed", "slow": "completed", "other": "completed"}


ALONE = {"max_parallel": 1}


@pytest.mark.parametrize("policy", ["stop", "rollback"])
def test_a_failure_starts_nothing_in_the_slot_that_it_frees(policy: str) -> None:
    ran = run({"id": "a"}, {"id": "b"}, {"id": "c"}, bad=("a",), on_failure=policy, **ALONE)
    assert ran.order == ["a"]
    assert ran.statuses() == {"a": "failed", "b": "cancelled", "c": "cancelled"}


def test_a_failure_starts_nothing_in_the_room_that_it_leaves_under_a_label() -> None:
    tasks = [{"id": each, "labels": ["db"]} for each in "abc"]
    assert run(*tasks, bad=("a",), limits={"db": 1}).order == ["a"]


@pytest.mark.parametrize(
    ("container", "first"),
    [
        pytest.param({"subplan": [{"id": "x", "run": "x"}, {"id": "y", "run": "x"}]}, "c/x", id="a subplan"),
        pytest.param({"foreach": [1, 2], "run": "x {{ item }}"}, "c[0]", id="a fan-out"),
        pytest.param({"foreach": [1, 2], "subplan": [{"id": "x", "run": "x"}]}, "c[0]/x", id="a fan-out of subplans"),
        pytest.param({"loop": {"max": 1, "tasks": [{"id": "x", "run": "x"}]}}, "c#1/x", id="a loop"),
    ],
)
def test_a_failure_inside_a_container_starts_nothing_outside_it(container: dict[str, Any], first: str) -> None:
    tasks = ({"id": "before", "priority": 1}, {"id": "c", **container}, {"id": "b", "priority": -1})
    ran = rehearse(plan(*tasks, **ALONE), {first: [BAD]})
    acted = [name for name in ran.order if ran.state.index[name] not in ran.state.containers]
    assert acted == ["before", first]
    assert ran.statuses()["b"] == "cancelled"


def test_a_failure_lets_no_retry_that_is_due_begin() -> None:
    tasks = ({"id": "a"}, {"id": "z", "retry": {"attempts": 2, "delay": "1s", "backoff": "fixed", "on": ["transient"]}})
    slow = {"a": [BAD._replace(duration=2.0)], "z": [FLAKY, GOOD]}
    ran = rehearse(plan(*tasks), slow)
    assert ran.order == ["a", "z"]
    assert ran.statuses() == {"a": "failed", "z": "cancelled"}


def test_a_failure_starts_its_handler_and_under_continue_everything_else() -> None:
    tasks = ({"id": "a", "on_failure": "explain"}, {"id": "explain"}, {"id": "b"})
    assert run(*tasks, bad=("a",), **ALONE).order == ["a", "explain"]
    assert run(*tasks, bad=("a",), on_failure="continue", **ALONE).order == ["a", "explain", "b"]


def test_a_failure_that_is_allowed_or_tried_again_frees_its_slot_for_others() -> None:
    assert run({"id": "a", "allow_failure": True}, {"id": "b"}, bad=("a",), **ALONE).order == ["a", "b"]
    again = {"id": "a", "retry": {"attempts": 2, "delay": "5s", "on": ["transient"]}}
    assert rehearse(plan(again, {"id": "b"}, **ALONE), {"a": [FLAKY, GOOD]}).order == ["a", "b", "a"]


def test_a_failure_edge_runs_its_handler_and_the_run_still_fails() -> None:
    ran = run({"id": "a", "on_failure": "explain"}, {"id": "explain"}, {"id": "b", "needs": ["a"]}, bad=("a",))
    assert ran.statuses() == {"a": "failed", "explain": "completed", "b": "omitted"}
    assert ran.state.status == "failed"


def test_a_handler_is_omitted_when_nothing_failed() -> None:
    ran = run({"id": "a", "on_failure": "explain"}, {"id": "explain"})
    assert ran.statuses() == {"a": "completed", "explain": "omitted"}
    assert ran.state.status == "completed"


@pytest.mark.parametrize(
    ("tasks", "bad", "said"),
    [
        ([{"id": "a", "on_failure": "h"}], (), "`a` did not fail"),
        ([{"id": "a", "on_success": "h", "allow_failure": True}], ("a",), "`a` did not complete"),
        ([{"id": "a", "on_failure": "h"}, {"id": "b", "on_failure": "h"}], (), "neither `a` nor `b` failed"),
        ([{"id": name, "on_failure": "h"} for name in "abc"], (), "none of `a`, `b`, `c` failed"),
        ([{"id": "a", "next": [{"to": "h", "when": "run.seed == 8"}, {"to": "i", "else": True}]}, {"id": "i"}],
         (), "no edge from `a` was taken"),
    ],
)  # fmt: skip
def test_a_task_that_no_edge_led_to_says_in_words_why(
    tasks: list[dict[str, Any]], bad: tuple[str, ...], said: str
) -> None:
    edges = plan(*tasks, {"id": "h"}, on_failure="continue")
    outcomes = {task: [BAD] for task in bad}
    ran = rehearse(edges, outcomes)
    assert (ran.statuses()["h"], ran.state.tasks[ran.state.index["h"]].detail) == ("omitted", said)


def test_a_recovering_handler_stands_in_with_its_outputs() -> None:
    tasks = (
        {"id": "a", "on_failure": {"to": "mirror", "recovers": True}, "outputs": {"url": {"type": "string"}}},
        {"id": "mirror", "outputs": {"url": {"type": "string"}}},
        {"id": "b", "needs": ["a"], "when": "tasks.a.outputs.url == 'm'"},
    )
    ran = rehearse(plan(*tasks), {"a": [BAD], "mirror": [Outcome(outputs={"url": "m"}, duration=1.0)]})
    assert ran.statuses() == {"a": "failed", "mirror": "completed", "b": "completed"}
    assert ran.state.status == "completed"
    assert ran.state.tasks[0].recovered_by == "mirror"


def test_a_handler_that_fails_recovers_nothing() -> None:
    ran = run(
        {"id": "a", "on_failure": {"to": "mirror", "recovers": True}},
        {"id": "mirror"},
        {"id": "b", "needs": ["a"]},
        bad=("a", "mirror"),
    )
    assert ran.statuses() == {"a": "failed", "mirror": "failed", "b": "omitted"}
    assert ran.state.status == "failed"


def test_an_allowed_failure_lets_the_others_go_on_and_the_run_complete() -> None:
    ran = run({"id": "a", "allow_failure": True}, {"id": "b", "needs": ["a"]}, bad=("a",))
    assert ran.statuses() == {"a": "failed", "b": "completed"}
    assert ran.state.status == "completed"


@rows(
    ("join", "bad", "expected"),
    [
        ("all", (), "completed"),
        ("all", ("x",), "omitted"),
        ("any", ("x",), "completed"),
        ("any", ("x", "y", "z"), "omitted"),
        ({"at_least": 2}, ("x",), "completed"),
        ({"at_least": 2}, ("x", "y"), "omitted"),
        ("always", ("x", "y", "z"), "completed"),
        ("all_done", ("x",), "completed"),
        ("one_failed", ("y",), "completed"),
        ("one_failed", (), "omitted"),
        ("all_failed", ("x", "y", "z"), "completed"),
        ("all_failed", ("x", "y"), "omitted"),
        ("none_failed", (), "completed"),
        ("none_failed", ("z",), "omitted"),
    ],
)
def test_joins(join: Any, bad: tuple[str, ...], expected: str) -> None:
    ran = run(
        {"id": "x"}, {"id": "y"}, {"id": "z"}, {"id": "j", "needs": ["x", "y", "z"], "join": join},
        bad=bad, on_failure="continue",
    )  # fmt: skip
    assert ran.statuses()["j"] == expected


def test_an_any_join_does_not_wait_for_the_slow_ones() -> None:
    ran = rehearse(
        plan({"id": "quick"}, {"id": "slow"}, {"id": "j", "needs": ["quick", "slow"], "join": "any"}),
        {"slow": [Outcome(duration=1000.0)]},
    )
    started = ran.state.tasks[2].started
    assert started is not None
    assert started - ran.state.started_at < 10


def test_a_needs_expression_reads_results() -> None:
    tasks = ({"id": "test"}, {"id": "sign-off"}, {"id": "go", "needs": "test.ok and (sign-off.ok or sign-off.failed)"})
    assert run(*tasks, bad=("sign-off",), on_failure="continue").statuses()["go"] == "completed"
    assert run(*tasks, bad=("test",), on_failure="continue").statuses()["go"] == "omitted"


def test_tasks_called_as_names_of_the_plan_stand_in_expressions_over_results() -> None:
    tasks = (
        {"id": "plan", "allow_failure": True},
        {"id": "run"},
        {"id": "tasks"},
        {"id": "go", "needs": "plan.failed and run.status == 'completed' and tasks.ok and tasks.plan.done"},
        {"id": "stay", "needs": "plan.completed or run.failed"},
    )
    ran = rehearse(plan(*tasks), {"plan": [BAD]})
    assert (ran.statuses()["go"], ran.statuses()["stay"]) == ("completed", "omitted")


def test_a_false_when_skips_and_a_skip_omits_those_that_need_it() -> None:
    ran = run(
        {"id": "a", "when": "params.deploy"},
        {"id": "b", "needs": ["a"]},
        {"id": "c", "needs": ["a"], "join": "none_failed"},
        params={"deploy": {"type": "bool", "default": False}},
    )
    ran = rehearse(ran.state.plan, params={"deploy": False})
    assert ran.statuses() == {"a": "skipped", "b": "omitted", "c": "completed"}
    assert ran.state.status == "completed"


def test_retries_follow_the_class_and_are_all_recorded() -> None:
    task = {"id": "a", "retry": {"attempts": 3, "delay": "10s", "backoff": "fixed", "jitter": 0, "on": ["transient"]}}
    ran = rehearse(plan(task), {"a": [FLAKY, FLAKY, GOOD]})
    assert ran.order == ["a", "a", "a"]
    assert ran.state.status == "completed"
    assert ran.entries[-1].at - ran.entries[0].at == pytest.approx(23.0)
    assert rehearse(plan(task), {"a": [FLAKY, BAD]}).order == ["a", "a"]


def test_a_waiting_retry_holds_no_slot() -> None:
    tasks = (
        {"id": "a", "priority": "high", "retry": {"attempts": 2, "delay": "100s", "jitter": 0}},
        {"id": "b"},
    )
    ran = rehearse(plan(*tasks, max_parallel=1), {"a": [FLAKY, GOOD]})
    assert ran.order == ["a", "b", "a"]


def test_criteria_that_do_not_hold_fail_the_task_with_the_values_they_saw() -> None:
    ran = rehearse(
        plan({"id": "a", "expect": ["exit_code == 0", "duration < 10s"]}), {"a": [Outcome(exit_code=0, duration=60.0)]}
    )
    assert ran.statuses() == {"a": "failed"}
    assert "duration" in ran.state.tasks[0].detail
    assert "1m" in ran.state.tasks[0].detail


def test_a_criterion_about_the_exit_code_decides_what_it_means() -> None:
    ran = rehearse(plan({"id": "a", "expect": ["exit_code in [0, 1]"]}), {"a": [BAD]})
    assert ran.statuses() == {"a": "completed"}


def test_words_among_the_criteria_wait_for_a_person() -> None:
    ran = rehearse(plan({"id": "a", "expect": ["reads well"]}, {"id": "b", "needs": ["a"]}, {"id": "c"}))
    assert ran.statuses() == {"a": "blocked", "b": "pending", "c": "completed"}
    assert ran.state.status == "blocked"
    assert isinstance(ran.entries[-1].event, RunParked)


def test_a_failure_mode_names_the_class_and_routes_it() -> None:
    tasks = (
        {
            "id": "a",
            "failure_modes": [{"name": "no_disk", "detect": "stderr contains 'No space left'"}],
            "next": [{"on": "no_disk", "to": "clean"}, {"on": "success", "to": "go-on"}],
            "retry": {"attempts": 3, "on": ["transient"]},
        },
        {"id": "clean"},
        {"id": "go-on"},
    )
    ran = rehearse(
        plan(*tasks), {"a": [Outcome("logic", "exit code 1", exit_code=1, stderr="No space left on device")]}
    )
    assert ran.statuses() == {"a": "failed", "clean": "completed", "go-on": "omitted"}
    assert ran.state.tasks[0].failure == "no_disk"


@pytest.mark.parametrize(("system", "status"), [("linux", "completed"), ("darwin", "skipped")])
def test_when_reads_facts_before_the_start(system: str, status: str) -> None:
    task = {"id": "a", "run": "x", "when": 'host.os == "linux"', "preconditions": ["network.online"]}
    ran = rehearse(plan(task), facts={"host.os": system, "network.online": True})
    assert ran.statuses() == {"a": status}


def test_preconditions_read_facts_before_the_start() -> None:
    task = {"id": "a", "preconditions": ["disk.free >= 50MB", "network.online == true"]}
    met = rehearse(plan(task), facts={"disk.free": 60_000_000, "network.online": True})
    assert met.statuses() == {"a": "completed"}
    unmet = rehearse(plan(task), facts={"disk.free": 10_000_000, "network.online": True})
    assert unmet.statuses() == {"a": "failed"}
    assert unmet.order == []
    assert unmet.state.tasks[0].failure == "precondition"


def test_finally_runs_last_whatever_happened_and_heals_nothing() -> None:
    ran = run({"id": "a"}, bad=("a",), **{"finally": [{"id": "tidy", "run": "rm -r x"}]})
    assert ran.order == ["a", "tidy"]
    assert ran.statuses() == {"a": "failed", "tidy": "completed"}
    assert ran.state.status == "failed"


def test_a_failing_finally_fails_a_run_that_went_well() -> None:
    ran = run({"id": "a"}, bad=("tidy",), **{"finally": [{"id": "tidy", "run": "rm -r x"}]})
    assert ran.state.status == "failed"


def test_priorities_decide_who_gets_a_slot_and_the_text_decides_ties() -> None:
    ran = run(
        {"id": "low", "priority": "low"}, {"id": "n1"}, {"id": "n2"}, {"id": "high", "priority": "high"}, max_parallel=1
    )
    assert ran.order == ["high", "n1", "n2", "low"]


def test_a_label_limit_holds_back_its_tasks_and_nobody_else() -> None:
    tasks = [{"id": f"db{number}", "labels": ["db"]} for number in range(4)] + [
        {"id": f"x{number}"} for number in range(2)
    ]
    ran = run(*tasks, limits={"db": 1}, max_parallel=5)
    assert ran.order[:3] == ["db0", "x0", "x1"]
    starts = [found.started for found in ran.state.tasks[:4] if found.started is not None]
    assert len(set(starts)) == 4


def test_a_used_up_time_budget_stops_the_run_but_not_its_finally() -> None:
    ran = rehearse(
        plan(
            {"id": "a"},
            {"id": "b", "needs": ["a"]},
            budgets={"time": "30s"},
            **{"finally": [{"id": "tidy", "run": "x"}]},
        ),
        {"a": [Outcome(duration=100.0)]},
    )
    assert ran.statuses() == {"a": "cancelled", "b": "cancelled", "tidy": "completed"}
    assert (ran.state.status, ran.state.reason) == ("failed", "budget")


def test_only_selected_tasks_run_and_the_others_count_as_done() -> None:
    ran = rehearse(plan({"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c"}), started={"selected": ("b",)})
    assert ran.order == ["b"]
    assert ran.statuses() == {"a": "skipped", "b": "completed", "c": "skipped"}
    assert ran.state.status == "completed"


def test_a_handler_that_needs_what_it_should_recover_does_not_hang_the_run() -> None:
    chained = plan({"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "h", "needs": ["b"]}, on_failure="continue")
    edge = plan({"id": "a", "on_failure": {"to": "h", "recovers": True}}, {"id": "h"}).tasks[0].edges
    tasks = (chained.tasks[0]._replace(edges=edge), *chained.tasks[1:])
    ran = rehearse(chained._replace(tasks=tasks), {"a": [BAD]})
    assert ran.statuses() == {"a": "failed", "b": "omitted", "h": "omitted"}


def test_a_conditional_edge_fires_on_the_outputs_of_its_task() -> None:
    tasks = (
        {"id": "a", "outputs": {"n": {"type": "int"}}, "on_success": {"to": "many", "when": "outputs.n > 3"}},
        {"id": "many"},
    )
    assert rehearse(plan(*tasks), {"a": [Outcome(outputs={"n": 5})]}).statuses()["many"] == "completed"
    assert rehearse(plan(*tasks), {"a": [Outcome(outputs={"n": 1})]}).statuses()["many"] == "omitted"


def test_a_task_is_settled_once_and_every_decision_has_an_event() -> None:
    ran = run({"id": "a"}, {"id": "b", "needs": ["a"]}, bad=("a",))
    settled = [entry.event.task for entry in ran.entries if isinstance(entry.event, TaskSettled)]
    assert sorted(settled) == ["a", "b"]


def test_why_tells_how_each_attempt_ended() -> None:
    ran = rehearse(plan({"id": "a", "retry": {"attempts": 3, "delay": "1s"}}), {"a": [FLAKY, GOOD]})
    assert why(ran.state, "a")[-2:] == [
        "attempt 1 of 3 failed after 1.0 s (transient): try later",
        "attempt 2 of 3 succeeded after 1.0 s",
    ]


def test_why_tells_a_criterion_that_failed_from_an_attempt_that_did() -> None:
    ran = rehearse(
        plan({"id": "a", "expect": ["exit_code == 1"], "retry": {"attempts": 2, "delay": "1s"}}), {"a": [GOOD]}
    )
    assert [line for line in why(ran.state, "a") if line.startswith("attempt")] == [
        "attempt 1 of 2 exited 0, but a criterion failed",
        "attempt 2 of 2 exited 0, but a criterion failed",
    ]
    judged = rehearse(plan({"id": "a", "expect": ["exit_code == 1"]}), {"a": [BAD]})
    assert why(judged.state, "a")[-1] == "attempt 1 of 1 exited 1, as its criteria allow"


def test_a_task_takes_no_longer_than_somebody_acted_on_its_run() -> None:
    ran = rehearse(plan({"id": "a"}))
    entries = [entry for entry in ran.entries if type(entry.event).__name__ in ("RunStarted", "AttemptStarted")]
    state = fold(ran.state.plan, RUN_ID, entries)
    start = entries[-1].at
    evolve(state, RunResumed(2, idle=3600.0), start + 3600.0)
    assert elapsed(state.tasks[0], start + 3605.0) == pytest.approx(5.0)


def test_why_names_the_need_that_failed_and_the_edge_that_did_not_fire() -> None:
    ran = run({"id": "a", "on_success": "h"}, {"id": "b", "needs": ["a"]}, {"id": "h"}, bad=("a",))
    told = "\n".join(why(ran.state, "b"))
    assert "`b` did not run" in told
    assert "`a`, which failed" in told
    told = "\n".join(why(ran.state, "h"))
    assert "on success of `a`: did not fire" in told


def test_an_output_with_a_value_is_filled_in_from_the_outcome() -> None:
    tasks = (
        {"id": "a", "outputs": {"first": {"value": "{{ stdout }}!"}}, "expect": ["tasks.a.outputs.first == 'hi!'"]},
        {"id": "b", "needs": ["a"], "when": "tasks.a.outputs.first == 'hi!'"},
    )
    ran = rehearse(plan(*tasks), {"a": [Outcome(exit_code=0, stdout="hi")]})
    assert ran.statuses() == {"a": "completed", "b": "completed"}
    assert ran.state.tasks[0].outputs == {"first": "hi!"}


def test_an_output_whose_value_is_missing_fails_its_task() -> None:
    task = {"id": "a", "outputs": {"first": {"value": "{{ params.m.nothing }}"}}}
    ran = rehearse(plan(task, params={"m": {"type": "map", "default": {}}}), params={"m": {}})
    assert ran.statuses() == {"a": "failed"}
    assert "an output has no value" in ran.state.tasks[0].detail


def test_a_question_shows_its_values() -> None:
    tasks = ({"id": "ok", "gate": "approval", "ask": "Ship {{ params.ref }}?"},)
    ran = rehearse(plan(*tasks, params={"ref": {"type": "string", "default": "HEAD"}}), params={"ref": "v2"})
    assert ran.state.tasks[0].detail == "Ship v2?"


def test_selecting_a_task_brings_what_it_waits_for_and_the_handlers_of_all_that() -> None:
    document = plan(
        {"id": "a", "on_failure": {"to": "spare", "recovers": True}},
        {"id": "spare"},
        {"id": "b", "needs": ["a"]},
        {"id": "other"},
    )
    assert select(document, (), ("b",)) == ("a", "spare", "b")
    assert select(document, ("b",), ()) == ("b",)
    assert select(document, (), ()) is None
