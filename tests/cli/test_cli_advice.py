"""Commands that are told in messages do what they promise when they are typed where the person stands."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, environment

PLAN = """plan: p
on_failure: continue
defaults: {timeout: 1m}
tasks:
  - {id: a, run: "echo hi; false"}
  - {id: sign, gate: approval, ask: "ok?"}
"""


def call(cwd: Path, *arguments: str, **extra: str) -> Ran:
    """The command without a state directory that anything names."""
    done = subprocess.run(
        [sys.executable, "-m", "planrunner", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=cwd,
        env=environment(**extra),
        timeout=240,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A plan in a project of its own, and an empty folder beside it to stand in."""
    project = tmp_path / "it's there"
    (project / ".planrunner").mkdir(parents=True, mode=0o700)
    (project / "p.yaml").write_text(PLAN)
    (tmp_path / "here" / ".git").mkdir(parents=True)
    return project / "p.yaml"


def test_commands_told_about_a_run_of_a_plan_from_elsewhere_find_it(tmp_path: Path, elsewhere: Path) -> None:
    here = tmp_path / "here"
    plan = os.path.relpath(elsewhere, here)
    assert call(here, "trust", plan, "--yes").code == 0
    ran = call(here, "exec", plan)
    assert ran.code == 8, ran.err
    lines = [line.split("left:")[-1].removeprefix("  go on").strip() for line in ran.err.splitlines()]
    told = [shlex.split(line.replace("TEXT", "no"))[1:] for line in lines if line.startswith("planrunner ")]
    assert {"logs", "why", "approve", "reject", "resume"} <= {word for words in told for word in words}
    for words in told:
        if "reject" not in words:
            done = call(here, *words)
            assert done.code in (0, 1, 7, 8) and "no runs" not in done.err, (words, done)


def test_what_a_run_of_ones_own_project_tells_names_no_place(tmp_path: Path, elsewhere: Path) -> None:
    ran = call(elsewhere.parent, "exec", "p.yaml")
    assert ran.code == 8, ran.err
    assert "planrunner approve " in ran.err
    assert "--state" not in ran.err


def test_a_state_directory_from_elsewhere_is_called_one_where_its_runs_are_shown(
    tmp_path: Path, elsewhere: Path
) -> None:
    call(elsewhere.parent, "exec", "p.yaml")
    for name in ("runs", "show"):
        assert "state.foreign" not in call(elsewhere.parent, name).err
    other = tmp_path / "other"
    (other / "data").mkdir(parents=True)
    (other / "q.yaml").write_text("plan: q\ntasks: [{id: a, run: 'true', timeout: 1m}]\n")
    assert call(other, "exec", "q.yaml", XDG_DATA_HOME=str(other / "data")).code == 0  # makes a key
    for name in ("runs", "show"):
        ran = call(elsewhere.parent, name, XDG_DATA_HOME=str(other / "data"))
        assert ran.out
        notes = [line for line in ran.err.splitlines() if line.startswith("note: ")]
        assert len(notes) == 1
        assert "was not written by your planrunner" in notes[0]


def test_votes_keep_to_the_profile_of_the_run(tmp_path: Path, elsewhere: Path) -> None:
    project = elsewhere.parent
    (project / "planrunner.yaml").write_text("profiles: {dev: {}, ci: {}}\n")
    assert call(project, "--profile", "dev", "exec", "p.yaml").code == 8
    for name in ("ci", "none"):
        refused = call(project, "--profile", name, "approve", "last", "sign")
        assert refused.code == 2
        assert f"keeps to that; `{name}` was asked for" in refused.err
        assert call(project, "reject", "last", "sign", "--reason", "no", PLANRUNNER_PROFILE=name).code == 2
    assert call(project, "--profile", "dev", "approve", "last", "sign").code == 0
