"""The playbook refactor: a real repository and real tests in the sandbox; the replies of the model are scripted."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from stage import Stage
from workbench import ROOT

from planrunner.testing.rehearsal import module_of
from planrunner.testing.scripted_model import Heard, ScriptedModel

Json = Any
Answer = Callable[[Heard], Json]
Open = Callable[[Answer], tuple[Stage, ScriptedModel]]

rehearsal: Any = module_of(ROOT / "plans" / "playbooks" / "rehearsals" / "refactor.py")
rehearsal.FILES["pytest.ini"] = "[pytest]\naddopts = -p no:anyio -p no:hypothesispytest -p no:xdist\n"  # starts quicker

EXTRACT, RETURN = rehearsal.STEPS


@pytest.fixture
def refactored(modelled: Callable[..., tuple[Stage, ScriptedModel]]) -> Open:
    """Opens the scene of the rehearsal with another model."""
    return partial(modelled, "refactor", rehearsal.project)


def proposing(step: str, *diffs: str) -> Answer:
    """The model of the rehearsal, but for the diffs that it proposes for a step; the last again for all that follow."""
    left = [*diffs]

    def answer(heard: Heard) -> Json:
        if heard.turns[-1][0] == "tool" and step in heard.said():
            return [("answer", {"subject": "Change it", "diff": left.pop(0) if len(left) > 1 else left[0]})]
        return rehearsal.answer(heard)

    return answer


BREAKS = '--- a/prices.py\n+++ b/prices.py\n@@ -3,3 +3,3 @@\n \n-def gross(net):\n+def net(gross):\n     """The price with tax."""\n'
MISFIT = '--- a/prices.py\n+++ b/prices.py\n@@ -1,2 +1,2 @@\n-"""Costs."""\n+"""Prices"""\n \n'
CHEATS = "--- a/tests/test_prices.py\n+++ /dev/null\n@@ -1 +0,0 @@\n"
CHEATS += "".join(f"-{line}\n" for line in rehearsal.FILES["tests/test_prices.py"].splitlines())


def state(stage: Stage) -> Json:
    """Branches, HEAD, index and every file with its permissions."""
    git = stage.scene.git
    known = (git("for-each-ref"), git("symbolic-ref", "HEAD"), git("ls-files", "--stage"))
    files = [path for path in stage.folder.rglob("*") if path.is_file() and not {".git", ".planrunner"} & {*path.parts}]
    return known, {str(path): (path.stat().st_mode, path.read_bytes()) for path in files}


def subjects(stage: Stage) -> list[str]:
    return stage.scene.git("log", "--format=%s", "--reverse", "main..").splitlines()


def prompts(model: ScriptedModel, words: str) -> list[str]:
    return [heard.last() for heard in model.heard if heard.turns[-1][0] == "user" and words in heard.last()]


def test_a_step_that_breaks_a_test_is_done_another_way_and_all_of_it_can_be_taken_back(refactored: Open) -> None:
    stage, model = refactored(rehearsal.answer)
    before = state(stage)
    run = stage.exec()
    assert run.code == 0, run.err
    assert run.run["tasks"]["steps[0]"]["attempts"] == 2 and run.status("steps[0]/apply") == "rolled_back"
    assert "steps[0]/test` failed: 2 of 2 tests failed: tests.test_prices.test_gross" in prompts(model, EXTRACT)[1]
    assert subjects(stage) == ["Extract percent()", "Return at once"]
    assert "Planrunner-Task: steps[0]@2/commit" in stage.scene.git("log", "--format=%B", "main..")
    branch = run.run["outputs"]["branch"]
    assert stage.scene.git("status", "--short", "--branch") == f"## {branch}"
    assert run.run["outputs"]["commits"] == stage.scene.git("log", "--format=%H", "--reverse", "main..").splitlines()
    assert stage.scene.git("show", "main:prices.py") == rehearsal.FILES["prices.py"].rstrip("\n")
    assert stage.planrunner("replay", "last").code == 0

    assert stage.planrunner("rollback", "last").code == 0
    assert state(stage) == before


@pytest.mark.parametrize(
    ("diffs", "reasons"),
    [((BREAKS, MISFIT), ("tests failed", "does not fit")), ((CHEATS, BREAKS), ("params.protected", "tests failed"))],
    ids=["misfit", "breaks"],
)
def test_a_step_that_fails_twice_leaves_everything_as_it_was(
    refactored: Open, diffs: tuple[str, str], reasons: tuple[str, str]
) -> None:
    stage, model = refactored(proposing(RETURN, *diffs))
    before = state(stage)
    run = stage.exec()
    assert (run.code, run.run["status"], run.run["reason"]) == (1, "failed", "rolled_back"), run.out
    assert run.status("steps[0]@2/commit") == "rolled_back"
    assert reasons[0] in prompts(model, RETURN)[1] and reasons[1] in run.run["tasks"]["steps"]["detail"]
    assert len(prompts(model, RETURN)) == 2
    assert state(stage) == before


def test_a_person_sees_each_diff_before_it_is_applied(refactored: Open) -> None:
    stage, model = refactored(rehearsal.answer)
    before = state(stage)
    run = stage.exec("-p", "review=true")
    assert run.code == 8, run.err
    assert state(stage)[1] == before[1], "nothing is applied yet"
    assert "+    return amount * rate // 100" in json.dumps(decide(stage, "reject", "--reason", "divide exactly"))
    run = stage.resume()
    assert run.code == 8, run.err
    assert "divide exactly" in prompts(model, "divide exactly")[0]
    for _ in range(2):
        decide(stage, "reject", "--reason", "no")
        run = stage.resume()
    assert (run.code, run.run["reason"]) == (7, "rolled_back"), run.out
    assert state(stage) == before


def decide(stage: Stage, decision: str, *words: str) -> Json:
    """Answer the gate that waits."""
    gate = json.loads(stage.planrunner("gates", "last", "--json").out)["gates"][0]
    assert stage.planrunner(decision, "last", gate["gate"], *words).code == 0
    return gate


def test_killed_again_and_again_it_commits_each_step_once(refactored: Open) -> None:
    stage, model = refactored(rehearsal.answer)
    stage.exec_killed(at="branch")
    for at in ("steps[[]0[]]/apply", "steps[[]0[]]@2/commit"):
        stage.killed(at, "resume", "last", "--unattended")
    run = stage.resume()
    assert run.code == 0, run.err
    assert subjects(stage) == ["Extract percent()", "Return at once"]
    assert stage.scene.git("status", "--short") == ""
    asked = [json.dumps(heard.body, sort_keys=True) for heard in model.heard]
    assert len(asked) == len(set(asked)) == 7


def test_nothing_is_asked_where_the_tests_fail_or_the_tree_has_changes(refactored: Open) -> None:
    stage, model = refactored(rehearsal.answer)
    stage.scene.write({"prices.py": "def gross(net): ..."})
    assert stage.exec().code == 1
    stage.scene.git("commit", "-qam", "Break it")
    run = stage.exec()
    assert (run.code, run.status("before")) == (1, "failed")
    assert model.heard == []
