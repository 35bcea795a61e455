"""Commands through the real command line: journalled call by call, resumed, undone and replayed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import workbench
from workbench import ROOT


def planrunner(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return workbench.planrunner(folder, *words, PLANRUNNER_STATE=str(folder / "state"))


def run(folder: Path, plan: str) -> dict[str, Any]:
    (folder / "x.yaml").write_text(plan)
    ended = planrunner(folder, "exec", "x.yaml", "--json")
    return dict(json.loads(ended.stdout), stderr=ended.stderr)


def test_the_plan_of_commands_runs_and_replays_the_same(tmp_path: Path) -> None:
    shutil.copy(ROOT / "plans" / "commands.yaml", tmp_path)
    ended = planrunner(tmp_path, "exec", "commands.yaml", "--json")
    told = json.loads(ended.stdout)
    assert ended.returncode == 0 and told["outputs"] == {"said": "good morning"}
    assert told["tasks"]["collect"]["outputs"]["facts"]["value"] == {"text": "good morning", "size": 12, "new": True}
    assert told["tasks"]["collect/page"]["attempts"] == 1
    replayed = planrunner(tmp_path, "replay", "last")
    assert replayed.returncode == 0, replayed.stderr


def test_a_killed_run_goes_on_at_the_call_it_was_killed_in(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "plan: p\ntasks:\n  - id: a\n    timeout: 2m\n    on_doubt: retry\n    command: |\n"
        "      shell('echo once >> log') -> one\n"
        "      shell('test -e died || { touch died; kill -9 $PPID; sleep 5; }') -> two\n"
        "      files.read('log') -> three\n"
    )
    assert planrunner(tmp_path, "exec", "x.yaml").returncode == -9
    resumed = planrunner(tmp_path, "resume", "last", "--json")
    told = json.loads(resumed.stdout)
    assert resumed.returncode == 0, resumed.stderr
    assert told["tasks"]["a"]["outputs"]["three"]["content"] == "once\n"
    assert [told["tasks"][f"a/{name}"]["status"] for name in ("one", "two", "three")] == ["completed"] * 3
    assert planrunner(tmp_path, "replay", "last").returncode == 0


def test_a_call_that_fails_ends_the_sequence_and_names_the_call(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        "plan: p\ntasks:\n  - id: a\n    timeout: 2m\n"
        "    command: noop(1) -> one; files.read('gone.txt') -> two; noop(two) -> three\n",
    )
    assert told["exit_code"] == 1
    assert [told["tasks"][f"a/{name}"]["status"] for name in ("one", "two", "three")] == [
        "completed",
        "failed",
        "omitted",
    ]
    assert "gone.txt" in told["tasks"]["a"]["detail"]
    assert "files.read('gone.txt') -> two" in told["stderr"]


def test_each_call_counts_against_the_budget(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        "plan: p\nbudgets: {attempts: 2}\ntasks:\n  - id: a\n    command: noop(1) -> one; noop(2) -> two; noop(3) -> three\n",
    )
    assert told["exit_code"] == 6
    assert told["budget"]["attempts"]["used"] == 2


def test_each_call_is_undone_by_itself_and_then_the_command_by_its_own_rollback(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("old")
    told = run(
        tmp_path,
        "plan: p\non_failure: rollback\ndefaults: {timeout: 2m}\ntasks:\n  - id: a\n"
        "    command: files.write('x.txt', content='new') -> x; files.write('y.txt', content='new') -> y\n"
        "    rollback: {run: cp x.txt seen.txt}\n"
        "  - {id: b, needs: [a], uses: fail}\n",
    )
    assert {told["tasks"][name]["status"] for name in ("a", "a/x", "a/y")} == {"rolled_back"}
    assert (tmp_path / "x.txt").read_text() == (tmp_path / "seen.txt").read_text() == "old"
    assert not (tmp_path / "y.txt").exists()


def test_names_in_commands_reach_a_shell_as_data(tmp_path: Path) -> None:
    hostile = "'; touch hacked; echo '$(touch hacked)"
    (tmp_path / "x.yaml").write_text(
        "plan: p\nparams: {word: string}\ntasks:\n  - id: a\n    timeout: 2m\n    stdout: text\n"
        "    command: noop(word) -> said; shell('echo {{ tasks.said.outputs.value }}') -> out\n"
    )
    ended = planrunner(tmp_path, "exec", "x.yaml", "-p", f"word={hostile}", "--json")
    assert ended.returncode == 0, ended.stderr
    assert not (tmp_path / "hacked").exists()
    assert hostile in json.dumps(json.loads(ended.stdout)["tasks"]["a"]["outputs"]["out"], ensure_ascii=False)


def test_a_question_is_researched_in_three_calls_on_a_real_web_and_replays_without_it(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "plans" / "capabilities", tmp_path / "plans")
    (tmp_path / "planrunner.yaml").write_text("network:\n  private: [127.0.0.1, '::1']\n")
    web = subprocess.Popen(
        [sys.executable, str(ROOT / "plans" / "capabilities" / "peers" / "research_web.py"), "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert web.stdout is not None
    try:
        address = web.stdout.readline().strip()
        ended = planrunner(tmp_path, "exec", "plans/commands-research.yaml", "-p", f"server={address}", "--json")
    finally:
        web.terminate()
        web.wait(240)
        web.stdout.close()
    told = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert "RFC 9438" in told["outputs"]["bibliography"] and told["outputs"]["first"].startswith("http://")
    assert told["tasks"]["collect/docs"]["status"] == "completed"
    assert 0 < told["budget"]["calls"]["used"] <= 15
    replayed = planrunner(tmp_path, "replay", "last")
    assert replayed.returncode == 0, replayed.stderr
