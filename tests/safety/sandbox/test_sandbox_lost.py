"""Files that a task leaves in the home or the temporary folder of its sandbox: they are gone, and the run tells it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workbench
from sandbox_project import STRICT, Project, needs_bubblewrap, needs_landlock

from planrunner.machine.events import Outcome
from planrunner.plan.rights import Level

LANDLOCK = Level("task t", {"sandbox": "landlock"})


def lost(outcome: Outcome) -> list[tuple[str, int]]:
    return [(row["what"], row["count"]) for row in outcome.refused if row["rule"] == "sandbox.lost"]


@needs_bubblewrap
def test_files_left_in_the_home_and_in_tmp_are_told(project: Project) -> None:
    outcome = project.run("mkdir ~/out && echo y > ~/out/z && echo y > /tmp/w", STRICT)
    assert (outcome.failure, lost(outcome)) == ("", [("$HOME/out/z, /tmp/w", 2)])


@needs_landlock
def test_files_left_in_the_home_of_landlock_are_told(project: Project) -> None:
    outcome = project.run("mkdir ~/out && echo y > ~/out/z && echo y > $TMPDIR/w && mktemp", LANDLOCK)
    assert (outcome.failure, lost(outcome)) == ("", [("$HOME/out/z, $HOME/w", 2)])


@needs_bubblewrap
@pytest.mark.parametrize(
    "script",
    [
        "f=$(mktemp) && echo y > $f && rm $f",
        "mktemp -d && mktemp",
        "mkdir -p ~/.cache/pip ~/.npm && echo y > ~/.cache/pip/a && echo y > ~/.npm/b && echo y > ~/.bashrc",
        "mkdir -p ~/go/pkg/mod && echo y > ~/go/pkg/mod/a",
        "mkdir -p /tmp/pytest-of-nobody/pytest-0 && echo y > /tmp/pytest-of-nobody/pytest-0/a",
        "mkdir ~/empty && ln -s /etc/passwd ~/link",
        "echo y > made.txt && cat src/one.txt",
    ],
)
def test_caches_and_temporary_files_are_not_told(project: Project, script: str) -> None:
    outcome = project.run(script, STRICT)
    assert (outcome.failure, outcome.refused) == ("", ())


@needs_bubblewrap
def test_five_are_told_by_name_and_the_rest_are_counted(project: Project) -> None:
    outcome = project.run("for n in 1 2 3 4 5 6 7 8; do echo y > ~/f$n; done", STRICT)
    assert lost(outcome) == [("$HOME/f1, $HOME/f2, $HOME/f3, $HOME/f4, $HOME/f5, 3 more", 8)]


@needs_bubblewrap
def test_a_name_without_end_is_counted_and_not_told(project: Project) -> None:
    outcome = project.run("echo y > ~/$(head -c 250 /dev/zero | tr '\\0' a)", STRICT)
    assert lost(outcome) == [("1 more", 1)]


@needs_bubblewrap
def test_lost_files_are_no_failure_and_change_none(project: Project) -> None:
    outcome = project.run("echo y > ~/z; exit 3", STRICT)
    assert (outcome.failure, outcome.exit_code, outcome.message) == ("logic", 3, "exit code 3")
    assert lost(outcome) == [("$HOME/z", 1)]


@needs_bubblewrap
def test_what_a_task_that_was_ended_wrote_is_told_as_well(project: Project) -> None:
    outcome = project.run("echo y > ~/z; yes", Level("task t", {"sandbox": {"output": "1MB"}}))
    assert (outcome.rule, lost(outcome)) == ("sandbox.output", [("$HOME/z", 1)])


@pytest.fixture
def in_tmp() -> Iterator[Project]:
    folder = tempfile.mkdtemp(dir="/tmp")
    project = Project(Path(folder))
    project.folder = Path(folder)
    (project.folder / "src").mkdir(exist_ok=True)
    yield project
    shutil.rmtree(folder)


@needs_bubblewrap
def test_beside_a_project_in_tmp_nothing_can_be_written(in_tmp: Project) -> None:
    outcome = in_tmp.run("echo x > ../report.txt", STRICT)
    assert outcome.failure == "logic" and "Read-only file system" in outcome.stderr, outcome


@needs_bubblewrap
def test_a_project_in_tmp_has_a_home_and_temporary_files_all_the_same(in_tmp: Project) -> None:
    outcome = in_tmp.run("f=$(mktemp) && echo y > $f && echo y > ~/z && echo made > made.txt", STRICT)
    assert (outcome.failure, lost(outcome)) == ("", [("$HOME/z", 1)])
    assert (in_tmp.folder / "made.txt").read_text() == "made\n"


PLAN = """\
plan: losing
defaults: {timeout: 1m}
tasks:
  - {id: calm, policy: {files: {write: ["build/**"]}}, run: "mkdir ~/out; echo y > ~/out/z"}
  - {id: fails, policy: {sandbox: true}, run: "echo y > /tmp/w; exit 3"}
  - {id: python, policy: {sandbox: true}, uses: python.run, with: {code: "open('/tmp/p', 'w').write('1')"}}
"""


@needs_bubblewrap
def test_the_run_tells_it_wherever_it_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "losing.yaml").write_text(PLAN)

    def told(*arguments: str) -> Any:
        command = [sys.executable, "-m", "planrunner", *arguments]
        env = {**os.environ, "PYTHONPATH": str(workbench.ROOT), "NO_COLOR": "1"}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    done = told("exec", "losing.yaml", "--progress", "plain")
    for text in (done.stdout + done.stderr, told("show", "last").stdout):
        assert "lost by `calm`:\n    1 file: $HOME/out/z\n" in text
        assert "lost by `python`:\n    1 file: /tmp/p\n" in text
        assert "lost     1 file: /tmp/w" in text
        assert "policy: {files: {write: …}}" in text and "refused" not in text
    tasks = json.loads(told("show", "last", "--json").stdout)["tasks"]
    assert {name: task["refused"][0]["what"] for name, task in tasks.items()} == {
        "calm": "$HOME/out/z",
        "fails": "/tmp/w",
        "python": "/tmp/p",
    }
