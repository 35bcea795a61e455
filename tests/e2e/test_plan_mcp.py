"""The plan of MCP servers through the real command line, with a server that it starts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from shown import check_output
from workbench import ROOT, planrunner

pytest.importorskip("mcp")

PLAN = "plans/capabilities/mcp.yaml"


def test_it_keeps_finds_and_is_refused_and_replays_without_the_server(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "plans" / "capabilities", tmp_path / "plans" / "capabilities")
    shutil.copy(ROOT / "planrunner.yaml", tmp_path)
    assert planrunner(tmp_path, "lint", PLAN).returncode == 0
    ended = planrunner(tmp_path, "exec", PLAN, "--json")
    told = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    check_output("capabilities/mcp.yaml", ended.stderr, 0, tmp_path)
    assert told["outputs"]["names"] == ["first"]
    assert [tool["name"] for tool in told["tasks"]["tools"]["outputs"]["tools"]] == ["keep", "search", "delete"]
    assert told["tasks"]["refused"]["failure"] == "policy"
    (tmp_path / "plans" / "capabilities" / "peers" / "notes.py").unlink()
    assert planrunner(tmp_path, "replay", "last").returncode == 0
