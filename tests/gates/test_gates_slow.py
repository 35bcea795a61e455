"""Evidence that takes its time to look at: nothing else waits for it, and a stop does not either."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from planrunner.engine.evidence import examine

SLOW = 2.5
"""Seconds that the git of these tests takes."""

PLAN = """
plan: slow
defaults: {timeout: 30s}
tasks:
  - {id: sign, gate: diff, ask: Are the changes right}
  - id: beside
    loop: {max: 200, until: "tasks.step.stdout != ''", tasks: [{id: step, run: "sleep 0.05; test -e stop && echo over || true"}]}
"""


@pytest.fixture
def slow(project: Any) -> dict[str, str]:
    """A project with a gate that shows a diff, and an environment in which git is slow."""
    project.plan(PLAN)
    real = shutil.which("git")
    if real is None:
        pytest.skip("git is not installed")
    shutil.rmtree(project.path / ".git", ignore_errors=True)
    (project.path / ".gitignore").write_text("*\n")
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        named = ["-c", "user.name=ana", "-c", "user.email=ana@example.com"]
        subprocess.run([real, *named, *words], cwd=project.path, check=True)
    git = project.path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(f'#!/bin/sh\ncase "$*" in *diff*) sleep {SLOW};; esac\nexec {real} "$@"\n')
    git.chmod(0o755)
    return {"PATH": f"{git.parent}:{os.environ['PATH']}"}


def at(project: Any, kind: str, **wanted: Any) -> list[float]:
    found = [event for event in project.events(kind) if wanted.items() <= event.items()]
    return [event["at"] if isinstance(event["at"], float) else _seconds(event["at"]) for event in found]


def _seconds(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def until(project: Any, kind: str, count: int = 1) -> None:
    deadline = time.monotonic() + 20
    while len(project.events(kind)) < count:
        assert time.monotonic() < deadline, kind
        time.sleep(0.1)


def test_other_tasks_go_on_while_evidence_is_looked_at_and_while_a_vote_is_weighed(project: Any, slow: Any) -> None:
    runner = project.start("exec", "p.yaml", **slow)
    until(project, "gate_opened")
    began = time.time()
    voted = project("approve", "last", "sign", **slow)
    took = time.time() - began
    (project.path / "stop").touch()
    runner.communicate(timeout=30)
    assert (runner.returncode, voted.code) == (0, 0), voted.err
    assert took >= SLOW
    ended = at(project, "attempt_ended")
    (asked,), (seen,), (word,) = at(project, "gate_requested"), at(project, "gate_examined"), at(project, "gate_voted")
    assert sum(asked < one < seen for one in ended) >= 10
    assert sum(word - SLOW + 0.3 < one < word for one in ended) >= 10
    gaps = [later - earlier for earlier, later in itertools.pairwise(ended)]
    assert max(gaps) < SLOW / 2
    assert project("replay", "last").code == 0


def test_the_heartbeat_of_a_task_counts_while_evidence_is_looked_at(project: Any, slow: Any) -> None:
    text = "plan: slow\ntasks:\n  - {id: sign, gate: diff, ask: Right}\n"
    project.plan(text + "  - {id: silent, run: sleep 20, heartbeat: 500ms, timeout: 30s, allow_failure: true}\n")
    began = time.monotonic()
    assert project("exec", "p.yaml", **slow).code == 8
    assert time.monotonic() - began < SLOW + 4
    (ended,), (seen,) = at(project, "attempt_ended", task="silent"), at(project, "gate_examined")
    assert ended < seen


@pytest.mark.parametrize(("command", "code"), [(["cancel", "last"], 1), (["pause", "last"], 8), (["ctrl-c"], 130)])
def test_a_stop_does_not_wait_until_evidence_is_looked_at(
    project: Any, slow: Any, command: list[str], code: int
) -> None:
    git = project.path / "bin" / "git"
    git.write_text(git.read_text().replace(f"sleep {SLOW}", "exec sleep 50"))
    project.plan("plan: slow\ntasks:\n  - {id: sign, gate: diff, ask: Right}\n")
    runner = project.start("exec", "p.yaml", **slow)
    until(project, "gate_requested")
    began = time.monotonic()
    if command == ["ctrl-c"]:
        runner.send_signal(signal.SIGINT)
    else:
        assert project(*command).code == 0
    runner.communicate(timeout=20)
    assert runner.returncode == code
    assert time.monotonic() - began < 10
    assert not project.events("gate_opened")


def test_a_run_that_was_stopped_while_evidence_was_looked_at_looks_again(project: Any, slow: Any) -> None:
    project.plan("plan: slow\ntasks:\n  - {id: sign, gate: diff, ask: Right}\n")
    runner = project.start("exec", "p.yaml", **slow)
    until(project, "gate_requested")
    runner.send_signal(signal.SIGINT)
    runner.communicate(timeout=20)
    assert project("resume", "last", **slow).code == 8
    assert project("approve", "last", "sign", "--resume", **slow).code == 0
    assert project("replay", "last").code == 0


def test_a_pipe_is_no_evidence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for look in ({"kind": "file", "path": "pipe"}, {"kind": "schema", "path": "pipe", "schema": "pipe"}):
        (record,), _ = examine((look,), str(tmp_path))
        assert record["problem"] == "pipe: is no regular file"


def test_a_huge_sparse_file_is_digested_while_others_run(project: Any) -> None:
    with open(project.path / "huge", "wb") as file:
        file.truncate(1 << 30)
    project.plan(PLAN.replace("gate: diff", "gate: approval, evidence: [huge]"))
    runner = project.start("exec", "p.yaml")
    until(project, "gate_examined")
    (project.path / "stop").touch()
    runner.communicate(timeout=30)
    assert runner.returncode == 8
    ended = at(project, "attempt_ended")
    (asked,), (seen,) = at(project, "gate_requested"), at(project, "gate_examined")
    assert sum(asked < one < seen for one in ended) >= (seen - asked) / 0.5
