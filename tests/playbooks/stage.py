"""A playbook in its rehearsal, driven by the real command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from workbench import environment, planrunner

from planrunner.testing.rehearsal import Scene

Json = Any

KILLED = Path(__file__).with_name("killed.py")


class Ran(NamedTuple):
    """How a command ended: its exit code, the run as its ``--json`` tells it (empty where it printed none), its output
    and its messages."""

    code: int
    run: dict[str, Json]
    out: str
    err: str

    def status(self, task: str) -> str:
        found: str = self.run["tasks"][task]["status"]
        return found

    def outputs(self, task: str) -> dict[str, Json]:
        found: dict[str, Json] = self.run["tasks"][task]["outputs"]
        return found


class Stage:
    """An open scene, and planrunner in it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.folder = scene.folder

    def planrunner(self, *words: str) -> Ran:
        """A command from its start to its end, with nobody at the terminal."""
        done = planrunner(self.folder, *words, **self.scene.environment)
        return _ran(done.returncode, done.stdout, done.stderr)

    def exec(self, *words: str) -> Ran:
        return self.planrunner(*self.scene.command("exec", *words), "--json")

    def resume(self, *words: str) -> Ran:
        return self.planrunner("resume", "last", "--unattended", "--json", *words)

    def killed(self, at: int | str, *words: str) -> None:
        """A command that is killed: right before its ``at``-th write to the journal, or before it stores that an attempt at
        the task of this name, or pattern, has ended."""
        moment = f"write:{at}" if isinstance(at, int) else f"end:{at}"
        done = subprocess.run(
            [sys.executable, str(KILLED), moment, *words],
            cwd=self.folder,
            env=environment(**self.scene.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == -signal.SIGKILL, (
            f"not killed, but ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        )

    def exec_killed(self, *words: str, at: int | str) -> None:
        self.killed(at, *self.scene.command("exec", *words))


def _ran(code: int, out: str, err: str) -> Ran:
    try:
        run = json.loads(out)
    except json.JSONDecodeError:
        run = {}
    return Ran(code, run if isinstance(run, dict) else {}, out, err)
