"""Packages of a real index are updated in virtual environments by pip; what breaks the tests is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from stage import Stage

NAME = "dependency-update"


def test_each_update_is_tried_by_itself_and_the_good_ones_are_proposed(staged: Callable[[str], Stage]) -> None:
    stage = staged(NAME)
    before = _refs(stage)
    stage.exec_killed(at="install")
    asked = stage.resume()
    assert asked.code == 8
    assert "What 2.0.0 of invoice brings." in stage.planrunner("gates", "last").out
    stage.planrunner("approve", "last", "major[0]")
    stage.planrunner("reject", "last", "major[1]", "--reason", "not now")
    stage.killed("update[[]1]/commit", "resume", "last", "--unattended")
    run = stage.resume()
    assert run.code == 0

    [request] = _requests(stage)
    branch = request["head"]["ref"]
    said = stage.scene.git("log", "--reverse", "--format=%s", f"main..origin/{branch}").splitlines()
    assert said == ["Update invoice to 1.2.1", "Update pricing to 1.1.0", "Update invoice to 2.0.0"]
    pins = stage.scene.git("show", f"origin/{branch}:requirements.txt").splitlines()
    assert pins == ["invoice==2.0.0", "legacy==0.9", "pricing==1.1.0", "shipping==2.3.0"]
    rows = [line for line in request["body"].splitlines() if line.startswith("| ")][1:]
    assert rows == [
        "| invoice | 1.2.0 | 1.2.1 | updated |",
        "| pricing | 1.0.0 | 1.1.0 | updated |",
        "| shipping | 2.3.0 | 2.4.0 | held back: `update[2]/test` failed: exit code 1: FAILED (failures=1) |",
        "| invoice | 1.2.0 | 2.0.0 | updated |",
        "| pricing | 1.0.0 | 2.0.0 | held back: not approved |",
        "| legacy | 0.9 | 0.10 | held back: `allow` excludes it |",
    ]
    assert _left(stage) == []

    assert stage.planrunner("rollback", run.run["run_id"]).code == 0
    assert _refs(stage) == before
    assert [each["state"] for each in _requests(stage)] == ["closed"]
    assert _left(stage) == []


def test_nothing_is_left_where_the_tests_fail_before_any_update(staged: Callable[[str], Stage]) -> None:
    stage = staged(NAME)
    before = _refs(stage)
    run = stage.exec("-p", "test=false")
    assert run.code == 1 and {run.status("test"), run.status("tree")} == {"rolled_back"}
    assert _refs(stage) == before
    assert not (stage.folder / "build").exists()


def _refs(stage: Stage) -> list[str]:
    """What the repository and its remote are at, and what differs in the working tree."""
    return [
        stage.scene.git("for-each-ref"),
        stage.scene.git("for-each-ref", cwd="origin.git"),
        stage.scene.git("symbolic-ref", "HEAD"),
        stage.scene.git("status", "--short"),
        stage.scene.git("worktree", "list"),
    ]


def _requests(stage: Stage) -> list[dict[str, Any]]:
    requests: list[dict[str, Any]] = json.loads((stage.folder / "forge.json").read_text())
    return requests


def _left(stage: Stage) -> list[str]:
    return sorted(path.name for path in (stage.folder / "build").glob("*"))
