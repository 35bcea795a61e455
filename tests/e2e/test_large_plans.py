"""A plan far larger than people write loads, is sound by lint, runs and is shown by the real command."""

from __future__ import annotations

import json
from pathlib import Path

from workbench import planrunner

MANY = 100_000


def test_a_hundred_thousand_tasks_are_linted_run_and_shown(tmp_path: Path) -> None:
    layers = 100
    tasks = [
        {"id": f"t{number}", "uses": "noop", "needs": [f"t{number - MANY // layers}"] * (number >= MANY // layers)}
        for number in range(MANY)
    ]
    (tmp_path / "planrunner.yaml").write_text("")
    (tmp_path / "large.json").write_text(json.dumps({"plan": "large", "tasks": tasks}))
    linted = planrunner(tmp_path, "lint", "large.json", "--format", "json")
    assert (linted.returncode, json.loads(linted.stdout)["findings"]) == (0, [])
    ran = planrunner(tmp_path, "exec", "large.json", "--progress", "quiet")
    assert (ran.returncode, ran.stderr) == (0, "")
    shown = planrunner(tmp_path, "show", "last", "--json")
    statuses = [task["status"] for task in json.loads(shown.stdout)["tasks"].values()]
    assert statuses == ["completed"] * MANY
