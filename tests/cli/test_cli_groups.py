"""``exec --group``: of the runs of one group one goes on at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from workbench import ROOT, planrunner

PLAN = """
plan: deploy
params: {wait: "yes"}
defaults: {timeout: 2m}
tasks:
  - {id: go, run: 'echo started >> log; test {{ params.wait }} = no || until test -e open; do sleep 0.05; done; echo over >> log'}
"""


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begun: list[subprocess.Popen[str]] = []
        (folder / "p.yaml").write_text(PLAN)

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "planrunner", "exec", "p.yaml", "--progress", "plain", *words]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        begun = subprocess.Popen(command, cwd=self.folder, env=environment, stderr=subprocess.PIPE, text=True)
        self.begun.append(begun)
        return begun

    def holder(self, *words: str) -> tuple[subprocess.Popen[str], str]:
        """A run of the group `x` that goes on until the project is opened, and its id."""
        begun = self.start("--group", "x", *words)
        until(lambda: "started" in self.log())
        return begun, json.loads(planrunner(self.folder, "runs", "--json").stdout)["runs"][0]["run_id"]

    def log(self) -> str:
        return (self.folder / "log").read_text() if (self.folder / "log").exists() else ""

    def open(self) -> None:
        (self.folder / "open").touch()


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def first_line(begun: subprocess.Popen[str]) -> str:
    assert begun.stderr is not None
    return begun.stderr.readline()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.open()
    for begun in made.begun:
        begun.kill()
        begun.communicate()


def test_a_run_waits_for_the_one_of_its_group_and_says_for_which(project: Project) -> None:
    _, run = project.holder()
    second = project.start("--group", "x", "-p", "wait=no")
    assert f"run {run} of the group `x` goes on" in first_line(second)
    other = planrunner(project.folder, "exec", "p.yaml", "--group", "y", "-p", "wait=no")
    assert other.returncode == 0, "another group does not wait"
    project.open()
    assert second.wait(240) == 0
    assert project.log().split() == ["started", "started", "over", "over", "started", "over"]
    assert "replays exactly" in planrunner(project.folder, "replay", "last").stdout


def test_one_that_is_to_be_skipped_begins_nothing(project: Project) -> None:
    _, run = project.holder()
    for words in ((), ("--detach",)):
        done = planrunner(project.folder, "exec", "p.yaml", "--group", "x", "--overlap", "skip", *words)
        assert (done.returncode, f"run {run} of the group `x` goes on" in done.stderr) == (9, True), done.stderr
    assert len(json.loads(planrunner(project.folder, "runs", "--json").stdout)["runs"]) == 1


def test_the_newer_one_may_cancel_the_older(project: Project) -> None:
    older, run = project.holder()
    assert project.start("--group", "x", "--overlap", "cancel", "-p", "wait=no").wait(240) == 0
    assert older.wait(240) != 0
    shown = json.loads(planrunner(project.folder, "show", run, "--json").stdout)
    assert (shown["status"], "a newer run of the group `x`" in json.dumps(shown)) == ("cancelled", True)


def test_a_holder_that_is_killed_leaves_its_turn_and_waits_for_it_when_it_goes_on(project: Project) -> None:
    older, run = project.holder()
    second = project.start("--group", "x")
    assert run in first_line(second)
    older.send_signal(signal.SIGKILL)
    until(lambda: project.log().count("started") == 2)
    resumed = subprocess.Popen(
        [sys.executable, "-m", "planrunner", "resume", run, "--settle", "go=completed", "--progress", "plain"],
        cwd=project.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    project.begun.append(resumed)
    assert "of the group `x` goes on" in first_line(resumed)
    project.open()
    assert (second.wait(240), resumed.wait(240)) == (0, 0)


def test_ctrl_c_while_it_waits_begins_nothing(project: Project) -> None:
    _, run = project.holder()
    second = project.start("--group", "x")
    assert run in first_line(second)
    second.send_signal(signal.SIGINT)
    assert second.wait(240) == 130
    assert len(json.loads(planrunner(project.folder, "runs", "--json").stdout)["runs"]) == 1


@pytest.mark.slow
def test_one_in_the_queue_waits_there_and_the_queue_says_for_which(project: Project) -> None:
    _, run = project.holder()
    assert planrunner(project.folder, "exec", "p.yaml", "--group", "x", "--detach", "-p", "wait=no").returncode == 0

    def item() -> dict[str, str]:
        found: dict[str, str] = json.loads(planrunner(project.folder, "queue", "--json").stdout)["items"][0]
        return found

    until(lambda: item()["reason"] == f"run {run} of the group `x` goes on")
    project.open()
    until(lambda: item()["status"] == "completed")


@pytest.mark.parametrize("words", [["--overlap", "skip"], ["--group", " "], ["--group", "x", "--overlap", "wait"]])
def test_what_says_nothing_is_refused(project: Project, words: list[str]) -> None:
    assert planrunner(project.folder, "exec", "p.yaml", *words).returncode == 2
