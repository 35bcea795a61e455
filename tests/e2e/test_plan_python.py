"""The plan of Python through the real command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import workbench
from shown import check_output
from workbench import ROOT


def planrunner(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return workbench.planrunner(folder, *words, PLANRUNNER_STATE=str(folder / "state"))


def test_functions_and_lines_run_and_replay_the_same_without_their_files(tmp_path: Path) -> None:
    bare = shutil.ignore_patterns("__pycache__", ".planrunner")
    shutil.copytree(ROOT / "plans" / "capabilities", tmp_path / "plans" / "capabilities", ignore=bare)
    plan = "plans/capabilities/python.yaml"
    assert planrunner(tmp_path, "lint", plan).returncode == 0
    ended = planrunner(tmp_path, "exec", plan, "--json")
    check_output("capabilities/python.yaml", ended.stderr, ended.returncode, tmp_path)
    told = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert told["outputs"] == {"label": "bread and tea: 15.05 EUR"}
    assert told["tasks"]["total"]["outputs"] == {"amount": "15.05", "currency": "EUR", "names": ["bread", "tea"]}
    assert told["tasks"]["wrong"]["detail"] == '`args.items[0].count` has to be a whole number, found "many"'
    assert "adding up 2 items" in planrunner(tmp_path, "logs", "last", "total").stdout
    assert not list(tmp_path.rglob("__pycache__"))
    shutil.rmtree(tmp_path / "plans" / "capabilities" / "parts")
    replayed = planrunner(tmp_path, "replay", "last")
    assert replayed.returncode == 0, replayed.stderr


def test_a_preview_shows_the_call_and_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        'plan: p\ntasks:\n  - {id: a, uses: python.run, timeout: 2m, with: {code: \'open("made", "w")\', args: {n: 1}}}\n'
    )
    shown = planrunner(tmp_path, "preview", "x.yaml", "--changes")
    assert shown.returncode == 0, shown.stderr
    assert 'open("made", "w")' in shown.stdout
    assert not (tmp_path / "made").exists()


def test_hypothesis_writes_tests_that_find_a_bug_and_all_of_it_is_taken_back(tmp_path: Path) -> None:
    pytest.importorskip("black")
    plan = tmp_path / "plans" / "python-tests.yaml"
    plan.parent.mkdir()
    shutil.copy(ROOT / "plans" / "capabilities" / plan.name, plan)
    assert planrunner(tmp_path, "lint", str(plan)).returncode == 0
    (tmp_path / ".planrunner").mkdir(mode=0o700)
    ended = planrunner(tmp_path, "exec", str(plan), "-p", f"python={sys.executable}", "--json")
    check_output("capabilities/python-tests.yaml", ended.stderr, ended.returncode, tmp_path)
    told = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert (told["outputs"]["counts"]["total"], told["outputs"]["counts"]["failed"]) == (1, 1)
    assert "people=0" in told["outputs"]["found"]
    assert planrunner(tmp_path, "rollback", "last").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".planrunner", "plans", "state"]
