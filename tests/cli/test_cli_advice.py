"""Commands that are told in messages do what they promise when they are typed where the person stands."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import commands
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
    return commands.run(*arguments, folder=cwd, env=environment(**extra))


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


def test_the_preview_of_a_rollback_leaves_out_what_was_refused_before_it_acted(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "plan: p\non_failure: continue\ndefaults: {timeout: 1m}\ntasks:\n"
        "  - {id: a, uses: files.write, with: {path: a.txt, content: a}}\n"
        "  - {id: b, uses: files.write, with: {path: ../b.txt, content: b}}\n"
        "  - {id: c, uses: http.download, with: {url: 'http://10.0.0.1/', path: c.txt}}\n"
    )
    assert call(tmp_path, "exec", "p.yaml").code == 12
    lines = call(tmp_path, "rollback", "last", "--preview").out.splitlines()[1:]
    assert sorted(lines) == [
        "  a: files.write takes back what it did",
        "  c: http.download takes back what it did before it was refused, if anything",
    ]
    done = call(tmp_path, "rollback", "last")
    assert "b undone: there was nothing to take back" in done.out + done.err


def test_the_preview_of_a_rollback_says_where_nothing_is_to_be_undone(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "plan: p\ntasks: [{id: b, uses: files.write, with: {path: ../b.txt, content: b}, timeout: 1m}]\n"
    )
    assert call(tmp_path, "exec", "p.yaml").code == 12
    assert call(tmp_path, "rollback", "last", "--preview").out.splitlines()[0].endswith("would undo nothing")


def test_nothing_promises_to_mend_settings(tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text("polcy: {}\nnetwork: {allow: []}\n")
    (tmp_path / "p.yaml").write_text("plan: p\ntasks: [{id: a, run: 'true'}]\n")
    for words in (("config", "check"), ("exec", "p.yaml")):
        ran = call(tmp_path, *words)
        said = ran.out + ran.err
        assert "PLAN003" in said
        assert "fix" not in said
    assert "did you mean `policy`" in said
