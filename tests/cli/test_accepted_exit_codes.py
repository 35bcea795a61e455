"""A program whose exit code the criteria accept gives its outputs and artifacts as any other does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from workbench import planrunner

PLAN = """
plan: p
defaults: {timeout: 1m}
tasks:
  - id: count
    run: 'echo a; echo b; echo "n=%s" >> "$PLANRUNNER_OUTPUT"; echo found > found.txt; exit %s'
    outputs: {n: int}
    artifacts: [{name: found, path: found.txt}]
    expect: [exit_code <= 1, outputs.n > 0]
  - id: tell
    needs: [count]
    run: |
      echo {{ tasks.count.outputs.n + 1 }}
"""


def run(folder: Path, n: str, code: int) -> dict[str, dict[str, object]]:
    (folder / "p.yaml").write_text(PLAN % (n, code))
    tasks: dict[str, dict[str, object]] = json.loads(planrunner(folder, "exec", "p.yaml", "--json").stdout)["tasks"]
    return tasks


@pytest.mark.parametrize("code", [0, 1])
def test_outputs_and_artifacts_are_there_whatever_the_accepted_code(tmp_path: Path, code: int) -> None:
    tasks = run(tmp_path, "4", code)
    assert (tasks["count"]["status"], tasks["count"]["outputs"]) == ("completed", {"n": 4})
    assert tasks["tell"]["status"] == "completed"
    assert "5" in planrunner(tmp_path, "logs", "last", "tell").stdout
    assert "found" in planrunner(tmp_path, "artifacts", "list").stdout
    assert "replays exactly" in planrunner(tmp_path, "replay", "last").stdout


@pytest.mark.parametrize(
    ("n", "code", "why"),
    [
        ("4", 2, "`exit_code <= 1` is false"),
        ("0", 1, "`outputs.n > 0` is false"),
        ("many", 1, "the declared output `n` was not given"),
    ],
)
def test_what_is_not_accepted_or_missing_fails(tmp_path: Path, n: str, code: int, why: str) -> None:
    tasks = run(tmp_path, n, code)
    assert tasks["count"]["status"] == "failed"
    assert why in str(tasks["count"]["detail"]) or "has no" in str(tasks["count"]["detail"]), tasks["count"]
