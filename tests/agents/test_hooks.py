"""What a plan says of the calls of an agent (`calls`): deny them, ask a person first, tell the model something."""

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
params: {area: {type: string, default: tests/}}
tasks:
  - id: fix
    agent: coder
    prompt: Mend it.
    calls:
      - tool: files.write
        when: not starts_with(call.arguments.path, params.area)
        deny: "Only files below {{ params.area }} may change."
      - {tool: files.read, say: Say what you have read before you go on.}
      - {tool: shell, ask: "May this command run?"}
"""
WRITE = [("files_write", {"path": "src/x.txt", "content": "x"}), ("files_write", {"path": "tests/x", "content": "x"})]
READ = [("files_read", {"path": "note.txt"})]
RUN = [("shell", {"command": "echo hello > out.txt"})]


def test_a_call_that_is_denied_is_not_made_and_the_model_is_told_why(make: Make) -> None:
    bench = make([WRITE, "Done."])
    (bench.folder / "tests").mkdir()
    assert bench.run(PLAN)["status"] == "completed"
    assert not (bench.folder / "src").exists() and (bench.folder / "tests" / "x").exists()
    told = [text for role, text in bench.model.heard[1].turns if role == "tool"]
    assert told[0] == "Only files below tests/ may change." or told[1] == "Only files below tests/ may change.", told
    for words in (("why", "last", "fix"), ("logs", "last"), ("show", "last", "--all")):
        said = bench.call(*words).stdout
        assert "was not made by `calls: files.write when not starts_with(call.arguments.path, params.area)`" in said


def test_the_model_is_told_something_with_the_result(make: Make) -> None:
    bench = make([READ, "Done."])
    (bench.folder / "note.txt").write_text("some words")
    assert bench.run(PLAN)["status"] == "completed"
    last = bench.model.heard[1].last()
    assert "some words" in last and last.endswith("\n\nSay what you have read before you go on.")
    why = bench.call("why", "last", "fix").stdout
    assert "with the result of `files.read` the model is told: Say what you have read" in why
    bench.model.__exit__()
    assert bench.call("replay", "last").returncode == 0


def test_a_person_is_asked_and_the_run_goes_on_with_the_answer(make: Make) -> None:
    bench = make([RUN, "Done."])
    told = bench.run(PLAN)
    assert told["status"] == "blocked" and not (bench.folder / "out.txt").exists()
    [gate] = told["gates"]
    assert gate["ask"] == "May this command run?"
    inbox = bench.call("gates").stdout
    assert "May this command run?" in inbox
    assert "put to a person by `calls: shell`" in bench.call("why", "last", "fix").stdout
    assert bench.call("approve", "last", gate["gate"], "--resume").returncode == 0
    assert (bench.folder / "out.txt").read_text() == "hello\n"
    assert len(bench.model.heard) == 2
    bench.model.__exit__()
    assert bench.call("replay", "last").returncode == 0


def test_what_a_person_refuses_the_model_hears(make: Make) -> None:
    bench = make([RUN, "Then not."])
    [gate] = bench.run(PLAN)["gates"]
    assert bench.call("reject", "last", gate["gate"], "--reason", "use python", "--resume").returncode == 0
    assert not (bench.folder / "out.txt").exists()
    assert "use python" in bench.model.heard[1].last()


def test_the_strictest_of_all_that_fit_decides(make: Make) -> None:
    """The agent denies, and no task takes that back: it can add to it alone."""
    bench = make([RUN, "Done."])
    bench.settings["agents"]["coder"]["calls"] = [{"tool": "shell", "deny": "No {{ commands }}."}]
    assert bench.run(PLAN)["status"] == "completed"
    assert bench.model.heard[1].last() == "No {{ commands }}."


def test_a_policy_holds_as_well(make: Make) -> None:
    """What it denies no person can let through."""
    bench = make([RUN, "Done."])
    [gate] = bench.run(PLAN + "    policy: {capabilities: {deny: [shell]}}\n")["gates"]
    assert bench.call("approve", "last", gate["gate"], "--resume").returncode == 0
    assert "policy" in bench.model.heard[1].last() and not (bench.folder / "out.txt").exists()


def test_a_condition_without_a_value_restricts(make: Make) -> None:
    """A model may leave an argument out: what would have to be denied is not let through for that."""
    bench = make([[("shell", {"command": "true"})], "Done."])
    plan = PLAN.replace('{tool: shell, ask: "May this command run?"}', "{tool: shell, when: WHEN, deny: No.}")
    assert bench.run(plan.replace("WHEN", "call.arguments.command > 3"))["status"] == "completed"
    assert bench.model.heard[1].last().startswith("No. (`call.arguments.command > 3` has no value: ")


def test_a_plan_that_is_a_tool_waits_too(make: Make) -> None:
    bench = make([[("part", {})], "Done."])
    (bench.folder / "part.yaml").write_text("plan: part\ntasks: [{id: a, run: touch made, timeout: 1m}]\n")
    plan = (
        "plan: p\ntasks:\n  - {id: fix, agent: {tools: [part.yaml]}, prompt: x, calls: [{tool: part, ask: 'Now?'}]}\n"
    )
    [gate] = bench.run(plan)["gates"]
    assert not (bench.folder / "made").exists()
    assert bench.call("approve", "last", gate["gate"], "--resume").returncode == 0
    assert (bench.folder / "made").exists()


@pytest.mark.parametrize(
    "around",
    [
        "plan: p\ntasks:\n  - {id: all, foreach: [a, b], TASK}\n",
        "plan: p\ntasks:\n  - id: all\n    loop: {max: 2, tasks: [{id: x, TASK}]}\n",
        "plan: p\ntasks: [{id: a, subplan: [{id: x, TASK}]}, {id: b, subplan: [{id: x, TASK}]}]\n",
        "plan: p\ntasks: [{id: a, subplan: one}, {id: b, subplan: one}]\nsubplans: {one: {tasks: [{id: x, TASK}]}}\n",
    ],
    ids=["fan-out", "loop", "subplan", "named-subplan"],
)
def test_it_holds_inside_others(make: Make, around: str) -> None:
    def script(heard: Heard) -> Json:
        return [("files_write", {"path": "x", "content": "x"})] if heard.turns[-1][0] == "user" else "Done."

    bench = make(script)
    task = "agent: coder, prompt: Go., calls: [{tool: 'files.*', when: call.arguments.path == 'x', deny: Not that.}]"
    told = bench.run(around.replace("TASK", task))
    assert told["status"] == "completed", told
    assert sum(heard.last() == "Not that." for heard in bench.model.heard) == 2


@pytest.mark.parametrize(
    ("entry", "code", "message"),
    [
        ("{tool: files.wriet, deny: No.}", "PLAN841", "did you mean `files.write`?"),
        ("{tool: files.write}", "PLAN004", "one of `deny`, `ask` and `say`"),
        ("{tool: files.write, deny: No., say: Yes.}", "PLAN004", "one of `deny`, `ask` and `say`"),
        ("{tool: files.write, dney: No.}", "PLAN003", "did you mean `deny`?"),
        ("{tool: ask, ask: No.}", "PLAN009", "waits for a person already"),
        ("{tool: shell, when: call.argument == 1, deny: No.}", "PLAN201", "did you mean `arguments`?"),
        ("{tool: shell, when: call.arguments.comand == 'x', deny: No.}", "PLAN201", "did you mean `command`?"),
        ("{tool: shell, when: tasks.x.ok, deny: No.}", "PLAN201", "tasks"),
        ("{tool: shell, when: params.areas == 'x', deny: No.}", "PLAN201", "did you mean `area`?"),
        ("{tool: shell, deny: 'No {{ params.areas }}.'}", "PLAN201", "did you mean `area`?"),
    ],
)
def test_what_does_not_fit_is_found(make: Make, entry: str, code: str, message: str) -> None:
    bench = make([])
    bench.write(PLAN.partition("    calls:")[0] + f"    calls: [{entry}]\n")
    found = json.loads(bench.call("lint", "plan.yaml", "--json").stdout)
    listed = [*found["files"][0]["findings"]] if "files" in found else [*found["findings"]]
    errors = [each for each in listed if each["severity"] == "error"]
    assert code in [each["code"] for each in errors], errors
    assert any(message in each["message"] + each.get("help", "") for each in errors), errors


def test_hooks_of_an_agent_of_the_project_are_checked(make: Make) -> None:
    bench = make([])
    bench.settings["agents"]["coder"]["calls"] = [{"tool": "files.wriet", "deny": "No."}]
    bench.write("plan: p\ntasks: [{id: a, run: 'true', timeout: 1m}]\n")
    checked = bench.call("config", "check")
    assert "did you mean `files.write`?" in checked.stdout, checked.stdout
