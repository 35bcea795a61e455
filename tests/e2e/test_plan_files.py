"""The plans of files through the real command line: what they do, what they show, and that a rollback leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import commands
import pytest
from shown import check_output
from simulator.crashes import die_at, in_child
from workbench import ROOT

from planrunner import errors
from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.app.runs.resume import resume
from planrunner.journal.sqlite import open_journal

EDIT = "plans/capabilities/files-edit.yaml"
TREES = "plans/capabilities/files-trees.yaml"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "plans/capabilities", tmp_path / "plans/capabilities")
    (tmp_path / "planrunner.yaml").write_text("")
    return tmp_path


def planrunner(folder: Path, *arguments: str, code: int = 0, shows: str = "") -> str:
    """What a command prints; a run that is told which plan it ``shows`` is compared with the gallery."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    ran = commands.run(*arguments, folder=folder, env=env)
    assert ran.code == code, ran.err + ran.out
    if shows:
        check_output(shows, ran.err, code, folder)
    return ran.out


def tree_state(folder: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("build/**/*")):
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
    return found


def test_an_edit_is_taken_back_when_the_check_fails(project: Path) -> None:
    data: dict[str, Any] = json.loads(
        planrunner(project, "exec", EDIT, "--json", code=errors.FAILED, shows="capabilities/files-edit.yaml")
    )
    assert data["tasks"]["check"]["status"] == "failed"
    assert data["tasks"]["by-diff"]["outputs"]["changed"]
    assert not (project / "build").exists()
    planrunner(project, "replay", "last")


def test_an_edit_stays_when_the_check_holds(project: Path) -> None:
    first = json.loads(planrunner(project, "exec", EDIT, "-p", "greeting=hello", "--json"))
    assert first["outputs"]["changed"]
    done = tree_state(project)
    assert done["build/files/docs/usage.txt"][1] == b"greet.sh [NAME]\n"
    assert done["build/files/notes.txt"][1] == b"The program says hello.\n"
    assert done["build/files/greet.sh"][0] & 0o777 == 0o755
    planrunner(project, "replay", "last")
    planrunner(project, "rollback", first["run_id"])
    assert tree_state(project) == {}


def test_the_preview_tells_the_diff(project: Path) -> None:
    told = planrunner(project, "preview", "--changes", EDIT)
    assert "+++ b/build/files/greet.sh" in told
    assert '+echo "hi, $name"' in told
    assert tree_state(project) == {}
    assert not (project / ".planrunner").exists(), "who only looks leaves nothing"


def test_trees_are_kept_and_put_back(project: Path) -> None:
    data = json.loads(planrunner(project, "exec", TREES, "--json", shows="capabilities/files-trees.yaml"))
    assert data["outputs"]["menu"] == "TODAY\n- soup, 4\n- rice, 7\n"
    assert tree_state(project) == {
        "build/menus": (0o040755, b""),
        "build/menus/archive": (0o040755, b""),
        "build/menus/archive/first.txt": (0o100640, data["outputs"]["menu"].encode()),
        "build/menus/today.txt": (0o100640, data["outputs"]["menu"].encode()),
    }
    planrunner(project, "replay", "last")
    planrunner(project, "rollback", "last")
    assert tree_state(project) == {}


@pytest.mark.slow
def test_killed_at_any_write_of_the_journal_the_run_still_takes_everything_back(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = 1 if os.environ.get("PLANRUNNER_FAULTS") == "all" else 7
    monkeypatch.chdir(project)
    state, counter = tmp_path / "state", tmp_path / "writes"

    def run(write: int, stored: bool) -> int:
        die_at(write, stored=stored, told=lambda count, _: counter.write_text(str(count)))
        return execute(ExecRequest(EDIT, state=str(state), seed=1), Silent()).exit_code

    assert in_child(lambda: run(0, False)) == errors.FAILED
    total = int(counter.read_text())
    assert total > 10
    for write in range(2, total, every):
        for stored in (False, True):
            shutil.rmtree(state)
            assert in_child(lambda write=write, stored=stored: run(write, stored)) in (-signal.SIGKILL, errors.FAILED)  # type: ignore[misc]
            journal = open_journal(str(state))
            name = journal.runs()[0].run
            journal.close()
            code = in_child(lambda name=name: resume(name, (), str(state), Silent()).exit_code)  # type: ignore[misc]
            assert code == errors.FAILED, (write, stored)
            assert tree_state(project) == {}, (write, stored)
