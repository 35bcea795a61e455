"""The real command in a real process, in a project of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import Ran
from workbench import ROOT


class Project:
    """A folder in which plans run; runs are kept beside the files of the project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / ".planrunner"
        self.state.mkdir()

    def plan(self, *tasks: dict[str, Any], **keys: Any) -> None:
        document = {"plan": "p", "defaults": {"timeout": "1m"}, "tasks": list(tasks), **keys}
        (self.folder / "plan.json").write_text(json.dumps(document))

    def run(self, *arguments: str, code: int | None = 0, env: dict[str, str] | None = None) -> Ran:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PLANRUNNER", "GIT_"))}
        ran = commands.run(*arguments, folder=self.folder, env={**environment, "PYTHONPATH": str(ROOT), **(env or {})})
        assert code is None or ran.code == code, ran
        return ran

    def data(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").out)

    def first_run(self) -> str:
        return str(self.data("runs")["runs"][-1]["run_id"])

    def git(self, *arguments: str) -> str:
        settings = ["-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main"]
        done = subprocess.run(
            ["git", *settings, *arguments], cwd=self.folder, capture_output=True, text=True, check=True, timeout=240
        )
        return done.stdout.strip()

    def tree(self) -> dict[bytes, Any]:
        """Everything there is but for what planrunner and git keep: content, link or mode by the bytes of its path."""
        found: dict[bytes, Any] = {}
        top = os.fsencode(self.folder)
        for folder, folders, files in os.walk(top):
            for skipped in (b".planrunner", b".git"):
                if skipped in folders:
                    folders.remove(skipped)
            for name in [*folders, *files]:
                path = os.path.join(folder, name)
                mode = os.lstat(path).st_mode
                shown = os.path.relpath(path, top)
                if os.path.islink(path):
                    found[shown] = os.readlink(path)
                elif os.path.isdir(path):
                    found[shown] = mode
                else:
                    with open(path, "rb") as file:
                        found[shown] = (mode, file.read())
        return found


@pytest.fixture
def project(tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)
