"""A project to work in, a folder with plans of others beside it, and the command in a real process."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import Ran

sys.path.insert(0, str(Path(__file__).parent))

from trust_terminal import skip_without_a_sandbox
from workbench import ROOT

PLAN = """\
plan: foreign
tasks:
  - {id: a, run: "echo made > made.txt", timeout: 1m}
"""


class Place:
    """``work`` is the project that the command is called in, ``other`` lies beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work, self.other, self.home = folder / "work", folder / "other", folder / "house"
        for each in (self.work, self.other, self.home):
            each.mkdir()
        (self.work / "planrunner.yaml").write_text("")
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("XDG_")},
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def plan(self, text: str = PLAN, name: str = "p.yaml") -> str:
        """Writes a plan of somebody else; its path from the project."""
        (self.other / name).write_text(text, encoding="utf-8")
        return f"../other/{name}"

    def __call__(self, *words: str, cwd: Path | None = None, **env: str) -> Ran:
        ran = commands.run(*words, folder=cwd or self.work, env={**self.env, **env})
        skip_without_a_sandbox(ran.err)
        return ran

    def noted(self, run: str = "last") -> dict[str, Any]:
        """What the record of a run says of its surroundings."""
        rows = [json.loads(line) for line in self("events", run, "--json", "--type", "run_started").out.splitlines()]
        return next(row["environment"] for row in rows if "environment" in row)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
