"""Files that tasks had kept are put back when a run goes on from a checkpoint, if people say so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PLAN = """plan: build
defaults: {timeout: 2m}
tasks:
  - id: make
    run: mkdir -p out && echo first > out/a.txt && echo other > out/b.txt
    artifacts: [{name: texts, path: "out/*.txt"}]
  - id: spoil
    needs: [make]
    run: echo second > out/a.txt; rm out/b.txt
    artifacts: [{name: a, path: out/a.txt}]
  - id: end
    needs: [spoil]
    run: cat out/a.txt >> log
"""


@pytest.fixture
def ran(run: Run, tmp_path: Path) -> str:
    (tmp_path / "p.yaml").write_text(PLAN)
    (tmp_path / "planrunner.yaml").write_text("")
    done = run("exec", "p.yaml", "--json")
    assert done.code == 0, done.err
    return str(json.loads(done.out)["run_id"])


def test_nothing_is_written_unless_asked_for(run: Run, ran: str, tmp_path: Path) -> None:
    assert run("fork", ran, "--from", "make").code == 0
    assert (tmp_path / "out" / "a.txt").read_text() == "second\n"
    assert not (tmp_path / "out" / "b.txt").exists()


def test_without_a_yes_files_are_only_shown_and_no_run_is_made(run: Run, ran: str, tmp_path: Path) -> None:
    before = run("runs", "--json").out
    done = run("fork", ran, "--from", "make", "--restore-files")
    assert done.code == 2
    assert "write out/a.txt: its content differs" in done.err
    assert "write out/b.txt: it is missing" in done.err
    assert "--yes" in done.err
    assert (tmp_path / "out" / "a.txt").read_text() == "second\n"
    assert run("runs", "--json").out == before


def test_files_are_as_they_were_and_what_was_there_is_kept(run: Run, ran: str, tmp_path: Path) -> None:
    (tmp_path / "out" / "a.txt").write_text("precious\n")
    (tmp_path / "out" / "a.txt").chmod(0o640)
    done = run("resume", ran, "--from", "make", "--restore-files", "--yes")
    assert done.code == 0, done.err
    assert "wrote out/a.txt; its content is artifact" in done.err
    assert "wrote out/b.txt\n" in done.err
    assert (tmp_path / "log").read_text() == "second\nsecond\n"  # the task after the checkpoint ran again
    kept = {path.read_text() for path in (tmp_path / "state" / "artifacts" / "sha256").rglob("*") if path.is_file()}
    assert {"precious\n", "first\n", "second\n", "other\n"} <= kept
    assert (tmp_path / "out" / "a.txt").stat().st_mode & 0o777 == 0o640


def test_files_of_a_later_task_win_and_what_is_the_same_is_left(run: Run, ran: str, tmp_path: Path) -> None:
    done = run("fork", ran, "--from", "spoil", "--restore-files", "--yes")
    assert done.code == 0, done.err
    assert "out/a.txt" not in done.err
    assert (tmp_path / "out" / "b.txt").read_text() == "other\n"


def test_nothing_is_written_through_a_link_that_leads_outside(run: Run, ran: str, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    (tmp_path / "out").rmdir()
    (tmp_path / "out").symlink_to(outside)
    done = run("fork", ran, "--from", "make", "--restore-files", "--yes")
    assert done.code == 0
    assert "leave out out/a.txt: it lies outside the working directory" in done.err
    assert list(outside.iterdir()) == []


def test_restoring_goes_with_a_checkpoint_only(run: Run, ran: str) -> None:
    assert run("resume", ran, "--restore-files").code == 2
