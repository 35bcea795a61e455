"""Evidence that takes its time to look at: nothing else waits for it, and a stop does not either."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planrunner.engine.evidence import examine

PLAN = """
plan: slow
defaults: {timeout: 2m}
tasks:
  - {id: sign, gate: diff, ask: Are the changes right}
  - id: beside
    loop: {max: 5000, until: "tasks.step.stdout != ''", tasks: [{id: step, run: "sleep 0.05; test -e stop && echo over || true"}]}
"""


@pytest.fixture
def slow(project: Any) -> Iterator[dict[str, str]]:
    """A project with a gate that shows a diff, and an environment in which git waits for the file `looked`."""
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
    wait = "touch looking; until test -e looked; do sleep 0.05; done"
    git.write_text(f'#!/bin/sh\ncase "$*" in *diff*) {wait};; esac\nexec {real} "$@"\n')
    git.chmod(0o755)
    yield {"PATH": f"{git.parent}:{os.environ['PATH']}"}
    (project.path / "looked").touch()


def others_go_on(project: Any) -> None:
    """Hold git back until other tasks have ended beside it."""
    while not (project.path / "looking").exists():
        time.sleep(0.05)
    until(project, "attempt_ended", len(project.events("attempt_ended")) + 3)
    (project.path / "looking").unlink()
    (project.path / "looked").touch()


def at(project: Any, kind: str, **wanted: Any) -> list[float]:
    found = [event for event in project.events(kind) if wanted.items() <= event.items()]
    return [event["at"] if isinstance(event["at"], float) else _seconds(event["at"]) for event in found]


def _seconds(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def until(project: Any, kind: str, count: int = 1) -> None:
    deadline = time.monotonic() + 240
    while len(project.events(kind)) < count:
        assert time.monotonic() < deadline, kind
        time.sleep(0.1)


def test_other_tasks_go_on_while_evidence_is_looked_at_and_while_a_vote_is_weighed(project: Any, slow: Any) -> None:
    runner = project.start("exec", "p.yaml", **slow)
    others_go_on(project)
    until(project, "gate_opened")
    (project.path / "looked").unlink()
    voter = project.start("approve", "last", "sign", **slow)
    others_go_on(project)
    told = voter.communicate(timeout=240)[1]
    (project.path / "stop").touch()
    runner.communicate(timeout=240)
    assert (runner.returncode, voter.returncode) == (0, 0), told
    ended = at(project, "attempt_ended")
    (asked,), (seen,), (word,) = at(project, "gate_requested"), at(project, "gate_examined"), at(project, "gate_voted")
    assert sum(asked < one < seen for one in ended) >= 3
    assert sum(seen < one < word for one in ended) >= 3
    assert project("replay", "last").code == 0


def test_the_heartbeat_of_a_task_counts_while_evidence_is_looked_at(project: Any, slow: Any) -> None:
    text = "plan: slow\ntasks:\n  - {id: sign, gate: diff, ask: Right}\n"
    project.plan(text + "  - {id: silent, run: sleep 600, heartbeat: 500ms, timeout: 10m, allow_failure: true}\n")
    runner = project.start("exec", "p.yaml", **slow)
    until(project, "attempt_ended")
    (project.path / "looked").touch()
    runner.communicate(timeout=240)
    assert runner.returncode == 8
    (ended,), (seen,) = at(project, "attempt_ended", task="silent"), at(project, "gate_examined")
    assert ended < seen


@pytest.mark.parametrize(("command", "code"), [(["cancel", "last"], 1), (["pause", "last"], 8), (["ctrl-c"], 130)])
def test_a_stop_does_not_wait_until_evidence_is_looked_at(
    project: Any, slow: Any, command: list[str], code: int
) -> None:
    project.plan("plan: slow\ntasks:\n  - {id: sign, gate: diff, ask: Right}\n")
    runner = project.start("exec", "p.yaml", **slow)
    until(project, "gate_requested")
    if command == ["ctrl-c"]:
        runner.send_signal(signal.SIGINT)
    else:
        assert project(*command).code == 0
    runner.communicate(timeout=240)
    assert runner.returncode == code
    assert not project.events("gate_opened")
    assert not project.events("gate_examined")


def test_a_run_that_was_stopped_while_evidence_was_looked_at_looks_again(project: Any, slow: Any) -> None:
    project.plan("plan: slow\ntasks:\n  - {id: sign, gate: diff, ask: Right}\n")
    runner = project.start("exec", "p.yaml", **slow)
    until(project, "gate_requested")
    runner.send_signal(signal.SIGINT)
    runner.communicate(timeout=240)
    (project.path / "looked").touch()
    assert project("resume", "last", **slow).code == 8
    assert project("approve", "last", "sign", "--resume", **slow).code == 0
    assert project("replay", "last").code == 0


def test_a_pipe_is_no_evidence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for look in ({"kind": "file", "path": "pipe"}, {"kind": "schema", "path": "pipe", "schema": "pipe"}):
        (record,), _ = examine((look,), str(tmp_path))
        assert record["problem"] == "pipe: is not a regular file"


def test_a_huge_sparse_file_is_digested_while_others_run(project: Any) -> None:
    with open(project.path / "huge", "wb") as file:
        file.truncate(1 << 30)
    project.plan(PLAN.replace("gate: diff", "gate: approval, evidence: [huge]"))
    runner = project.start("exec", "p.yaml")
    until(project, "gate_examined")
    (project.path / "stop").touch()
    runner.communicate(timeout=240)
    assert runner.returncode == 8
    ended = at(project, "attempt_ended")
    (asked,), (seen,) = at(project, "gate_requested"), at(project, "gate_examined")
    assert sum(asked < one < seen for one in ended) >= 2
