"""The options of a gate: from a list that is known when it asks, and those that send the run back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rows import rows
from simulator.gates import GateRun
from workbench import plan

from planrunner.machine.events import Outcome
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

FIND = {"id": "find", "run": "x", "outputs": {"found": "any"}}
USE = {"id": "use", "needs": ["pick"], "run": "echo {{ tasks.pick.outputs.choice }}"}


def picks(options: Any, found: Any = None) -> GateRun:
    pick = {"id": "pick", "needs": ["find"], "gate": "decision", "ask": "Which?", "options": options}
    outcomes = {"find": [Outcome(exit_code=0, outputs={"found": found})]}
    return GateRun(plan(FIND, pick, USE, defaults={"timeout": "1h"}), outcomes)


def shown(ran: GateRun) -> list[dict[str, Any]]:
    gate = ran.state.tasks[1].gate
    assert gate is not None, ran.state.tasks[1].detail
    return list(gate.request["options"])


@pytest.mark.parametrize("options", ["tasks.find.outputs.found", "{{ tasks.find.outputs.found }}"])
def test_a_list_of_texts_gives_the_options(options: str) -> None:
    ran = picks(options, ["a b", 2])
    assert shown(ran) == [{"name": "a b"}, {"name": "2"}]
    assert ran.vote("pick", choice="a b", by="bo").code == 0
    ran.resume()
    assert ran.state.tasks[1].outputs["choice"] == "a b"


def test_a_list_of_maps_gives_options_with_what_speaks_for_them() -> None:
    found = [{"id": "a", "title": "The A", "pros": ["cheap"], "cost": 3}, {"title": "B"}]
    wanted = [{"name": "a", "title": "The A", "cost": "3", "pros": ["cheap"]}, {"name": "B", "title": "B"}]
    assert shown(picks("tasks.find.outputs.found", found)) == wanted


UNFIT = {
    "nothing": (None, "takes a list with one item or more, this is nothing"),
    "an empty list": ([], "takes a list with one item or more, this is an empty list"),
    "a text": ("a", 'takes a list with one item or more, this is "a"'),
    "an item that is a list": ([["a"]], "is not an option: it takes texts, or maps with an `id`"),
    "a map without an id": ([{"cost": 1}], "an option without an `id`"),
    "a target": ([{"id": "a", "to": "use"}], "gives an option with `to`; it takes id, title"),
    "twins": (["a", "a"], "gives two options called `a`"),
}


@rows("name", UNFIT)
def test_a_list_that_gives_no_options_fails_the_gate_and_asks_nobody(name: str) -> None:
    found, why = UNFIT[name]
    ran = picks("tasks.find.outputs.found", found)
    gate = ran.state.tasks[1]
    assert (gate.status, gate.reason) == ("failed", "question")
    assert "`options: tasks.find.outputs.found`" in gate.detail
    assert why in gate.detail


def again(**more: Any) -> dict[str, Any]:
    return {"id": "again", "rework": "draft", "max": 1, **more}


def drafts(*options: Any) -> GateRun:
    pick = {"id": "pick", "needs": ["draft"], "gate": "decision", "ask": "Good?", "options": list(options)}
    done = {"id": "done", "run": "x"}
    return GateRun(plan({"id": "draft", "run": "echo {{ rework.comment }}"}, pick, done, defaults={"timeout": "1h"}))


def test_an_option_sends_the_run_back_with_what_was_said_as_often_as_it_may() -> None:
    ran = drafts({"id": "good", "to": "done"}, again())
    assert ran.vote("pick", choice="again", by="bo", reason="shorter").code == 0
    ran.resume()
    draft = ran.state.tasks[0]
    assert (draft.visit, draft.rework) == (2, {"comment": "shorter", "by": "bo", "from": "pick", "round": 1})
    refused = ran.vote("pick", choice="again", by="bo")
    assert (refused.code, refused.message) == (2, "`again` sends back to `draft` at most 1 times: none is left")
    assert ran.vote("pick", choice="good", by="bo").code == 0
    ran.resume()
    assert (ran.state.status, ran.state.tasks[2].status) == ("completed", "completed")


@rows(
    ("form", "vote", "said"),
    [
        ({"what": "string"}, {"fields": {"what": "shorter"}}, "shorter"),
        ({"what": "string"}, {"fields": {"what": "shorter"}, "reason": "dull"}, "dull; shorter"),
        ({"what": "string", "most": "money"}, {"fields": {"what": "a b", "most": 5}}, "what=a b, most=$5"),
        ({"what": {"type": "string", "default": ""}}, {}, "`again` was chosen"),
        ({}, {}, "`again` was chosen"),
    ],
)
@rows("by_edge", [False, True])
def test_what_was_written_into_the_form_is_what_the_task_is_told(
    by_edge: bool, form: dict[str, Any], vote: dict[str, Any], said: str
) -> None:
    options = ["again", "good"] if by_edge else [again(), {"id": "good", "to": "done"}]
    back = {"on": "success", "when": "outputs.choice == 'again'", "rework": "draft", "max": 1}
    pick = {"id": "pick", "needs": ["draft"], "gate": "decision", "ask": "Good?", "options": options, "form": form}
    tasks = [{"id": "draft", "run": "x"}, {**pick, "next": [back]} if by_edge else pick, {"id": "done", "run": "x"}]
    ran = GateRun(plan(*tasks, defaults={"timeout": "1h"}))
    assert ran.vote("pick", choice="again", **vote).code == 0
    ran.resume()
    rework = ran.state.tasks[0].rework
    assert rework is not None
    assert rework["comment"] == said


WAYS = {"id": "pick", "gate": "decision", "ask": "Which?", "options": [{"id": "l", "to": "x"}, {"id": "r", "to": "y"}]}


@rows("holder", ["", "subplan", "loop", "foreach"])
@rows("end", ["rejected", "expired", "checks"])
def test_a_decision_that_was_not_made_fails_for_that_alone(end: str, holder: str) -> None:
    more = {"expires": "1m"} if end == "expired" else {"checks": [{"check": "1 > 2"}]} if end == "checks" else {}
    inside = [{**WAYS, **more}, {"id": "x", "run": "x"}, {"id": "y", "run": "y"}]
    holders = {
        "subplan": {"subplan": inside},
        "loop": {"loop": {"max": 2, "until": "true", "tasks": inside}},
        "foreach": {"foreach": "[1]", "subplan": inside},
    }
    tasks = [{"id": "in", **holders[holder]}] if holder else inside
    ran = GateRun(plan(*tasks, defaults={"timeout": "1h"}))
    name = next(each for each in ran.statuses() if each.endswith("pick"))
    if end == "rejected":
        assert ran.vote(name, "reject", reason="no").code == 0
    if ran.state.status == "blocked":
        ran.later(3600).resume()
    gate = ran.state.tasks[ran.state.index[name]]
    assert (gate.status, gate.reason) == ("failed", end)
    assert "outputs.choice" not in gate.detail
    others = {each: status for each, status in ran.statuses().items() if each.rpartition("/")[2] in ("x", "y")}
    assert set(others.values()) == {"omitted"}


def test_an_edge_of_the_plan_still_leads_on_from_a_rejected_decision() -> None:
    made = {**WAYS, "next": [{"when": "outputs.decision == 'rejected'", "to": "z"}], "on_reject": "w"}
    ran = GateRun(plan(made, *({"id": each, "run": each} for each in "xyzw"), on_failure="continue"))
    ran.vote("pick", "reject", reason="no")
    ran.resume()
    assert ran.statuses() == {"pick": "failed", "x": "omitted", "y": "omitted", "z": "completed", "w": "completed"}


def findings(*options: Any) -> list[tuple[str, str]]:
    tasks = [{"id": "draft", "run": "x"}, {"id": "pick", "needs": ["draft"], "gate": "decision", "options": options}]
    text = json.dumps({"plan": "p", "defaults": {"timeout": "1h"}, "tasks": tasks})
    return [(each.code, each.message) for each in load(Source(text, "p.json", "json"), Registry()).findings]


def test_an_option_that_sends_back_names_an_earlier_task_and_a_bound() -> None:
    assert any("`darft`" in said and "draft" in said for _, said in findings("ok", again(rework="darft")))
    unbound = {"id": "again", "rework": "draft"}
    assert "PLAN109" in [code for code, _ in findings("ok", unbound)]
    assert any("`to` and `rework` exclude each other" in said for _, said in findings("ok", again(to="draft")))


def test_a_misspelt_name_in_the_list_of_options_is_found() -> None:
    tasks = [FIND, {"id": "pick", "needs": ["find"], "gate": "decision", "options": "tasks.fnd.outputs.found"}]
    text = json.dumps({"plan": "p", "defaults": {"timeout": "1h"}, "tasks": tasks})
    assert any(each.code == "PLAN201" for each in load(Source(text, "p.json", "json"), Registry()).findings)


def asks(choices: Any, found: Any) -> GateRun:
    pick = {
        "id": "pick",
        "needs": ["find"],
        "gate": "decision",
        "form": {"who": {"type": "string", "choices": choices}},
    }
    outcomes = {"find": [Outcome(exit_code=0, outputs={"found": found})]}
    return GateRun(plan(FIND, {**pick, "ask": "Who?"}, defaults={"timeout": "1h"}), outcomes)


@pytest.mark.parametrize("choices", ["{{ tasks.find.outputs.found }}", ["ada", "{{ tasks.find.outputs.found }}"]])
def test_a_field_takes_its_choices_from_a_list(choices: Any) -> None:
    ran = asks(choices, ["bo", "cy"])
    assert ran.vote("pick", by="dee", fields={"who": "eve"}).code == 2
    assert ran.vote("pick", by="dee", fields={"who": "cy"}).code == 0
    ran.resume()
    assert ran.state.tasks[1].outputs["who"] == "cy"


@pytest.mark.parametrize(("found", "why"), [([], "are an empty list"), ([["a"]], 'this is ["a"]')])
def test_choices_that_cannot_be_had_fail_the_gate(found: Any, why: str) -> None:
    gate = asks("{{ tasks.find.outputs.found }}", found).state.tasks[1]
    assert gate.status == "failed"
    assert why in gate.detail


def test_the_choices_of_a_parameter_are_written_out() -> None:
    text = json.dumps({"plan": "p", "params": {"a": {"choices": ["{{ params.b }}"]}}, "tasks": [FIND]})
    assert any(
        "cannot hold templates" in each.message for each in load(Source(text, "p.json", "json"), Registry()).findings
    )
