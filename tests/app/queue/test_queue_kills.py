"""Hundreds of runs in the queue while the worker is killed again and again: each runs once, in order, to its end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from workbench import ROOT

from planrunner.app.history.show import look
from planrunner.app.queue import asking
from planrunner.app.queue.items import OPEN
from planrunner.app.runs.execute import ExecRequest
from planrunner.caller import Principal, Workspace, acting
from planrunner.errors import NotFound
from planrunner.journal.stores import open_journal
from planrunner.machine.events import RunStarted

PLAN = """
plan: note
params: {n: {type: int}}
tasks:
  - id: begin
    uses: noop
  - id: end
    needs: [begin]
    uses: noop
"""
COUNT = 500
LIVES = 15
"""Workers that are killed at most; the next one may finish."""


def worker(root: Path, *options: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "planrunner", "worker", *options], cwd=root, env=environment, stderr=subprocess.DEVNULL
    )


def begun(state: str) -> int:
    try:
        journal = open_journal(state, readonly=True)
    except NotFound:
        return 0
    try:
        return len(journal.runs(COUNT * 2))
    finally:
        journal.close()


def test_five_hundred_runs_outlive_a_worker_that_is_killed_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text("{}")
    (tmp_path / "note.yaml").write_text(PLAN)
    state, chance = str(tmp_path / ".planrunner"), random.Random(5)
    with acting(Principal("ana"), Workspace(str(tmp_path), state)):
        runs = [asking.enqueue(ExecRequest("note.yaml", (("n", n),)), "test").run for n in range(COUNT)]
        for _ in range(LIVES):
            before, more = begun(state), chance.randint(1, 50)
            process = worker(tmp_path)
            while begun(state) < before + more and asking.items(OPEN, 1):
                _no_lie(state)
                time.sleep(chance.random() / 50)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            assert not asking.items(("running",))
            if not asking.items(OPEN, 1):
                break
        assert worker(tmp_path, "--until-empty").wait() == 0
        assert asking.overview().counts == {"done": COUNT}
    looks = [look(run, state) for run in runs]
    assert {found.row.status for found in looks} == {"completed"}
    assert all(sum(isinstance(entry.event, RunStarted) for entry in found.entries) == 1 for found in looks)
    times = [found.row.created for found in looks]
    assert times == sorted(times) and begun(state) == COUNT


def _no_lie(state: str) -> None:
    """What is said to run is run: whoever looks at its lease afterwards finds it held, or more written since."""
    for item in asking.items(("running",), 5):
        journal = open_journal(state, readonly=True)
        try:
            assert (
                journal.is_leased(item.run) or asking.item(item.run).status != "running" or journal.is_leased(item.run)
            )
        finally:
            journal.close()
