"""The plan of checks through the real command line, with real tools."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import workbench
from shown import check_output
from workbench import ROOT


def planrunner(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return workbench.planrunner(folder, *words, PLANRUNNER_STATE=str(folder / "state"))


def test_every_tool_gives_evidence_that_decides_and_it_replays_without_the_tools(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "plans" / "capabilities", tmp_path / "plans" / "capabilities")
    plan = "plans/capabilities/validate.yaml"
    assert planrunner(tmp_path, "lint", plan).returncode == 0
    ended = planrunner(tmp_path, "exec", plan, "-p", f"python={sys.executable}", "--json")
    assert ended.returncode == 0, ended.stderr
    check_output("capabilities/validate.yaml", ended.stderr, 0, tmp_path)
    told = json.loads(ended.stdout)
    assert told["outputs"]["verdict"] == {
        "failed": 1,
        "example": "test_two_halves_are_the_whole(\n    cents=1,\n)",
        "rules": ["F401", "return-value", "B307"],
        "settings": "build/validate/settings.yaml:1",
    }
    left = {path.name for path in (tmp_path / "build" / "validate").iterdir()}
    assert left == {"ruff.toml", "settings.yaml", "shop.py", "test_shop.py"}
    assert planrunner(tmp_path, "replay", "last").returncode == 0
