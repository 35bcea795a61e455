"""The plan of a Dask cluster through the real command line, on two workers of loopback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from shown import check_output
from workbench import ROOT, environment, planrunner

pytest.importorskip("distributed")

from planrunner.testing.dask import Cluster

PLAN = "plans/capabilities/dask.yaml"


def test_shards_are_counted_on_two_workers_and_the_run_replays_without_them(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "plans" / "capabilities").mkdir(parents=True)
    shutil.copy(ROOT / PLAN, project / PLAN)
    with Cluster(tmp_path / "dask", ("gpu=1", ""), threads=1, environment=environment()) as cluster:
        (project / "planrunner.yaml").write_text(f'dask: {{scheduler: "{cluster.address}"}}\n')
        ended = planrunner(project, "exec", PLAN, "--json")
    told = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    check_output("capabilities/dask.yaml", ended.stderr, 0, project)
    assert told["outputs"]["words"].strip() == "2100"
    counted = [task["outputs"] for name, task in told["tasks"].items() if name.startswith("count[")]
    assert [int(outputs["stdout"]) for outputs in counted] == [100, 200, 300, 400, 500, 600]
    assert planrunner(project, "replay", "last").returncode == 0
