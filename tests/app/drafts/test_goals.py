"""Plans for goals that planrunner knows, drafted without a model and run in real projects."""

from __future__ import annotations

import json
import os

import pytest
from projects import CASES, Project

from planrunner.app.drafts.goals import goals, recognised
from planrunner.errors import Hint, UsageError


def test_there_are_ten_goals_and_each_is_recognised_by_its_example() -> None:
    assert {goal.name for goal in goals()} == CASES.keys()
    assert [recognised(goal.example, Hint()).name for goal in goals()] == [goal.name for goal in goals()]


@pytest.mark.parametrize("name", CASES)
def test_a_known_goal_becomes_a_plan_that_runs_after_consent(project: Project, server: str, name: str) -> None:
    case = CASES[name]
    case.build(project)
    told = project.draft(case.goal.replace("{server}", server))
    assert (told["valid"], told["by"]) == (True, f"the goal `{name}`")
    assert [found for found in told["findings"] if found["severity"] != "note"] == []
    assert told["diff"].startswith(f"--- /dev/null\n+++ plans/{name}.yaml\n")
    linted = project("lint", told["file"], "--fail-on", "warning")
    assert linted.code == 0, linted.out
    refused = project("exec", told["file"])
    assert refused.code == 12 and "drafted" in refused.err
    assert json.loads(project("runs", "--json").out)["runs"] == []
    shown = project.carried_out(told, case.gates(project))
    assert shown["status"] == "completed"
    assert case.proof(project, shown)


def test_a_pipe_in_the_place_of_the_file_is_refused_and_not_waited_for(project: Project) -> None:
    project.write(Makefile="test:\n\ttrue\n")
    (project.work / "plans").mkdir()
    os.mkfifo(project.work / "plans" / "check.yaml")
    ran = project("draft", "run the tests and check the quality")
    assert ran.code == 3 and "`plans/check.yaml` is a pipe, not a plan" in ran.err


def test_a_deployment_that_is_not_healthy_is_taken_back(project: Project, server: str) -> None:
    case = CASES["deploy"]
    case.build(project)
    told = project.draft(case.goal.replace("{server}/health", f"{server}/gone"))
    plan = project.work / told["file"]
    plan.write_text(plan.read_text().replace("within: 2m", "within: 1s").replace("interval: 2s", "interval: 200ms"))
    digest = json.loads(project("trust", told["file"], "--json").out)["digest"]
    assert project("exec", told["file"], "--trust", digest).code == 8
    assert project("approve", "last", "approve", "--as", "bo", "--reason", "go", "--resume").code == 1
    assert (project.work / "live.txt").read_text() == "old\n"


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        ("make me a coffee", "no plan is known for the goal"),
        ("migrate and deploy", "either to"),
        ("migrate the database", "needs the file of an SQLite database"),
        ("   ", "the goal is empty"),
    ],
)
def test_a_goal_that_is_not_known_names_the_ways_out(project: Project, goal: str, said: str) -> None:
    ran = project("draft", goal)
    assert ran.code == 2 and said in ran.err
    assert "Traceback" not in ran.err and not (project.work / "plans").exists()


def test_the_nearest_goals_are_named() -> None:
    with pytest.raises(UsageError, match="no plan is known") as refused:
        recognised("ship", Hint())
    assert "build version" in str(refused.value.way_out)


def test_a_goal_cannot_put_a_template_into_a_plan(project: Project) -> None:
    CASES["refactor"].build(project)
    told = project.draft("refactor {{ env.HOME }} without breaking the tests")
    assert "{{ env.HOME }}" not in told["plan"] and "refactor { { env.HOME }}" in told["plan"]


def test_what_a_project_does_not_have_is_left_out(project: Project) -> None:
    project.write(Makefile="test:\n\ttrue\n")
    told = project.draft("run the tests and the linter")
    assert "run: make test" in told["plan"]
    assert "lint" not in told["plan"].partition("tasks:")[2]


def test_the_first_words_of_a_known_goal_are_that_goal(project: Project) -> None:
    project.write(Makefile="test:\n\ttrue\n")
    assert project.draft("Run the  tests", "--no-model")["by"] == "the goal `check`"
    assert project("draft", "run", "--no-model").code == 2


@pytest.mark.parametrize(
    ("words", "settings", "said"),
    [
        (["--budget", "cots=1"], {}, "error: `--budget` has no `cots`, did you mean `cost`?\n"),
        (["--budget", "zz=1"], {}, "error: `--budget` has no `zz`: there are `time`, `cost`, `tokens`, "),
        (["--budget", "cost=abc"], {}, "error: `abc` is not an amount of `cost`\n  write it such as `cost=$0.50` or"),
        (["--model", "smal"], {"small": {}}, "error: planrunner.yaml has no model `smal`, did you mean `small`?\n"),
        (["--model", "smal"], {"small": {}}, "it has `small`"),
        (["--model", "smal"], {}, "error: planrunner.yaml has no model `smal`\n  it has no section `models`\n"),
        (["--no-model"], {"small": {}}, "or leave out `--no-model` to let a model draft it: planrunner draft ships\n"),
        (["--no-model"], {}, "or name a model under `models` in planrunner.yaml to let it draft the plan\n"),
        ([], {}, "or name a model under `models` in planrunner.yaml to let it draft the plan\n"),
    ],
)
def test_what_is_asked_for_wrongly_is_told_with_the_way_out(
    project: Project, words: list[str], settings: dict[str, dict[str, str]], said: str
) -> None:
    models = {name: {"provider": "ollama", "model": "m"} for name in settings}
    project.set(**({"models": models} if models else {}))
    ran = project("draft", "ships", *words)
    assert ran.code == 2
    assert said in ran.err
