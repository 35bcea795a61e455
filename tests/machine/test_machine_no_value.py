"""What has no value fails what it belongs to: no run with such an expression ends as completed."""

from __future__ import annotations

from typing import Any

import pytest
import workbench
from rows import rows
from simulator.rehearsal import Rehearsal, rehearse

from planrunner.app.proof.lives import RUN_ID
from planrunner.machine.events import Outcome
from planrunner.machine.evolve import fold
from planrunner.machine.explain import why
from planrunner.plan.model import Plan

GOOD = Outcome(exit_code=0, outputs={"j": {"n": 1}})
BAD = Outcome("logic", "exit code 1", exit_code=1, outputs={"j": {"n": 1}})
NOTHING = "outputs.j.missing > 3"
ABSENT = "{{ tasks.a.outputs.j.missing }}"
NO_WORK = {"ask", "command", "gate", "loop", "options"}


def plan(*tasks: dict[str, Any], **keys: Any) -> Plan:
    filled = [task if task.keys() & NO_WORK else {"run": "work", "outputs": {"j": "any"}, **task} for task in tasks]
    return workbench.plan(*filled, **{"defaults": {"timeout": "1h"}, **keys})


def run(*tasks: dict[str, Any], bad: tuple[str, ...] = (), **keys: Any) -> Rehearsal:
    script = {str(task["id"]): [BAD if task["id"] in bad else GOOD] for task in tasks}
    return rehearse(plan(*tasks, **keys), script)


def test_two_opposite_conditions_without_a_value_fail_the_task_that_they_lead_from() -> None:
    edges = [{"to": "x", "when": NOTHING}, {"to": "y", "when": f"not ({NOTHING})"}]
    ran = run({"id": "a", "next": edges}, {"id": "x"}, {"id": "y"})
    assert ran.statuses() == {"a": "failed", "x": "omitted", "y": "omitted"}
    assert (ran.state.status, ran.state.tasks[0].reason) == ("failed", "edge")
    said = "\n".join(why(ran.state, "a"))
    assert f"`{NOTHING}`, the condition of its edge to `x`, has no value" in said
    assert "has no `missing`" in said


@pytest.mark.parametrize("key", ["on_success", "next"])
def test_an_allowed_failure_does_not_cover_an_edge_without_a_value(key: str) -> None:
    ran = run({"id": "a", "allow_failure": True, key: {"to": "x", "when": NOTHING}}, {"id": "x"})
    assert (ran.state.status, ran.statuses()["x"]) == ("failed", "omitted")


@pytest.mark.parametrize("handled", [{"allow_failure": True}, {}])
def test_a_handler_whose_condition_has_no_value_fails_the_run(handled: dict[str, Any]) -> None:
    edge = {"to": "x", "when": NOTHING, **({} if handled else {"recovers": True})}
    ran = run({"id": "a", "on_failure": edge, **handled}, {"id": "x"}, bad=("a",))
    assert (ran.state.status, ran.statuses()["x"]) == ("failed", "omitted")
    assert ran.state.tasks[0].detail.startswith("exit code 1; ")


def test_the_handler_of_a_task_whose_edge_has_no_value_still_starts() -> None:
    edges = {"next": [{"to": "x", "when": NOTHING}], "on_failure": "h"}
    ran = run({"id": "a", **edges}, {"id": "x"}, {"id": "h"})
    assert ran.statuses() == {"a": "failed", "x": "omitted", "h": "completed"}
    assert ran.state.status == "failed"


def test_an_edge_back_without_a_value_fails_its_task() -> None:
    back = {"rework": "a", "max": 2, "when": NOTHING}
    ran = run({"id": "a"}, {"id": "b", "needs": ["a"], "next": [back]})
    assert ran.statuses() == {"a": "completed", "b": "failed"}


def test_a_detector_without_a_value_fails_the_attempt() -> None:
    ran = run({"id": "a", "failure_modes": [{"name": "broken", "detect": NOTHING}]})
    assert (ran.state.status, ran.state.tasks[0].failure) == ("failed", "logic")
    assert "which detects `broken`, has no value" in ran.state.tasks[0].detail


def test_a_detector_without_a_value_leaves_a_later_one_its_say() -> None:
    modes = [{"name": "broken", "detect": NOTHING}, {"name": "one", "detect": "exit_code == 1"}]
    ran = run({"id": "a", "failure_modes": modes}, bad=("a",))
    assert ran.state.tasks[0].failure == "one"


def test_needs_without_a_value_fail_the_task() -> None:
    ran = run({"id": "a"}, {"id": "b", "needs": "tasks.a.outputs.j.missing > 3"})
    assert (ran.statuses()["b"], ran.state.status) == ("failed", "failed")


def test_an_output_of_the_plan_without_a_value_fails_the_run() -> None:
    keys = {"outputs": {"n": "{{ tasks.a.outputs.j.n }}", "o": "{{ tasks.a.outputs.j.missing }}"}}
    ran = run({"id": "a"}, **keys)
    assert (ran.state.status, ran.state.reason, ran.state.outputs) == ("failed", "outputs", {"n": 1, "o": None})
    assert "the output `o` of the plan has no value" in ran.state.detail
    again = fold(ran.state.plan, RUN_ID, ran.entries)
    assert (again.status, again.detail) == (ran.state.status, ran.state.detail)


def test_an_output_of_a_task_that_was_not_reached_is_null() -> None:
    ran = run({"id": "a", "when": "1 == 2"}, outputs={"n": "{{ tasks.a.outputs.j.n }}"})
    assert (ran.state.status, ran.state.outputs) == ("completed", {"n": None})


def test_an_output_of_a_failed_plan_is_not_told_beside_what_failed() -> None:
    ran = run({"id": "a"}, bad=("a",), outputs={"o": "{{ tasks.a.outputs.j.missing }}"})
    assert (ran.state.status, ran.state.detail) == ("failed", "")


@rows(
    ("key", "gate"),
    [
        ("ask", {"ask": f"ship {ABSENT}?"}),
        ("evidence", {"gate": "approval", "evidence": [f"{ABSENT}.txt"]}),
        ("options", {"ask": "which?", "gate": "decision", "options": [{"id": "x", "pros": [ABSENT]}, {"id": "y"}]}),
        ("options: " + ABSENT[3:-3], {"ask": "which?", "gate": "decision", "options": ABSENT[3:-3]}),
        ("form", {"ask": "how many?", "form": {"n": {"type": "any", "default": ABSENT}}}),
        ("command", {"command": f"Write down {ABSENT}"}),
    ],
)
def test_a_question_without_a_value_is_not_asked_and_fails_its_task(key: str, gate: dict[str, Any]) -> None:
    ran = run({"id": "a"}, {"id": "b", "needs": ["a"], **gate})
    found = ran.state.tasks[1]
    assert (ran.state.status, found.status, found.reason, found.failure) == ("failed", "failed", "question", "logic")
    assert f"`{key}` has no value: " in found.detail
    assert "has no `missing`" in found.detail


def test_a_question_that_a_label_demands_fails_its_task_where_it_has_no_value() -> None:
    gates = {"release": {"ask": f"ship {ABSENT}?"}}
    ran = run({"id": "a"}, {"id": "b", "needs": ["a"], "labels": ["release"]}, policy={"gates": gates})
    assert (ran.statuses()["b"], ran.order) == ("failed", ["a"])


def test_a_pattern_of_fresh_without_a_value_fails_the_task() -> None:
    ran = run({"id": "a"}, {"id": "b", "needs": ["a"], "fresh": {"inputs": [ABSENT]}})
    assert (ran.statuses()["b"], ran.order) == ("failed", ["a"])
    assert "`fresh`: a pattern has no value" in ran.state.tasks[1].detail


def test_what_a_loop_would_carry_on_from_its_last_round_needs_a_value() -> None:
    body = [{"id": "w", "run": "work", "outputs": {"j": "any"}}]
    loop = {"max": 1, "tasks": body, "carry": {"n": "{{ tasks.w.outputs.j.missing }}"}}
    ran = rehearse(plan({"id": "a", "loop": loop}), {"a#1/w": [GOOD]})
    assert ran.statuses()["a"] == "failed"
    assert "has no `missing`" in ran.state.tasks[0].detail


def test_what_a_loop_carries_stays_where_the_last_round_did_not_reach_what_gives_it() -> None:
    body = [{"id": "w", "run": "work", "outputs": {"j": "any"}, "when": "loop.round == 1"}]
    loop = {"max": 2, "tasks": body, "carry": {"n": {"first": 0, "next": "{{ tasks.w.outputs.j.n }}"}}}
    ran = rehearse(plan({"id": "a", "loop": loop}), {"a#1/w": [GOOD]})
    assert (ran.statuses()["a"], ran.state.tasks[0].outputs["n"]) == ("completed", 1)


def test_an_edge_back_for_a_class_of_failures_leads_back() -> None:
    edge = {"on": "transient", "rework": "a", "max": 1}
    flaky = [Outcome("transient", "again", exit_code=75), GOOD]
    ran = rehearse(plan({"id": "a"}, {"id": "b", "needs": ["a"], "next": [edge]}), {"a": [GOOD], "b": flaky})
    assert (ran.state.status, ran.order) == ("completed", ["a", "b", "a", "b"])


def test_no_edge_leads_back_beside_one_without_a_value() -> None:
    edges = [{"on": "failure", "to": "x", "when": NOTHING}, {"on": "failure", "rework": "a", "max": 1}]
    ran = run({"id": "a"}, {"id": "b", "needs": ["a"], "next": edges}, {"id": "x"}, bad=("b",))
    assert (ran.statuses()["b"], ran.order) == ("failed", ["a", "b"])
    assert "has no value" in ran.state.tasks[1].detail


def rounds(inner: dict[str, Any]) -> Rehearsal:
    """A loop of at most five rounds, whose task works well."""
    step = {"run": "work", "outputs": {"j": "any"}, **inner, "id": "t"}
    loop = {"max": 5, "until": "tasks.t.ok", "tasks": [step]}
    before = {"id": "a", "run": "work", "outputs": {"j": "any"}}
    whole = plan(before, {"id": "l", "needs": ["a"], "loop": loop})
    script = {name: [GOOD] for name in ("a", *(f"l#{number}/t" for number in range(1, 6)))}
    return rehearse(whole, script)


@pytest.mark.parametrize(
    "inner",
    [
        {"run": f"work {ABSENT}"},
        {"outputs": {"j": "any", "n": {"value": "{{ outputs.j.missing }}"}}},
        {"when": "tasks.a.outputs.j.missing > 3"},
        {"expect": [NOTHING]},
        {"failure_modes": [{"name": "odd", "detect": NOTHING}]},
    ],
    ids=lambda inner: "-".join(inner),
)
def test_a_round_that_lacks_a_value_is_the_last_one(inner: dict[str, Any]) -> None:
    ran = rounds(inner)
    found = ran.state.tasks[ran.state.index["l"]]
    assert (found.status, found.failure, found.inner is not None and found.inner.round) == ("failed", "logic", 1)
    assert found.detail.startswith("round 1: `l#1/t` failed: ")
    assert "missing" in found.detail


def test_a_round_whose_steps_lack_a_value_is_the_last_one_too() -> None:
    inner = {"run": "work", "expect": [NOTHING], "outputs": {"j": "any"}, "id": "deep"}
    steps = {"id": "t", "subplan": [inner]}
    whole = plan({"id": "l", "loop": {"max": 5, "until": "tasks.t.ok", "tasks": [steps]}})
    ran = rehearse(whole, {f"l#{number}/t/deep": [GOOD] for number in range(1, 6)})
    assert ran.order.count("l#2/t/deep") == 0
    assert "missing" in ran.state.tasks[ran.state.index["l"]].detail


def test_a_criterion_that_is_false_goes_another_round() -> None:
    ran = rounds({"expect": ["outputs.j.n == 2"]})
    assert ran.state.tasks[ran.state.index["l"]].failure == "exhausted"


@pytest.mark.parametrize("task", [{"run": "work", "stdout": "json"}, {"uses": "noop", "with": {"value": 1}}])
def test_a_fan_out_over_nothing_gives_empty_lists_under_every_name(task: dict[str, Any]) -> None:
    reads = {"run": ["echo", "{{ tasks.f.outputs.value }}"], "expect": ["tasks.f.outputs.value == []"]}
    tasks = [{"id": "f", "foreach": [], **task}, {"id": "b", "needs": ["f"], **reads}]
    ran = rehearse(workbench.plan(*tasks, defaults={"timeout": "1h"}))
    assert (ran.state.status, ran.order) == ("completed", ["f", "b"])
