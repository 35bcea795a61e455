"""The plans of memory and of the knowledge base through the real command line: run, run again, replayed, rolled back."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pgvector
import pytest
import workbench
from shown import check_output
from workbench import ROOT


class Folder:
    """A project that has the plans."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.call = partial(workbench.planrunner, path, XDG_DATA_HOME=str(path / "home"))

    def outputs(self, plan: str, first: bool = False) -> dict[str, Any]:
        """What a run of the plan gives; the first one prints what the gallery shows."""
        done = self.call("exec", plan, "--json")
        assert done.returncode == 0, done.stderr
        if first:
            check_output(f"capabilities/{plan}", done.stderr, 0, self.path)
        outputs: dict[str, Any] = json.loads(done.stdout)["outputs"]
        return outputs


def project(path: Path) -> Folder:
    path.mkdir(exist_ok=True)
    for name in ("memory.yaml", "knowledge.yaml"):
        shutil.copy(ROOT / "plans" / "capabilities" / name, path)
    (path / ".git").mkdir()
    return Folder(path)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return project(tmp_path)


def test_a_second_run_knows_what_the_first_one_learnt(folder: Folder) -> None:
    assert folder.outputs("memory.yaml", first=True) == {"lessons": 0, "times": 1, "best": "mended/how"}
    assert folder.outputs("memory.yaml") == {"lessons": 1, "times": 2, "best": "mended/how"}
    assert "replays exactly" in folder.call("replay", "last").stdout
    assert folder.call("rollback", "last").returncode == 0
    assert folder.outputs("memory.yaml") == {"lessons": 1, "times": 2, "best": "mended/how"}


def test_what_was_found_out_is_kept_as_files_and_taken_back(folder: Folder) -> None:
    assert folder.outputs("knowledge.yaml", first=True) == {"status": "confirmed", "disputed": 2}
    assert len(list((folder.path / "kb").iterdir())) == 4
    assert "## Disputed" in (folder.path / "knowledge.md").read_text()
    assert (
        folder.call("kb", "export").stdout.replace("# Knowledge base", "# The earth", 1)
        == (folder.path / "knowledge.md").read_text()
    )
    assert "replays exactly" in folder.call("replay", "last").stdout
    assert folder.call("rollback", "last").returncode == 0
    assert not (folder.path / "kb").exists() and not (folder.path / "knowledge.md").exists()


def test_what_one_of_a_team_learnt_the_others_recall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_MEMORY", pgvector.empty_database())
    ana, bo = project(tmp_path / "ana"), project(tmp_path / "bo")
    for each in (ana, bo):
        each.path.joinpath("planrunner.yaml").write_text(
            "memory: {project_store: {backend: postgresql, url_env: TEAM_MEMORY}}\n"
        )
    assert "no entries in the project memory yet" in ana.call("memory").stderr
    assert ana.outputs("memory.yaml") == {"lessons": 0, "times": 1, "best": "mended/how"}
    assert bo.outputs("memory.yaml") == {"lessons": 1, "times": 2, "best": "mended/how"}
    assert bo.call("rollback", "last").returncode == 0
    assert ana.outputs("memory.yaml") == {"lessons": 1, "times": 2, "best": "mended/how"}
    assert "replays exactly" in ana.call("replay", "last").stdout
    assert "mended/count" in bo.call("memory", "search", "how often was it mended").stdout
    assert not list((ana.path / ".planrunner" / "memory").glob("project*"))
    exported = bo.call("memory", "export").stdout
    assert json.loads(exported.splitlines()[0])["key"]
