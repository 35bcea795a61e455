"""What plans and projects may write of agents: schemas, tools, places of plans, and what lint says before a model is
asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from bench import Bench

from planrunner.plan.agents import schema_of

Json = Any
Make = Callable[..., Bench]

PLAN = """
plan: mend
tasks:
  - id: fix
    agent: coder
    prompt: Mend it.
"""
GREET = """
plan: greet
tasks:
  - {id: say, run: "printf hello", stdout: text, timeout: 1m}
outputs: {said: "{{ tasks.say.outputs.value }}"}
"""


def refusal(bench: Bench, plan: str, **sections: Json) -> str:
    """What lint says against a plan."""
    bench.write(plan, **sections)
    told = bench.call("lint", "plan.yaml")
    assert told.returncode == 1, (told.stdout, told.stderr)
    return str(told.stdout)


def test_properties_of_an_answer_have_any_name_that_can_be_said(make: Make) -> None:
    answer = {"items": 1, "get": 2, "größe": 3, "own-name": 4, "a b": 5, "1x": 6, "none": 7}
    bench = make([[("answer", answer)]])
    told = bench.run(PLAN + f"    schema: {json.dumps(dict.fromkeys(answer, 'int'), ensure_ascii=False)}\n")
    assert told["status"] == "completed", told
    assert {name: bench.outputs(told, "fix")[name] for name in answer} == answer


def test_a_property_that_no_expression_can_name_is_refused(make: Make) -> None:
    assert "cannot be named `it's`" in refusal(make(["Done."]), PLAN + '    schema: {"it\'s": int}\n')


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ({"type": "bug|feature", "line": "int"}, {"type", "line"}),
        ({"items": ["string"], "total": "number"}, {"items", "total"}),
        ({"type": "string", "len": "int"}, {"type", "len"}),
        ({"enum": "string"}, {"enum"}),
    ],
)
def test_properties_inside_a_short_schema_may_be_named_as_keywords_are(written: Json, names: set[str]) -> None:
    assert schema_of({"inner": written})["properties"]["inner"]["properties"].keys() == names


@pytest.mark.parametrize(
    "written",
    [
        {"type": "integer", "minimum": 1},
        {"type": ["string", "null"]},
        {"enum": ["a", "b"]},
        {"type": "array", "items": {"type": "string"}, "title": "string"},
        {"$ref": "#/properties/other"},
    ],
)
def test_a_schema_inside_a_short_one_stays_as_it_is_written_out(written: Json) -> None:
    assert schema_of({"inner": written})["properties"]["inner"] == written


def test_rounds_may_decide_whether_the_work_is_over(make: Make) -> None:
    bench = make(["Done."])
    told = bench.run(PLAN + "    until: outputs.rounds > 1\n")
    assert bench.outputs(told, "fix")["rounds"] == 2


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("{tools: 3}", "`tools` of an agent is a name, or a list of them, not 3"),
        ("{denied: {a: b}}", "`denied` of an agent is a name, or a list of them"),
        ("{system: {files: a.md}}", "`system` of an agent is text"),
        ("{model: 3}", "`model` of an agent is text, not 3"),
        ("{effort: huge}", "`effort` of an agent is one of none, low, medium, high"),
        ("{parameters: 3}", "`parameters` of an agent is a mapping"),
    ],
)
def test_an_agent_that_a_task_describes_is_looked_over(make: Make, agent: str, said: str) -> None:
    assert said in refusal(make(["Done."]), PLAN.replace("coder", agent))


def test_a_tool_of_the_project_that_is_called_ask_is_that_tool(make: Make) -> None:
    bench = make([[("ask", {"path": "note.txt"})], "Done."])
    (bench.folder / "note.txt").write_text("some words")
    told = bench.run(PLAN, tools={"ask": {"uses": "files.read"}}, agents={"coder": {"tools": ["ask"]}})
    assert told["status"] == "completed"
    assert "some words" in bench.model.heard[1].last()


def test_two_tools_of_one_name_are_refused(make: Make) -> None:
    bench = make(["Done."])
    for name in ("one", "two"):
        (bench.folder / name).mkdir()
        (bench.folder / name / "greet.yaml").write_text(GREET)
    said = refusal(bench, PLAN, agents={"coder": {"tools": ["one/greet.yaml", "two/greet.yaml"]}})
    assert "has two tools that are called `greet`" in said


def test_fixed_inputs_that_a_tool_does_not_have_are_refused(make: Make) -> None:
    tools = {
        "look": {"uses": "files.read", "with": {"pfad": "a"}},
        "sh": {"uses": "shell", "with": {"command": "ls"}},
        "greet": {"plan": "greet.yaml", "with": {"nam": "Ada"}},
    }
    bench = make(["Done."])
    (bench.folder / "greet.yaml").write_text(GREET)
    said = refusal(bench, PLAN, tools=tools, agents={"coder": {"tools": [*tools]}})
    assert "`nam` in `with` of the tool `greet` has no effect" in said
    assert "`pfad` in `with` of the tool `look` has no effect" in said
    assert "`command` in `with` of the tool `sh` has no effect" in said


def test_a_model_cannot_choose_an_input_that_is_fixed(make: Make) -> None:
    bench = make([[("look", {"path": "other.txt"}), ("look", {})], "Done."])
    (bench.folder / "note.txt").write_text("some words")
    (bench.folder / "other.txt").write_text("what it wanted")
    tools = {"look": {"uses": "files.read", "with": {"path": "note.txt"}}}
    told = bench.run(PLAN, tools=tools, agents={"coder": {"tools": ["look"]}})
    assert told["status"] == "completed"
    heard = bench.model.heard[1].said()
    assert "some words" in heard and "what it wanted" not in heard


def test_a_changed_group_of_tools_counts_for_a_plan_that_was_compiled_before(make: Make) -> None:
    bench = make(["Done."])
    plan = PLAN.replace("coder", "{tools: [some]}")
    bench.run(plan, agents={}, tools={"some": ["files.read"]})
    bench.run(plan, tools={"some": ["shell"]})
    assert [heard.tools for heard in bench.model.heard] == [["files_read"], ["shell"]]


def test_plans_that_are_tools_lie_where_planrunner_yaml_says(make: Make) -> None:
    bench = make([[("greet", {}), ("again", {})], "Done."])
    for name in ("lib", "sub"):
        (bench.folder / name).mkdir()
    (bench.folder / "lib" / "greet.yaml").write_text(GREET)
    (bench.folder / "sub" / "inner.yaml").write_text(PLAN)
    told = bench.run(
        "plan: outer\ntasks:\n  - {id: all, subplan: sub/inner.yaml}\n",
        agents={"coder": {"tools": ["lib/greet.yaml", "again"]}},
        tools={"again": {"plan": "lib/greet.yaml"}},
    )
    assert told["status"] == "completed", told
    assert [text for role, text in bench.model.heard[1].turns if role == "tool"] == ['{"said": "hello"}'] * 2


def test_rounds_that_are_used_up_leave_no_further_attempt(make: Make) -> None:
    bench = make(lambda heard: [("shell", {"command": f"echo {len(heard.turns)}"})])
    told = bench.run(PLAN + "    budgets: {iterations: 2}\n    retry: 3\n")
    assert (told["tasks"]["fix"]["status"], len(bench.model.heard)) == ("failed", 2)
    assert "the iterations budget of `fix` (2) is used up" in told["tasks"]["fix"]["detail"]


def test_a_plan_gives_all_its_outputs_to_a_model_whatever_they_are_called(make: Make) -> None:
    bench = make([[("greet", {})], "Done."])
    outputs = "outputs: {answer: Ada, decision: passed, reason: she asked, score: 7}\n"
    (bench.folder / "greet.yaml").write_text(GREET[: GREET.index("outputs")] + outputs)
    bench.run(PLAN, agents={"coder": {"tools": ["greet.yaml"]}})
    assert "she asked" in bench.model.heard[1].last() and '"score": 7' in bench.model.heard[1].last()
