"""The plans of memory and of the knowledge base through the real command line: run, run again, replayed, rolled back."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

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


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for name in ("memory.yaml", "knowledge.yaml"):
        shutil.copy(ROOT / "plans" / "capabilities" / name, tmp_path)
    (tmp_path / ".git").mkdir()
    return Folder(tmp_path)


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
