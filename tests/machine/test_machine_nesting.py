"""Tasks that hold others: fan-out, loops, subplans, and everything inside everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from simulator.rehearsal import Rehearsal, rehearse
from workbench import plan

from planrunner.machine.events import AttemptEnded, AttemptStarted, FrameOpened, Outcome
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
FLAKY = Outcome("transient", "try later", duration=1.0)


def given(**values: Any) -> Outcome:
    return Outcome(outputs=values, exit_code=0, duration=1.0)


def running_at_once(ran: Rehearsal) -> int:
    most = now = 0
    for entry in ran.entries:
        event = entry.event
        if type(event) is AttemptStarted and ran.state.index[event.task] not in ran.state.containers:
            now += 1
            most = max(most, now)
        elif type(event).__name__ == "AttemptEnded" and ran.state.index[event.task] not in ran.state.containers:
            now -= 1
    return most


# Fan-out


def test_a_fan_out_runs_each_item_and_gives_results_in_order() -> None:
    fan = {"id": "fan", "run": "work", "foreach": ["a", "b", "c"], "outputs": {"size": "int"}}
    use = {
        "id": "use",
        "needs": ["fan"],
        "run": "echo {{ tasks.fan.outputs.size }}",
        "when": "tasks.fan.items[1].item == 'b'",
    }
    outcomes = {f"fan[{n}]": [Outcome(outputs={"size": n}, exit_code=0, duration=3.0 - n)] for n in range(3)}
    ran = rehearse(plan(fan, use), outcomes)
    assert ran.statuses() == {
        "fan": "completed",
        "use": "completed",
        "fan[0]": "completed",
        "fan[1]": "completed",
        "fan[2]": "completed",
    }
    assert ran.state.tasks[0].outputs == {"size": [0, 1, 2]}


def test_a_fan_out_over_data_of_another_task() -> None:
    find = {"id": "find", "run": "work", "outputs": {"gaps": "list"}}
    fan = {"id": "dive", "run": "dig {{ item }} {{ index }}", "foreach": "tasks.find.outputs.gaps", "needs": ["find"]}
    ran = rehearse(plan(find, fan), {"find": [given(gaps=["x", "y"])]})
    assert ran.state.status == "completed"
    opened = [entry.event for entry in ran.entries if isinstance(entry.event, FrameOpened)]
    assert opened[0].values == ["x", "y"]


def test_a_fan_out_over_nothing_completes_at_once() -> None:
    ran = rehearse(plan({"id": "fan", "run": "work", "foreach": []}, {"id": "after", "run": "work", "needs": ["fan"]}))
    assert ran.statuses() == {"fan": "completed", "after": "completed"}


def test_a_fan_out_over_something_that_is_no_list_fails() -> None:
    ran = rehearse(
        plan({"id": "fan", "run": "work", "foreach": "params.x"}, params={"x": {"default": 3, "type": "any"}}),
        params={"x": 3},
    )
    assert ran.statuses() == {"fan": "failed"}
    assert "takes a list" in ran.state.tasks[0].detail


def test_only_so_many_items_run_at_once() -> None:
    ran = rehearse(plan({"id": "fan", "run": "work", "foreach": list(range(7)), "max_parallel": 2}))
    assert ran.state.status == "completed"
    assert running_at_once(ran) == 2


def test_a_failed_item_stops_those_that_have_not_begun() -> None:
    ran = rehearse(plan({"id": "fan", "run": "work", "foreach": [1, 2, 3], "max_parallel": 1}), {"fan[0]": [BAD]})
    assert ran.statuses() == {"fan": "failed", "fan[0]": "failed", "fan[1]": "cancelled", "fan[2]": "cancelled"}
    assert "1 of 3 items failed, the first is `fan[0]`" in ran.state.tasks[0].detail


def test_tolerated_failures_let_the_fan_out_complete() -> None:
    tasks = {"id": "fan", "run": "work", "foreach": [1, 2, 3, 4], "max_parallel": 1, "tolerate": "50%"}
    ran = rehearse(plan(tasks), {"fan[0]": [BAD], "fan[2]": [BAD]})
    assert ran.statuses()["fan"] == "completed"
    assert ran.state.status == "completed"
    more = rehearse(plan(tasks), {"fan[0]": [BAD], "fan[1]": [BAD], "fan[2]": [BAD]})
    assert more.statuses() == {
        "fan": "failed",
        "fan[0]": "failed",
        "fan[1]": "failed",
        "fan[2]": "failed",
        "fan[3]": "cancelled",
    }


def test_an_item_is_tried_again_alone() -> None:
    ran = rehearse(plan({"id": "fan", "run": "work", "foreach": [1, 2], "retry": 2}), {"fan[1]": [FLAKY, given()]})
    assert ran.state.status == "completed"
    assert ran.order.count("fan[1]") == 2
    assert ran.order.count("fan[0]") == 1


def test_a_condition_that_reads_the_item_is_asked_for_each() -> None:
    ran = rehearse(plan({"id": "fan", "run": "work", "foreach": [1, 2, 3], "when": "item != 2"}))
    assert [ran.statuses()[f"fan[{n}]"] for n in range(3)] == ["completed", "skipped", "completed"]
    assert ran.state.status == "completed"


def test_a_matrix_makes_every_combination() -> None:
    matrix = {
        "os": ["linux", "mac"],
        "py": [11, 12],
        "exclude": [{"os": "mac", "py": 11}],
        "include": [{"os": "bsd", "py": 12}],
    }
    ran = rehearse(plan({"id": "t", "run": "test {{ matrix.os }} {{ matrix.py }}", "matrix": matrix}))
    opened = [entry.event for entry in ran.entries if isinstance(entry.event, FrameOpened)]
    assert opened[0].values == [
        {"os": "linux", "py": 11},
        {"os": "linux", "py": 12},
        {"os": "mac", "py": 12},
        {"os": "bsd", "py": 12},
    ]
    assert ran.state.status == "completed"


def test_a_family_has_members_with_numbers() -> None:
    ran = rehearse(plan({"id": "dive-*", "run": "work", "foreach": ["x", "y"]}))
    assert ran.statuses() == {"dive-*": "completed", "dive-1": "completed", "dive-2": "completed"}


# Loops


def polish(**keys: Any) -> dict[str, Any]:
    return {
        "id": "polish",
        "loop": {
            "max": 3,
            "until": "tasks.review.outputs.score >= 8",
            "tasks": [
                {"id": "draft", "run": "write {{ carry.text }}", "outputs": {"text": "string"}},
                {"id": "review", "run": "review", "needs": ["draft"], "outputs": {"score": "int"}},
            ],
            "carry": {"text": {"first": "start", "next": "{{ tasks.draft.outputs.text }}"}},
        },
        "outputs": {"text": {"value": "{{ tasks.draft.outputs.text }}"}},
        **keys,
    }


def test_a_loop_goes_on_until_its_condition_holds() -> None:
    outcomes = {
        "polish#1/draft": [given(text="one")],
        "polish#1/review": [given(score=3)],
        "polish#2/draft": [given(text="two")],
        "polish#2/review": [given(score=9)],
    }
    ran = rehearse(plan(polish()), outcomes)
    assert ran.state.status == "completed"
    assert ran.order == ["polish", "polish#1/draft", "polish#1/review", "polish#2/draft", "polish#2/review"]
    assert ran.state.tasks[0].outputs == {"text": "two", "rounds": 2}
    rounds = [entry.event for entry in ran.entries if isinstance(entry.event, FrameOpened)]
    assert [(event.number, event.values) for event in rounds] == [(1, {"text": "start"}), (2, {"text": "one"})]


def test_a_loop_that_never_gets_there_fails_after_its_rounds() -> None:
    ran = rehearse(
        plan(polish()),
        {f"polish#{n}/review": [given(score=n)] for n in (1, 2, 3)}
        | {f"polish#{n}/draft": [given(text="x")] for n in (1, 2, 3)},
    )
    assert ran.statuses()["polish"] == "failed"
    assert ran.state.tasks[0].failure == "exhausted"
    assert "polish#4/draft" not in ran.statuses()


def test_a_failure_that_until_asks_about_is_the_loops_to_deal_with() -> None:
    loop = {"id": "fix", "loop": {"max": 5, "until": "tasks.test.ok", "tasks": [{"id": "test", "run": "pytest"}]}}
    ran = rehearse(plan(loop), {"fix#1/test": [BAD], "fix#2/test": [BAD]})
    assert ran.state.status == "completed"
    assert ran.statuses() == {
        "fix": "completed",
        "fix#1/test": "failed",
        "fix#2/test": "failed",
        "fix#3/test": "completed",
    }


def test_any_other_failure_ends_the_loop() -> None:
    tasks = [{"id": "code", "run": "write"}, {"id": "test", "run": "pytest", "needs": ["code"]}]
    loop = {"id": "fix", "loop": {"max": 5, "until": "tasks.test.ok", "tasks": tasks}}
    ran = rehearse(plan(loop), {"fix#1/code": [BAD]})
    assert ran.statuses()["fix"] == "failed"
    assert "round 1: `fix#1/code` failed" in ran.state.tasks[0].detail


# Subplans


def build(**keys: Any) -> dict[str, Any]:
    steps = [
        {"id": "compile", "run": "make", "outputs": {"path": "string"}},
        {"id": "pack", "run": "pack {{ tasks.compile.outputs.path }}", "needs": ["compile"]},
    ]
    return {"id": "build", "subplan": steps, "outputs": {"path": {"value": "{{ tasks.compile.outputs.path }}"}}, **keys}


def test_a_subplan_runs_its_steps_and_gives_its_outputs() -> None:
    use = {"id": "use", "needs": ["build"], "run": "x", "when": "tasks.build.outputs.path == 'out'"}
    ran = rehearse(plan(build(), use), {"build/compile": [given(path="out")]})
    assert ran.statuses() == {
        "build": "completed",
        "use": "completed",
        "build/compile": "completed",
        "build/pack": "completed",
    }


def test_a_subplan_that_fails_can_be_tried_again_as_a_whole() -> None:
    ran = rehearse(plan(build(retry=2)), {"build/compile": [BAD], "build@2/compile": [given(path="out")]})
    assert ran.state.status == "completed"
    assert ran.statuses()["build/pack"] == "omitted"
    assert ran.statuses()["build@2/pack"] == "completed"


def test_a_failing_run_starts_nothing_new_inside_a_subplan() -> None:
    slow = {"id": "sub", "subplan": [{"id": "a", "run": "x"}, {"id": "b", "run": "x", "needs": ["a"]}]}
    ran = rehearse(plan(slow, {"id": "bad", "run": "x"}), {"bad": [BAD], "sub/a": [Outcome(exit_code=0, duration=9.0)]})
    assert ran.statuses() == {"sub": "cancelled", "bad": "failed", "sub/a": "completed", "sub/b": "cancelled"}


def test_a_subplan_that_runs_out_of_time_is_stopped_inside() -> None:
    steps = [{"id": "a", "run": "x"}, {"id": "b", "run": "x", "needs": ["a"]}]
    ran = rehearse(
        plan({"id": "sub", "subplan": steps, "timeout": "10s"}), {"sub/a": [Outcome(exit_code=0, duration=60.0)]}
    )
    assert ran.statuses() == {"sub": "failed", "sub/a": "cancelled", "sub/b": "cancelled"}
    assert ran.state.tasks[0].failure == "timeout"
    assert ran.entries[-1].at - ran.entries[0].at < 12


# Everything in everything


def test_a_gate_in_a_fan_out_in_a_subplan_in_a_loop_waits_for_each_branch_alone() -> None:
    sign = {"id": "sign", "gate": "approval", "needs": ["make"], "ask": "ok?"}
    inner = [{"id": "make", "run": "x"}, sign, {"id": "ship", "run": "x", "needs": ["sign"]}]
    each = {"id": "each", "foreach": [1, 2], "subplan": inner}
    loop = {"id": "loop", "loop": {"max": 2, "tasks": [{"id": "part", "subplan": [each]}]}}
    ran = rehearse(plan(loop))
    assert ran.state.status == "blocked"
    waiting = [name for name, status in ran.statuses().items() if status == "blocked"]
    assert waiting == ["loop#1/part/each[0]/sign", "loop#1/part/each[1]/sign"]


def test_inner_tasks_read_those_around_them() -> None:
    outer = {"id": "outer", "run": "x", "outputs": {"v": "int"}}
    inner = {
        "id": "in",
        "run": "echo {{ tasks.outer.outputs.v }}",
        "when": "tasks.outer.outputs.v == 7 and item == 'a'",
    }
    ran = rehearse(
        plan(outer, {"id": "fan", "needs": ["outer"], "foreach": ["a"], "subplan": [inner]}), {"outer": [given(v=7)]}
    )
    assert ran.statuses()["fan[0]/in"] == "completed"


# Rework by edges


def test_a_failed_task_sends_back_to_an_earlier_one() -> None:
    tasks = (
        {"id": "code", "run": "write {{ rework.comment }}"},
        {"id": "test", "run": "pytest", "needs": ["code"], "on_failure": {"rework": "code", "max": 2}},
        {"id": "ship", "run": "ship", "needs": ["test"]},
    )
    ran = rehearse(plan(*tasks), {"test": [BAD, BAD, Outcome(exit_code=0, duration=1.0)]})
    assert ran.order == ["code", "test", "code", "test", "code", "test", "ship"]
    assert ran.state.status == "completed"
    worse = rehearse(plan(*tasks), {"test": [BAD]})
    assert worse.order == ["code", "test"] * 3
    assert worse.statuses() == {"code": "completed", "test": "failed", "ship": "omitted"}


def test_what_runs_beside_ends_before_the_tasks_begin_anew() -> None:
    tasks = (
        {"id": "code", "run": "write"},
        {"id": "test", "run": "pytest", "needs": ["code"], "on_failure": {"rework": "code", "max": 1}},
        {"id": "docs", "run": "docs", "needs": ["code"]},
        {"id": "more", "run": "docs", "needs": ["docs"]},
    )
    ran = rehearse(plan(*tasks), {"test": [BAD, Outcome(exit_code=0)], "docs": [Outcome(exit_code=0, duration=50.0)]})
    assert ran.state.status == "completed"
    assert ran.order == ["code", "test", "docs", "code", "test", "docs", "more"]


def scored(*scores: int) -> list[Outcome]:
    return [given(score=score) for score in scores]


WRITE = {"id": "write", "run": "write {{ rework.comment }}"}
SHIP = {"id": "ship", "run": "ship", "needs": ["review"]}


def reviewed(on: str, **keys: Any) -> Plan:
    back = {"on": on, "rework": "write", "max": 2, "when": "outputs.score < 8", **keys}
    review = {"id": "review", "run": "look", "needs": ["write"], "outputs": {"score": "int"}, "next": [back]}
    return plan(WRITE, review, SHIP)


@pytest.mark.parametrize("on", ["success", "always"])
def test_a_task_that_went_well_sends_back_while_its_condition_holds(on: str) -> None:
    ran = rehearse(reviewed(on), {"review": scored(5, 8)})
    assert ran.order == ["write", "review"] * 2 + ["ship"]
    assert ran.state.status == "completed"
    assert ran.state.tasks[0].rework == {
        "comment": "`outputs.score < 8` is true",
        "by": "",
        "from": "review",
        "round": 1,
    }


def test_a_task_that_went_well_completes_when_it_has_no_rounds_left() -> None:
    ran = rehearse(reviewed("success"), {"review": scored(5)})
    assert ran.order == ["write", "review"] * 3 + ["ship"]
    assert ran.statuses() == {"write": "completed", "review": "completed", "ship": "completed"}


def test_an_edge_back_from_success_does_not_count_for_a_failure() -> None:
    ran = rehearse(reviewed("success"), {"review": [BAD]})
    assert ran.order == ["write", "review"]
    assert ran.state.status == "failed"


def test_a_container_that_went_well_sends_back_too() -> None:
    steps = [{"id": "look", "run": "x", "outputs": {"score": "int"}}]
    back = {"on": "success", "rework": "write", "max": 3, "when": "outputs.score < 8"}
    outputs = {"score": "{{ tasks.look.outputs.score }}"}
    review = {"id": "review", "needs": ["write"], "subplan": steps, "outputs": outputs, "next": [back]}
    ran = rehearse(plan(WRITE, review, SHIP), {"review/look": scored(3), "review@2/look": scored(9)})
    acted = [name for name in ran.order if name != "review"]
    assert acted == ["write", "review/look", "write", "review@2/look", "ship"]


def test_a_task_that_went_well_sends_nothing_back_while_its_level_fails() -> None:
    tasks = (*reviewed("success").tasks, plan({"id": "other", "run": "x"}).tasks[0])
    ran = rehearse(reviewed("success")._replace(tasks=tasks), {"other": [BAD], "review": scored(5)})
    assert ran.order == ["write", "other"]
    slow = {"other": [BAD._replace(duration=1.5)], "review": scored(5)}
    ran = rehearse(reviewed("success")._replace(tasks=tasks), slow)
    assert ran.order == ["write", "other", "review"]
    assert ran.statuses() == {"write": "completed", "review": "completed", "ship": "cancelled", "other": "failed"}


# Linked plans


def linked(tmp_path: Path, **keys: Any) -> Plan:
    tasks = [{"id": f"t{n}", "run": "x", "labels": ["db"] if n < 4 else []} for n in range(6)]
    (tmp_path / "part.yaml").write_text(
        json.dumps({"plan": "part", "defaults": {"timeout": "1h"}, "tasks": tasks, **keys})
    )
    outer = {
        "plan": "p",
        "max_parallel": 20,
        "tasks": [{"id": "one", "subplan": "part.yaml"}, {"id": "two", "subplan": "part.yaml"}],
    }
    path = tmp_path / "outer.json"
    path.write_text(json.dumps(outer))
    loaded = load(Source(path.read_text(), str(path), "json"), Registry())
    assert loaded.plan is not None, [finding.message for finding in loaded.findings]
    return loaded.plan


def most_at_once(ran: Rehearsal, *prefixes: str) -> int:
    most = now = 0
    for entry in ran.entries:
        event = entry.event
        if isinstance(event, (AttemptStarted, AttemptEnded)) and event.task.startswith(prefixes):
            now += 1 if isinstance(event, AttemptStarted) else -1
            most = max(most, now)
    return most


def test_a_linked_plan_brings_its_own_limits(tmp_path: Path) -> None:
    free = rehearse(linked(tmp_path))
    assert (most_at_once(free, "one/"), most_at_once(free, "one/", "two/")) == (6, 12)
    narrow = rehearse(linked(tmp_path, max_parallel=2))
    assert (most_at_once(narrow, "one/"), most_at_once(narrow, "two/"), most_at_once(narrow, "one/", "two/")) == (
        2,
        2,
        4,
    )
    labelled = rehearse(linked(tmp_path, limits={"db": 1}))
    held = tuple(f"one/t{n}" for n in range(4))
    assert (most_at_once(labelled, *held), most_at_once(labelled, "one/")) == (1, 3)


def test_the_limits_of_a_linked_plan_hold_in_the_plans_that_it_links(tmp_path: Path) -> None:
    inner = {"defaults": {"timeout": "1h"}, "tasks": [{"id": f"n{n}", "run": "x", "labels": ["db"]} for n in range(3)]}
    more = {"subplans": {"own": inner}, "tasks": [{"id": "in", "subplan": "own"}]}
    ran = rehearse(linked(tmp_path, **{**more, "limits": {"db": 1}}))
    assert most_at_once(ran, "one/in/") == 1


def test_a_fan_out_over_nothing_gives_empty_lists() -> None:
    fan = {"id": "fan", "run": "x {{ item }}", "foreach": "params.xs", "outputs": {"v": "int"}}
    use = {"id": "use", "needs": ["fan"], "run": "x {{ item }}", "foreach": "tasks.fan.outputs.v"}
    ran = rehearse(plan(fan, use, params={"xs": {"type": "list", "default": []}}), params={"xs": []})
    assert ran.statuses() == {"fan": "completed", "use": "completed"}
    assert ran.state.tasks[0].outputs == {"v": []}
