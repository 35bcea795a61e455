"""The plans of git through the real command line: what they do, and that a rollback leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workbench
from shown import check_output
from simulator.crashes import die_at, in_child
from workbench import ROOT

from planrunner import errors
from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.app.runs.resume import resume
from planrunner.journal.sqlite import open_journal

PLAN = "plans/capabilities/git-feature.yaml"
FIXED = {
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Ana"), ("EMAIL", "a@b.org"))
    },
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder: Path, *arguments: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **FIXED}
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, check=True)
    return done.stdout.decode().rstrip("\n")


def project(folder: Path) -> Path:
    """A folder with the plans, the settings and a repository; a file has permissions of its own and
    another time than the index says, another is unknown."""
    shutil.copytree(ROOT / "plans", folder / "plans", ignore=shutil.ignore_patterns(".planrunner"))
    shutil.copy(ROOT / "planrunner.yaml", folder)
    work = folder / "build" / "git" / "work"
    work.mkdir(parents=True)
    git(work, "init", "-q", "-b", "main")
    (work / "greeting.txt").write_text("hi, world\n")
    (work / "staged.txt").write_text("one\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "first")
    (work / "greeting.txt").chmod(0o600)
    os.utime(work / "greeting.txt", (1_600_000_000, 1_600_000_000))
    (work / "untracked").write_text("mine\n")
    return work


def tree_state(work: Path) -> dict[str, Any]:
    """Refs, HEAD, the bytes of the index, and every file with its permissions."""
    own = work / ".git"
    files = {
        str(path.relative_to(work)): (path.stat().st_mode, path.read_bytes())
        for path in sorted(work.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(work).parts
    }
    left = [str(path) for path in own.rglob("*") if path.name.endswith((".lock", ".planrunner"))]
    refs = git(work, "for-each-ref", "--format=%(refname) %(objectname)")
    return {
        "refs": refs,
        "HEAD": (own / "HEAD").read_bytes(),
        "index": (own / "index").read_bytes(),
        "files": files,
        "left": left,
    }


def planrunner(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return workbench.planrunner(folder, *words, PLANRUNNER_STATE=str(folder / "state"))


def test_a_feature_whose_tests_fail_is_taken_back_byte_for_byte(tmp_path: Path) -> None:
    work = project(tmp_path)
    before = tree_state(work)
    ended = planrunner(tmp_path, "exec", PLAN, "--json")
    check_output("capabilities/git-feature.yaml", ended.stderr, ended.returncode, tmp_path)
    told = json.loads(ended.stdout)
    assert ended.returncode == errors.FAILED, ended.stderr
    undone = [name for name, task in told["tasks"].items() if task["status"] == "rolled_back"]
    assert undone == ["branch", "edit", "stage", "commit"]
    assert tree_state(work) == before
    assert planrunner(tmp_path, "replay", "last").returncode == 0


def test_a_feature_whose_tests_pass_stays_until_somebody_rolls_it_back(tmp_path: Path) -> None:
    work = project(tmp_path)
    before = tree_state(work)
    ended = planrunner(tmp_path, "exec", PLAN, "-p", "greeting=hello", "--json")
    told = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert git(work, "log", "--format=%s|%an", f"main..{told['outputs']['branch']}") == "Say hello|Plan"
    assert git(work, "show", "HEAD:greeting.txt") == "hello, world"
    body = git(work, "log", "-1", "--format=%B")
    assert body.endswith(f"Written by a plan.\n\nPlanrunner-Run: {told['run_id']}\nPlanrunner-Task: commit")
    back = planrunner(tmp_path, "rollback", "last")
    assert back.returncode == 0, back.stderr
    assert tree_state(work) == before


def test_the_preview_tells_the_commands_and_the_diff_and_touches_nothing(tmp_path: Path) -> None:
    work = project(tmp_path)
    before = tree_state(work)
    told = planrunner(tmp_path, "preview", PLAN, "--changes")
    assert told.returncode == 0, told.stderr
    assert "$ git add --all -- greeting.txt" in told.stdout
    assert "-m $'Say hey\\n\\nWritten by a plan." in told.stdout
    assert "+hey, world" in told.stdout
    assert tree_state(work) == before


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The peer of the plans on a port of its own; its address is the first line that it prints."""
    command = [sys.executable, str(ROOT / "plans/capabilities/peers/repositories.py"), str(tmp_path / "peer"), "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()


def test_a_fault_is_found_in_a_clone_mended_pushed_and_a_request_opened(
    peer: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert peer.stdout is not None
    url = peer.stdout.readline().strip()
    shutil.copytree(ROOT / "plans", tmp_path / "plans", ignore=shutil.ignore_patterns(".planrunner"))
    settings = (ROOT / "planrunner.yaml").read_text().replace("http://127.0.0.1:8418", url.rpartition("/")[0])
    (tmp_path / "planrunner.yaml").write_text(settings)
    monkeypatch.setenv("FORGE_TOKEN", "forge-login")
    served = tmp_path / "peer" / "served" / "project.git"
    before = git(served, "for-each-ref")
    ended = planrunner(tmp_path, "exec", "plans/capabilities/git-remote.yaml", "-p", f"url={url}", "--json")
    assert ended.returncode == 0, ended.stderr
    check_output("capabilities/git-remote.yaml", ended.stderr, 0, tmp_path)
    told = json.loads(ended.stdout)
    assert told["outputs"]["culprit"] == "Count to 4" and told["outputs"]["request"].endswith("/ana/project/pull/1")
    pushed = told["tasks"]["push"]["outputs"]
    assert git(served, "rev-parse", pushed["ref"]) == pushed["new"] == told["tasks"]["commit"]["outputs"]["commit"]
    assert git(served, "show", f"{pushed['new']}:greeting.txt") == "hello, world"
    back = planrunner(tmp_path, "rollback", "last")
    assert back.returncode == 0, back.stderr
    assert git(served, "for-each-ref") == before and not (tmp_path / "clone").exists()
    peer.kill()
    peer.wait()
    replayed = planrunner(tmp_path, "replay", "last")
    assert replayed.returncode == 0, replayed.stderr


def _writes(folder: Path) -> int:
    """How often the journal is written in a run without a kill."""
    project(folder)
    counter = folder / "writes"

    def told(count: int, _: object) -> None:
        counter.write_text(str(count))

    def work() -> int:
        os.chdir(folder)
        die_at(0, stored=False, told=told)
        return execute(
            ExecRequest(str(folder / PLAN), state=str(folder / "state"), seed=1, vouched=True), Silent()
        ).exit_code

    assert in_child(work) == errors.FAILED
    return int(counter.read_text())


def _killed_and_resumed(folder: Path, write: int, stored: bool) -> bool:
    """Kill a run at a write and let it go on; False where it came to its end before."""
    work = project(folder)
    before, state = tree_state(work), str(folder / "state")

    def run() -> int:
        os.chdir(folder)
        die_at(write, stored=stored, told=lambda _, __: None)
        return execute(ExecRequest(str(folder / PLAN), state=state, seed=1, vouched=True), Silent()).exit_code

    def go_on(run: str) -> int:
        os.chdir(folder)
        return resume(run, (), state, Silent()).exit_code

    killed = in_child(run) == -signal.SIGKILL
    journal = open_journal(state)
    runs = journal.runs()
    journal.close()
    if killed and runs and runs[0].status != "failed":
        code = in_child(lambda: go_on(runs[0].run))
        assert code == errors.FAILED, (write, stored, code)
    assert tree_state(work) == before, (write, stored)
    return killed


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    yield _writes(tmp_path_factory.mktemp("count"))


@pytest.mark.slow
@pytest.mark.limit(600)
@pytest.mark.parametrize("stored", [False, True])
def test_killed_at_any_journal_write_the_feature_is_taken_back_byte_for_byte(
    stored: bool, writes: int, tmp_path: Path
) -> None:
    assert writes > 10
    killed = [_killed_and_resumed(tmp_path / str(write), write, stored) for write in range(1, writes + 1)]
    assert sum(killed) > 10
