"""Agents that a plan declares itself (`agents`), for its tasks and as tools of other agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from bench import Bench

from planrunner.testing.scripted_model import Heard

Json = Any
Make = Callable[..., Bench]

PLAN = """
plan: p
agents:
  brief: {description: Sums up a file in one sentence., system: You sum up., tools: [files.read]}
tasks:
  - {id: report, agent: {system: You report., tools: [brief, files.write]}, prompt: Report on note.txt.}
"""


def script(heard: Heard) -> Json:
    """The reporter has the other one read, and writes down what that says."""
    system, last = heard.turns[0][1], heard.turns[-1]
    if system.startswith("You sum up."):
        return [("files_read", {"path": "note.txt"})] if last[0] == "user" else f"It is about {last[1].split()[-1]}"
    if last[0] == "user":
        return [("brief", {"prompt": "Sum up note.txt."})]
    return (
        "Done."
        if "files_write" in json.dumps(heard.body["messages"])
        else [("files_write", {"path": "report.txt", "content": last[1]})]
    )


def project(make: Make) -> Bench:
    bench = make(script)
    (bench.folder / "note.txt").write_text("pears")
    return bench


def test_one_agent_calls_another_as_a_tool(make: Make) -> None:
    bench = project(make)
    told = bench.run(PLAN)
    assert told["status"] == "completed", told
    assert (bench.folder / "report.txt").read_text().startswith("It is about")
    first, inner = bench.model.heard[0], bench.model.heard[1]
    assert "brief" in first.tools and "files_read" not in first.tools
    assert inner.tools == ["files_read"] and inner.last() == "Sum up note.txt.", "it knows what it was told alone"
    offered = next(each for each in first.body["tools"] if each["function"]["name"] == "brief")
    assert offered["function"]["description"] == "Sums up a file in one sentence."
    assert "report#2/calls[0]" in told["tasks"]
    bench.model.__exit__()
    assert bench.call("replay", "last").returncode == 0


def test_a_task_names_it_like_one_of_the_project(make: Make) -> None:
    bench = make(["Done."])
    assert bench.run(PLAN.replace("agent: {system: You report., tools: [brief, files.write]}", "agent: brief"))
    assert bench.model.heard[0].turns[0][1].startswith("You sum up.")


def test_an_agent_of_the_project_is_a_tool_too(make: Make) -> None:
    bench = make([[("coder", {"prompt": "Mend it."})], "Mended.", "Done."])
    assert bench.run("plan: p\ntasks: [{id: a, agent: {tools: [coder]}, prompt: Go.}]\n")["status"] == "completed"
    assert bench.model.heard[1].last() == "Mend it." and bench.model.heard[2].last() == "Mended."
    assert bench.call("config", "check").returncode == 0


def test_the_plans_own_comes_before_one_of_the_project(make: Make) -> None:
    bench = make(["Done."])
    plan = "plan: p\nagents: {coder: {system: You are another.}}\ntasks: [{id: a, agent: coder, prompt: Go.}]\n"
    assert bench.run(plan)["status"] == "completed"
    assert bench.model.heard[0].turns[0][1].startswith("You are another.")


def test_what_it_spends_counts_for_the_one_that_called_it(make: Make) -> None:
    bench = make(lambda heard: [("brief", {"prompt": "x"})] if heard.turns[0][1].startswith("You report") else "Pears.")
    told = bench.run(PLAN.replace("prompt: Report on note.txt.", "prompt: Go., budgets: {calls: 4}, rounds: 20"))
    assert (told["status"], told["tasks"]["report"]["failure"]) == ("failed", "budget"), told["tasks"]["report"]
    assert len(bench.model.heard) == 4


def test_its_policy_and_that_of_its_caller_hold(make: Make) -> None:
    bench = project(make)
    plan = PLAN.replace("tools: [files.read]}", "tools: [files.read], policy: {files: {read: [other.txt]}}}")
    assert bench.run(plan)["status"] == "completed"
    assert "policy" in bench.model.heard[2].last(), "the one that it was denied to is told"
    denied = PLAN.replace("prompt: Report", "policy: {capabilities: {deny: [files.read]}}, prompt: Report")
    assert bench.run(denied)["status"] == "completed"
    assert any("policy" in heard.last() for heard in bench.model.heard[-4:])


def test_hooks_of_the_caller_and_of_its_own(make: Make) -> None:
    bench = project(make)
    plan = PLAN.replace("tools: [files.read]}", "tools: [files.read], calls: [{say: Be short.}]}")
    plan = plan.replace("prompt: Report", "calls: [{tool: brief, ask: 'Now?'}], prompt: Report")
    [gate] = bench.run(plan)["gates"]
    assert (gate["ask"], len(bench.model.heard)) == ("Now?", 1)
    assert bench.call("approve", "last", gate["gate"], "--resume").returncode == 0
    assert bench.model.heard[2].last().endswith("Be short.")


@pytest.mark.parametrize(
    "around",
    [
        "tasks: [{id: all, foreach: [a, b], TASK}]\n",
        "tasks:\n  - id: all\n    loop: {max: 2, tasks: [{id: x, TASK}]}\n",
        "tasks: [{id: a, subplan: one}, {id: b, subplan: one}]\nsubplans: {one: {tasks: [{id: x, TASK}]}}\n",
    ],
    ids=["fan-out", "loop", "named-subplan"],
)
def test_it_works_inside_others(make: Make, around: str) -> None:
    bench = project(make)
    head, _, task = PLAN.partition("tasks:")
    body = task.strip().removeprefix("- {id: report, ").removesuffix("}").replace(", files.write", "")
    bench.model._script = lambda heard: (
        "Pears."
        if heard.turns[0][1].startswith("You sum up.")
        else [("brief", {"prompt": "x"})]
        if heard.turns[-1][0] == "user"
        else "Done."
    )
    told = bench.run(head + around.replace("TASK", body))
    assert told["status"] == "completed", told
    assert sum(heard.last() == "Pears." for heard in bench.model.heard) == 2


def test_a_linked_plan_has_agents_of_its_own(make: Make) -> None:
    bench = project(make)
    (bench.folder / "part.yaml").write_text(PLAN)
    assert bench.run("plan: whole\ntasks: [{id: part, subplan: part.yaml}]\n")["status"] == "completed"
    bench.write("plan: whole\nagents: {x: {}}\ntasks: [{id: part, subplan: part.yaml}]\n")
    (bench.folder / "part.yaml").write_text("plan: part\ntasks: [{id: a, agent: x, prompt: Go.}]\n")
    assert "there is no agent `x`" in bench.call("lint", "plan.yaml").stdout


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (PLAN.replace("[files.read]", "[brief]"), "an agent is its own tool: `brief` -> `brief`"),
        (
            PLAN.replace("[files.read]}", "[other]}\n  other: {tools: [brief]}"),
            "an agent is its own tool: `brief` -> `other` -> `brief`",
        ),
        (PLAN.replace("[brief, files.write]", "[breif]"), "did you mean `brief`?"),
        (PLAN.replace("tools: [files.read]", "tols: [files.read]"), "did you mean `tools`?"),
        (PLAN.replace("tools: [files.read]", "model: scriptd"), "did you mean `scripted`?"),
        (PLAN.replace("tools: [files.read]", "tools: [files.raed]"), "did you mean `files.read`?"),
        (PLAN.replace("system: You sum up.", "system: {file: nowhere.md}"), "there is no file `nowhere.md`"),
        (
            PLAN.replace("tools: [files.read]", "tools: [files.read], calls: [{when: params.x == 'y', deny: No.}]"),
            "`calls` of the agent `brief` reads `params.x`, which it has not as a tool",
        ),
    ],
)
def test_what_does_not_fit_is_found(make: Make, plan: str, message: str) -> None:
    bench = make([])
    bench.write(plan)
    found = json.loads(bench.call("lint", "plan.yaml", "--json").stdout)
    errors = [each["message"] for each in found["findings"] if each["severity"] == "error"]
    assert any(message in each for each in errors), found
    assert len(errors) == len(set(errors)), errors


def test_an_agent_that_nothing_uses_is_found(make: Make) -> None:
    bench = make([])
    bench.write(PLAN.replace("tools: [brief, files.write]", "tools: [files.write]"))
    assert "no task uses the agent `brief`" in bench.call("lint", "plan.yaml").stdout


def test_preview_and_text_notation_have_it(make: Make) -> None:
    bench = project(make)
    bench.write(PLAN)
    assert "brief: asks the agent brief" in bench.call("preview", "plan.yaml").stdout
    text = bench.call("convert", "plan.yaml", "--to", "plan").stdout
    (bench.folder / "again.plan").write_text(text)
    ran = bench.call("exec", "again.plan", "--json")
    assert json.loads(ran.stdout)["status"] == "completed", ran
    formatted = bench.call("fmt", "plan.yaml")
    assert formatted.returncode == 0 and bench.call("lint", "plan.yaml").returncode == 0


def test_a_dry_run_and_tests_of_plans_take_it_as_one_task(make: Make) -> None:
    bench = project(make)
    bench.write(PLAN)
    assert bench.call("exec", "plan.yaml", "--dry-run").returncode == 0
    (bench.folder / "plan.test.yaml").write_text(
        "plan: plan.yaml\ncases:\n  - name: it reports\n    mocks: {report: {outputs: {text: It is done.}}}\n"
        "    expect: {status: completed}\n"
    )
    tested = bench.call("test", "plan.test.yaml")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert not bench.model.heard


def test_tasks_with_a_prompt_take_the_agent_of_the_defaults(make: Make) -> None:
    bench = make(lambda heard: "Done.")
    plan = """
plan: p
defaults: {agent: brief}
agents: {brief: {system: You sum up.}, other: {system: You are another.}}
tasks:
  - {id: a, prompt: One.}
  - {id: b, needs: [a], prompt: Two., agent: other}
  - {id: c, needs: [b], subplan: [{id: x, prompt: Three.}]}
  - {id: d, needs: [c], loop: {max: 1, tasks: [{id: x, prompt: Four.}]}}
  - {id: e, needs: [d], foreach: [Five.], prompt: "{{ item }}"}
  - {id: f, needs: [e], run: "true", timeout: 1m}
"""
    told = bench.run(plan)
    assert told["status"] == "completed", told
    assert [heard.last() for heard in bench.model.heard] == ["One.", "Two.", "Three.", "Four.", "Five."]
    systems = [heard.turns[0][1] for heard in bench.model.heard]
    assert systems == ["You sum up.", "You are another.", *["You sum up."] * 3]
    bench.write("plan: p\ndefaults: {agent: breif}\nagents: {brief: {}}\ntasks: [{id: a, prompt: One.}]\n")
    assert "did you mean `brief`?" in bench.call("lint", "plan.yaml").stdout
