"""Instructions in files: prompts of agents and inputs of capabilities, and what a task says of model and effort."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from bench import Bench

Json = Any
Make = Callable[..., Bench]

AGENT = """
plan: mend
params: {what: {type: string, default: the total}}
tasks:
  - {id: fix, agent: coder, prompt: {file: prompts/fix.md}}
"""


def with_file(bench: Bench, text: str = "Mend {{ params.what }}.\n", name: str = "prompts/fix.md") -> Bench:
    place = bench.folder / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return bench


def test_a_prompt_in_a_file_is_as_if_it_stood_in_the_plan(make: Make) -> None:
    bench = with_file(make(["Done."]))
    assert bench.run(AGENT)["status"] == "completed"
    assert bench.model.heard[0].last() == "Mend the total."
    bench.model.__exit__()
    (bench.folder / "prompts" / "fix.md").unlink()
    replayed = bench.call("replay", "last")
    assert replayed.returncode == 0, replayed.stdout


def test_a_list_of_texts_and_files_is_one_text(make: Make) -> None:
    bench = with_file(make(["Done."]))
    plan = AGENT.replace("{file: prompts/fix.md}", "[{file: prompts/fix.md}, Be quick.]")
    assert bench.run(plan)["status"] == "completed"
    assert bench.model.heard[0].last() == "Mend the total.\n\nBe quick."


@pytest.mark.parametrize("name", ["prompt", "system"])
def test_inputs_of_a_capability_take_a_file(make: Make, name: str) -> None:
    bench = with_file(make(["Done."]))
    inputs = {"prompt": "Go.", name: {"file": "prompts/fix.md"}}
    plan = AGENT.replace("agent: coder, prompt: {file: prompts/fix.md}", f"uses: llm.complete, with: {inputs}")
    assert bench.run(plan)["status"] == "completed"
    assert "Mend the total." in bench.model.heard[0].said()


def test_an_agent_that_a_task_describes_has_its_system_in_a_file(make: Make) -> None:
    bench = with_file(make(["Done."]), "You {{ mend }}.")
    plan = AGENT.replace("coder, prompt: {file: prompts/fix.md}", "{system: {file: prompts/fix.md}}, prompt: Go.")
    assert bench.run(plan)["status"] == "completed"
    assert bench.model.heard[0].turns[0] == ("system", "You {{ mend }}."), "as in planrunner.yaml, it is no template"


def test_a_path_counts_from_the_plan_that_names_it(make: Make) -> None:
    bench = with_file(make(["Done."]), "Mend it here.", "parts/prompts/fix.md")
    (bench.folder / "parts" / "part.yaml").write_text(AGENT.replace("plan: mend", "plan: part"))
    assert bench.run("plan: whole\ntasks: [{id: part, subplan: parts/part.yaml}]\n")["status"] == "completed"
    assert bench.model.heard[0].last() == "Mend it here."


@pytest.mark.parametrize(
    "around",
    [
        "plan: p\ntasks:\n  - {id: all, foreach: [a, b], agent: coder, prompt: {file: prompts/each.md}}\n",
        "plan: p\ntasks:\n  - id: all\n    loop: {max: 2, tasks: [{id: x, agent: coder, prompt: {file: prompts/r.md}}]}\n",
        (
            "plan: p\ntasks:\n  - id: all\n    foreach: [a, b]\n"
            "    subplan: [{id: x, agent: coder, prompt: {file: prompts/each.md}}]\n"
        ),
    ],
    ids=["fan-out", "loop", "subplan"],
)
def test_it_reads_what_stands_around_it(make: Make, around: str) -> None:
    bench = with_file(make(lambda heard: "Done."), "Mend {{ item }}.", "prompts/each.md")
    with_file(bench, "Mend {{ 'ab'[loop.round - 1] }}.", "prompts/r.md")
    told = bench.run(around)
    assert told["status"] == "completed", told
    assert sorted(heard.last() for heard in bench.model.heard) == ["Mend a.", "Mend b."]


def findings(bench: Bench, name: str = "plan.yaml") -> list[Json]:
    found = json.loads(bench.call("lint", name, "--json").stdout)
    return [*found["files"][0]["findings"]] if "files" in found else [*found["findings"]]


@pytest.mark.parametrize(
    ("plan", "code", "message"),
    [
        (AGENT.replace("fix.md", "fixx.md"), "PLAN841", "did you mean `prompts/fix.md`?"),
        (AGENT.replace("prompts/fix.md", "prompts"), "PLAN841", "cannot be read"),
        (AGENT.replace("prompts/fix.md", "prompts/raw.md"), "PLAN841", "is not UTF-8 text"),
        (AGENT.replace("prompts/fix.md", "'{{ params.what }}.md'"), "PLAN006", "cannot hold a template"),
        (AGENT.replace("file: p", "fil: p"), "PLAN003", "did you mean `file`?"),
        (AGENT.replace("prompts/fix.md", "prompts/bad.md"), "PLAN201", "the plan has no parameter `wat`"),
        (AGENT.replace("prompt:", "model: scriptd, prompt:"), "PLAN841", "did you mean `scripted`?"),
        (AGENT.replace("prompt:", "effort: hgh, prompt:"), "PLAN006", "did you mean `high`?"),
    ],
)
def test_what_does_not_fit_is_found(make: Make, plan: str, code: str, message: str) -> None:
    bench = with_file(make([]))
    with_file(bench, "Mend {{ params.wat }}.", "prompts/bad.md")
    (bench.folder / "prompts" / "raw.md").write_bytes(b"\xff\xfe")
    bench.write(plan)
    [found] = [each for each in findings(bench) if each["severity"] == "error"]
    assert found["code"] == code, found
    assert message in found["message"] + found.get("help", ""), found


def test_a_changed_file_is_another_plan(make: Make) -> None:
    bench = with_file(make(lambda heard: "Done."))
    first = bench.run(AGENT)
    with_file(bench, "Mend all of it.")
    second = bench.run(AGENT)
    assert bench.model.heard[1].last() == "Mend all of it."
    assert first["revision"] != second["revision"]


def test_a_task_chooses_model_and_effort(make: Make) -> None:
    bench = make(lambda heard: "Done.")
    bench.settings["models"]["other"] = {**bench.settings["models"]["scripted"], "model": "other-model"}
    plan = """
plan: p
tasks:
  - {id: a, agent: coder, prompt: One., model: other, effort: low}
  - {id: b, needs: [a], uses: llm.complete, timeout: 1m, with: {prompt: Two., model: other, effort: high}}
"""
    assert bench.run(plan)["status"] == "completed"
    assert [heard.body["model"] for heard in bench.model.heard] == ["other-model", "other-model"]
    preview = json.loads(bench.call("preview", "plan.yaml", "--json").stdout)
    assert (preview["agents"][0]["model"], preview["agents"][0]["effort"]) == ("other", "low")


@pytest.mark.parametrize("uses", ["llm.complete", "agent.critique", "agent.plan", "llm.judge"])
def test_an_unknown_model_of_a_capability_is_found(make: Make, uses: str) -> None:
    bench = make([])
    inputs = {"llm.complete": "prompt: x", "agent.critique": "text: x", "agent.plan": "goal: x"}
    given = inputs.get(uses, "criteria: x, material: x")
    bench.write(f"plan: p\ntasks:\n  - {{id: a, uses: {uses}, timeout: 1m, with: {{{given}, model: scriptde}}}}\n")
    [found] = [each for each in findings(bench) if each["severity"] == "error"]
    assert (found["code"], "did you mean `scripted`?" in found["message"]) == ("PLAN841", True)


def test_keys_of_an_agent_need_one(make: Make) -> None:
    bench = make([])
    bench.write(
        "plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 1m, model: scripted, tries: 2, calls: [{say: x}]}\n"
    )
    messages = [each["message"] for each in findings(bench) if each["code"] == "PLAN004"]
    assert messages == [f"`{key}` of a task needs `agent`" for key in ("model", "tries", "calls")]
