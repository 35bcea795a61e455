"""What a dry run says of itself: nobody takes it for a run that acted."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from workbench import planrunner

FAILING = {"plan": "p", "tasks": [{"id": "t", "timeout": "1m", "run": "echo {{ 1 / 0 }}"}]}
PLAN = {"plan": "p", "tasks": [{"id": "t", "timeout": "1m", "run": "touch made"}]}


def ran(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "p.json").write_text(json.dumps(PLAN))
    return planrunner(folder, "--state", "state", "exec", "p.json", *words)


@pytest.mark.parametrize("progress", ["plain", "github"])
def test_a_dry_run_says_so_in_its_last_words(tmp_path: Path, progress: str) -> None:
    done = ran(tmp_path, "--dry-run", "--progress", progress)
    assert done.returncode == 0
    assert "dry run" in done.stderr.splitlines()[-1]
    assert "(run 20" not in done.stderr
    assert not (tmp_path / "made").exists()


def test_a_dry_run_says_so_in_its_first_line(tmp_path: Path) -> None:
    assert ran(tmp_path, "--dry-run").stderr.splitlines()[0].startswith("dry run of p: 1 task")


def test_the_data_of_a_dry_run_says_so_and_its_time_is_never_less_than_nothing(tmp_path: Path) -> None:
    done = ran(tmp_path, "--dry-run", "--json")
    found = json.loads(done.stdout)
    assert found["dry_run"] is True
    assert "-0.0" not in done.stdout
    assert "dry_run" not in json.loads(ran(tmp_path, "--json").stdout)


def test_the_lines_of_a_dry_run_say_so_before_everything_else(tmp_path: Path) -> None:
    lines = ran(tmp_path, "--dry-run", "--progress", "jsonl").stdout.splitlines()
    assert json.loads(lines[0])["dry_run"] is True


def test_a_dry_run_that_fails_names_no_command_for_a_run_that_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(json.dumps(FAILING))
    done = planrunner(tmp_path, "--state", "state", "exec", "f.json", "--dry-run")
    assert done.returncode == 1
    assert "t failed" in done.stderr
    assert not [
        word for word in ("logs", "why 20", "resume", "retry") if f"planrunner --state state {word}" in done.stderr
    ]


GUESSED = """
plan: p
defaults: {timeout: 1m}
tasks:
  - {id: find, run: "echo 'hosts=[]' >> $PLANRUNNER_OUTPUT", outputs: {hosts: list}}
  - {id: many, needs: [find], when: "len(tasks.find.outputs.hosts) > 2", foreach: tasks.find.outputs.hosts, run: "echo {{ item }}"}
  - {id: few, needs: [find], when: "len(tasks.find.outputs.hosts) <= 2", run: echo few}
  - {id: always, needs: [find], run: echo always}
"""


def test_what_made_up_outputs_decided_is_told(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(GUESSED)
    said = planrunner(tmp_path, "--state", "state", "exec", "g.yaml", "--dry-run").stderr
    assert "many completed in 0ms, 3 items" in said  # as many as the first comparison wants
    assert "few skipped" in said
    assert "made-up outputs decided in this dry run: `many`, `few`\n" in said
    assert "planrunner --state state preview PLAN" in said
    assert "made-up" not in ran(tmp_path, "--dry-run").stderr
    assert "made-up" not in planrunner(tmp_path, "--state", "state", "exec", "g.yaml").stderr
