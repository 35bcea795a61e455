"""A resume at a terminal asks about tasks that were interrupted; the time from TERM to KILL is a setting."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from multiprocessing.connection import wait

import pytest

from tests.cli.conftest import environment

CUT = """
plan: p
defaults: {timeout: 1m}
tasks:
  - {id: deploy, run: "test -e once && echo twice || { touch once; kill -9 $PPID; sleep 60; }"}
  - {id: after, needs: [deploy], run: "true"}
"""


class AtTerminal:
    """``planrunner`` on a pseudo-terminal, in the folder of the test."""

    def __init__(self, folder, *arguments):
        self.terminal, slave = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "planrunner", *arguments],
            cwd=folder,
            env=environment(PLANRUNNER_STATE=str(folder / "state"), TERM="dumb", COLUMNS="100"),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def until(self, text):
        deadline = time.monotonic() + 240
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            assert self._read(), self.seen
        self.seen = self.seen.partition(text)[2]

    def _read(self):
        if not wait([self.terminal], 0.2):
            return True
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def code(self):
        while self._read():
            pass
        os.close(self.terminal)
        return self.process.wait(240)


@pytest.mark.parametrize(
    ("answer", "code", "status"), [("r", 0, "completed"), ("completed", 0, "completed"), ("f", 1, "failed")]
)
def test_a_person_at_a_terminal_decides_what_became_of_an_interrupted_task(run, plan, tmp_path, answer, code, status):
    assert run("exec", plan(CUT)).code == -signal.SIGKILL
    shell = AtTerminal(tmp_path, "resume", "last")
    shell.until("`deploy` was interrupted, result unknown")
    shell.until("[r]etry, [c]ompleted, [f]ailed, [q] decide later: ")
    shell.type("what?\n")
    shell.until("[q] decide later: ")
    shell.type(f"{answer}\n")
    assert shell.code() == code
    assert json.loads(run("show", "--json").out)["tasks"]["deploy"]["status"] == status


def test_who_decides_later_leaves_the_task_in_doubt(run, plan, tmp_path):
    run("exec", plan(CUT))
    shell = AtTerminal(tmp_path, "resume", "last")
    shell.until("decide later: ")
    shell.type("q\n")
    assert shell.code() == 8
    assert json.loads(run("show", "--json").out)["tasks"]["deploy"]["status"] == "in_doubt"


def test_nobody_is_asked_about_a_task_that_may_be_repeated(run, plan, tmp_path):
    run("exec", plan(CUT.replace("id: deploy,", "id: deploy, effect: idempotent,")))
    assert AtTerminal(tmp_path, "resume", "last").code() == 0


@pytest.mark.parametrize(("grace", "ended"), [("1m", "in order"), ("0s", "killed")])
def test_what_is_stopped_has_the_time_that_the_project_gives_it(run, plan, tmp_path, grace, ended):
    """The task ends when a file appears, which is made after its time limit has passed."""
    plan(f"scheduler: {{grace: {grace}}}\n", "planrunner.yaml")
    task = (
        "trap 'touch asked; while ! test -e go; do sleep 0.02; done; echo in order > how; exit 3' TERM; sleep 60 & wait"
    )
    name = plan(f'plan: p\ntasks:\n  - {{id: slow, timeout: 300ms, run: "{task}"}}\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "planrunner", "exec", name, "--progress", "quiet"],
        cwd=tmp_path,
        env=environment(PLANRUNNER_STATE=str(tmp_path / "state")),
        stderr=subprocess.DEVNULL,
    )
    if ended == "in order":
        while not (tmp_path / "asked").exists():
            time.sleep(0.02)
        (tmp_path / "go").touch()
    assert process.wait(240) == 1
    assert (tmp_path / "how").exists() is (ended == "in order")
