"""A run whose task removes the state directory stops at its next write, and the next run finds nothing in its way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from workbench import planrunner as does

PLAN = """\
plan: p
defaults: {timeout: 1m}
tasks:
  - {id: remove, run: "%s"}
  - {id: then, needs: [remove], run: "echo ran > ran.txt"}
"""
WAYS = {
    "removed": "rm -rf .planrunner",
    "cleaned": "git clean -fdxq -e p.yaml",
    "moved": "mv .planrunner elsewhere",
    "replaced": "rm -rf .planrunner && mkdir .planrunner && touch .planrunner/journal.db",
    "prepared": "rm -rf .planrunner && mkdir -p .planrunner/cache && echo x > .planrunner/cache/known",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_the_run_stops_at_its_next_write_and_says_why(project: Path, way: str) -> None:
    (project / "p.yaml").write_text(PLAN % WAYS[way])
    done = does(project, "exec", "p.yaml")
    assert done.returncode == 11, done.stderr
    assert "the journal of this run is gone" in done.stderr and "planrunner resume" not in done.stderr
    assert not (project / "ran.txt").exists()


@pytest.mark.parametrize("way", ["removed", "moved", "prepared"])
def test_the_next_run_is_not_refused(project: Path, way: str) -> None:
    (project / "p.yaml").write_text(PLAN % WAYS[way])
    does(project, "exec", "p.yaml")
    (project / "p.yaml").write_text(PLAN % "true")
    done = does(project, "exec", "p.yaml")
    assert done.returncode == 0, done.stderr
    assert (project / "ran.txt").exists()


def test_what_lay_there_is_kept_where_nothing_believes_it(project: Path) -> None:
    (project / "p.yaml").write_text(PLAN % WAYS["prepared"])
    does(project, "exec", "p.yaml")
    (known,) = (project / ".planrunner").glob("lost/*/cache/known")
    assert known.read_text() == "x\n" and not (project / ".planrunner" / "cache").exists()


def test_an_artifact_that_cannot_be_kept_is_not_taken_for_a_full_disk(project: Path) -> None:
    task = '  - {id: remove, run: "rm -rf .planrunner; echo x > art", artifacts: [{name: x, path: art}]}\n'
    (project / "p.yaml").write_text(f"plan: p\ndefaults: {{timeout: 1m}}\ntasks:\n{task}")
    done = does(project, "exec", "p.yaml")
    assert done.returncode == 11 and "the journal of this run is gone" in done.stderr, done.stderr
