"""The playbook ``debugging`` in a repository of 60 commits: each fault is found twice, fixed, proved and told."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from stage import Ran, Stage
from workbench import environment

Staged = Callable[[str], Stage]


def git(stage: Stage, *words: str, cwd: str | Path = ".") -> str:
    return stage.scene.git(*words, cwd=cwd)


def repository(stage: Stage) -> list[str]:
    """Refs, HEAD, index, working trees and files, as far as anybody can tell them apart."""
    paths = [path for path in sorted(stage.folder.rglob("*")) if path.is_file()]
    files = [(path.relative_to(stage.folder), path) for path in paths]
    kept = [(at, path) for at, path in files if at.parts[0] not in (".git", ".planrunner")]
    said = [f"{at} {path.stat().st_mode} {hashlib.sha256(path.read_bytes()).hexdigest()}" for at, path in kept]
    folders = [str(path) for path in stage.folder.rglob("*") if path.is_dir() and ".planrunner" not in path.parts]
    said += sorted(folder for folder in folders if ".git" not in Path(folder).parts)
    asked = (["for-each-ref"], ["symbolic-ref", "HEAD"], ["ls-files", "--stage"], ["status", "--porcelain"])
    said += [git(stage, *words) for words in (*asked, ["worktree", "list", "--porcelain"])]
    return [*said, *(path.name for path in (stage.folder / ".git").iterdir() if path.name.startswith("BISECT"))]


def culprit(stage: Stage) -> str:
    """The planted commit: the one that is neither a new unit nor a rewording."""
    lines = git(stage, "log", "--format=%H %s").splitlines()
    (line,) = (line for line in lines if not re.search(r" (Add the unit|Reword) ", line))
    return line.split()[0]


def is_found_and_fixed(stage: Stage, run: Ran, suspect: str) -> None:
    commit, branch = culprit(stage), run.run["outputs"]["branch"]
    assert (run.code, run.run["status"]) == (0, "completed"), run.out + run.err
    assert run.outputs("bisect")["first_bad"] == commit
    assert run.outputs("compare")["value"][suspect] == commit  # by hypothesis, and only by this one
    assert [name for name, at in run.outputs("compare")["value"].items() if at] == ["bisection", suspect]
    assert run.outputs("pick")["choice"] == suspect
    (report,) = (stage.folder / "postmortems").iterdir()
    assert f"Commit {commit}" in report.read_text() and branch in report.read_text()
    assert git(stage, "log", "--format=%s", f"main..{branch}").split("\n")[0].startswith("Test: ")
    assert git(stage, "log", "--format=%s", f"main..{branch}").split("\n")[1].startswith("Fix: ")
    changed = git(stage, "diff", "--name-only", "main", branch).split()
    assert len(changed) == 2 and changed[1] == "tests/test_regression.py"
    assert git(stage, "worktree", "list").count("\n") == 0
    # the regression test passes with the fix, and fails without it
    for commit_, passes in ((branch, True), ("main", False)):
        tree = stage.folder.parent / f"tree-{passes}"
        git(stage, "worktree", "add", "--detach", str(tree), commit_)
        git(stage, "checkout", branch, "--", "tests/test_regression.py", cwd=tree)
        done = subprocess.run([sys.executable, "-B", "-m", "unittest", "-q"], cwd=tree, capture_output=True)
        assert (done.returncode == 0) is passes, done.stderr
        git(stage, "worktree", "remove", "--force", str(tree))


def test_a_fault_is_found_fixed_and_proved_and_all_of_it_can_be_taken_back(staged: Staged) -> None:
    stage = staged("debugging")
    before = repository(stage)
    is_found_and_fixed(stage, stage.exec("-p", "repeat=1"), "second")
    assert stage.planrunner("rollback", "last").code == 0
    assert repository(stage) == before


def test_a_fault_that_depends_on_the_input_is_found_though_the_bisection_is_killed_in_the_middle(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "cached")
    stage = staged("debugging")
    command = [
        sys.executable,
        "-m",
        "planrunner",
        *stage.scene.command("exec", "-p", "repeat=1"),
        "--progress",
        "quiet",
    ]
    variables = environment(**stage.scene.environment)
    process = subprocess.Popen(command, cwd=stage.folder, env=variables, start_new_session=True)
    while not [folder for folder in (stage.folder / ".planrunner").rglob("*.bisect/measures") if folder.is_dir()]:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    run = stage.resume()
    assert sorted(run.outputs("reproduce")["failures"]) == [0, 0, 0, 1]
    is_found_and_fixed(stage, run, "third")
    assert not list((stage.folder / ".planrunner").rglob("*.bisect"))


def test_changes_that_do_not_help_are_bounded_and_a_person_is_told_what_is_known(
    staged: Staged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULT", "thousands")
    monkeypatch.setenv("MODEL", "useless")
    stage = staged("debugging")
    before = repository(stage)
    run = stage.exec("-p", "repeat=1")
    assert (run.code, run.run["status"], run.status("by-hand")) == (8, "blocked", "blocked")
    assert "fix#3/check" in run.run["tasks"] and "fix#4/check" not in run.run["tasks"]
    found = run.outputs("compare")["value"]
    assert found == {"bisection": culprit(stage), "first": culprit(stage), "second": "", "third": ""}
    assert culprit(stage) in stage.planrunner("gates", "last").out
    assert stage.planrunner("reject", "last", "by-hand", "--reason", "another time").code == 0
    assert stage.resume().run["status"] == "failed"
    (report,) = (stage.folder / "postmortems").iterdir()
    assert f"Commit {culprit(stage)}" in report.read_text() and "Not fixed" in report.read_text()
    assert f"`planrunner show {run.run['run_id']}`" in report.read_text()
    report.unlink()
    report.parent.rmdir()
    assert repository(stage) == before


@pytest.mark.parametrize(
    ("arguments", "end", "why"),
    [
        (["-p", "reproduce=true"], "not-reproduced", "no failure in 1 runs"),
        (["-p", "good=HEAD~3"], "older", "`HEAD~3` fails as well"),
        (["-p", "reproduce=./not-there"], "reproduce", "./not-there: not found"),
        (["-p", "reproduce=exit 125"], "reproduce", "the command cannot tell here"),
        (["-p", "test_file=tests/test_units.py"], "new-test", "`tests/test_units.py` is there already"),
    ],
)
def test_what_cannot_be_searched_for_ends_clearly(staged: Staged, arguments: list[str], end: str, why: str) -> None:
    stage = staged("debugging")
    before = repository(stage)
    run = stage.exec("-p", "repeat=1", *arguments)
    assert (run.code, run.run["status"]) == (1, "failed")
    assert why in run.run["tasks"][end]["detail"]
    (report,) = (stage.folder / "postmortems").iterdir()
    assert why in report.read_text()
    report.unlink()
    report.parent.rmdir()
    assert repository(stage) == before


def test_a_suspect_that_no_model_named_is_not_refuted(staged: Staged) -> None:
    stage = staged("debugging")
    stage.scene.settings["models"] = {"default": "away", "away": {**stage.scene.settings["models"]["scripted"]}}
    stage.scene.settings["models"]["away"]["base_url"] = "http://127.0.0.1:9/v1"
    stage.scene.settings["network"]["private"].append("127.0.0.1:9")
    stage.scene.save()
    run = stage.exec("-p", "repeat=1")
    assert (run.code, run.status("suspects"), run.status("compare")) == (1, "failed", "completed")
    assert stage.planrunner("hypotheses", "last").out.count("no evidence for or against it") == 3
    (report,) = (stage.folder / "postmortems").iterdir()
    assert f"Commit {culprit(stage)}" in report.read_text()
