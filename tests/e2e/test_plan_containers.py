"""The plans of containers and clusters through the real command line, with stand-ins for the clients: what is asked, and
that a rollback leaves what there was."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import workbench
from shown import check_output
from workbench import ROOT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "plans", tmp_path / "plans")
    shutil.copy(ROOT / "planrunner.yaml", tmp_path)
    (tmp_path / ".planrunner").mkdir(mode=0o700)
    peer = ROOT / "plans/playbooks/parts/deploy/recording_clients.py"
    subprocess.run([sys.executable, str(peer), str(tmp_path / "build" / "clients")], check=True)
    return tmp_path


def planrunner(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    clients = f"{folder}/build/clients:{os.environ['PATH']}"
    return workbench.planrunner(folder, *words, **{"PATH": clients, "NO_COLOR": "1", **more})


def run(folder: Path, plan: str, *words: str, **more: str) -> dict[str, Any]:
    ended = planrunner(folder, "exec", f"plans/capabilities/{plan}.yaml", "--json", *words, **more)
    assert ended.stdout, ended.stderr
    return dict(json.loads(ended.stdout), stderr=ended.stderr)


def world(folder: Path) -> dict[str, Any]:
    path = folder / "build" / "clients" / "world.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def calls(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "build/clients/calls.jsonl").read_text().splitlines()]


def test_an_image_is_built_named_and_tried_and_the_run_replays_without_an_engine(project: Path) -> None:
    told = run(project, "containers")
    assert told["exit_code"] == 0, told["stderr"]
    check_output("capabilities/containers.yaml", told["stderr"], 0, project)
    assert world(project)["images"][told["outputs"]["image"]]["RepoTags"] == ["shop/web:1.4.2", "shop/web:live"]
    assert told["tasks"]["try"]["outputs"]["stdout"] == "it runs\n"
    asked = next(call["arguments"] for call in calls(project) if call["arguments"][0] == "run")
    assert asked[asked.index("--network") + 1] == "none"
    shutil.rmtree(project / "build" / "clients")
    assert planrunner(project, "replay", "last").returncode == 0


def test_a_trial_that_fails_takes_name_image_and_file_back(project: Path) -> None:
    told = run(project, "containers", "-p", "trial=nothing")
    assert told["exit_code"] == 1
    statuses = {name: task["status"] for name, task in told["tasks"].items()}
    assert statuses == {"dockerfile": "rolled_back", "build": "rolled_back", "name": "rolled_back", "try": "failed"}
    assert world(project)["images"] == {}
    assert not (project / "build/image/Dockerfile").exists()


def test_a_preview_tells_the_exact_calls_and_makes_none_of_them(project: Path) -> None:
    (project / "build/image").mkdir()
    (project / "build/image/Dockerfile").write_text("FROM alpine:3\n")
    told = planrunner(project, "preview", "--changes", "plans/capabilities/containers.yaml")
    assert told.returncode == 0, told.stderr
    assert "docker build --tag shop/web:1.4.2 --label planrunner.key=" in told.stdout
    assert world(project).get("images", {}) == {}


def test_a_rollout_that_gets_ready_stays(project: Path) -> None:
    told = run(project, "cluster", SHOP_PASSWORD="s3cret")
    assert told["exit_code"] == 0, told["stderr"]
    check_output("capabilities/cluster.yaml", told["stderr"], 0, project)
    assert told["tasks"]["ready"]["outputs"]["available"] == 2
    assert list(world(project)["objects"]) == ["Secret/shop/settings", "Deployment/shop/web"]
    assert "s3cret" not in json.dumps([call["arguments"] for call in calls(project)])
    shutil.rmtree(project / "build" / "clients")
    assert planrunner(project, "replay", "last").returncode == 0


def test_a_rollout_that_stands_still_is_taken_back_with_its_settings(project: Path) -> None:
    told = run(project, "cluster", "-p", "stall=stall")
    assert told["exit_code"] == 1
    assert "the rollout of deployment/web is not complete" in told["tasks"]["ready"]["detail"]
    assert world(project)["objects"] == {}
    assert told["tasks"]["web"]["status"] == told["tasks"]["settings"]["status"] == "rolled_back"


@pytest.mark.slow
def test_a_rollout_over_an_older_one_goes_back_to_it(project: Path) -> None:
    assert run(project, "cluster")["exit_code"] == 0
    was = world(project)["objects"]["Deployment/shop/web"]["spec"]
    assert run(project, "cluster", "-p", "stall=stall", "-p", "image=shop/web:2")["exit_code"] == 1
    assert world(project)["objects"]["Deployment/shop/web"]["spec"] == was
