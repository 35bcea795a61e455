"""The shell in a real terminal: keys, the live view, and Ctrl-C."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from workbench import environment

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

SLOW = "plan: slow\ntasks:\n  - {id: wait, run: 'echo here; until test -e ready; do sleep 0.1; done', timeout: 2m}\n"


class Window:
    """A window of tmux with a shell in it."""

    def __init__(self, folder: Path) -> None:
        self.name = f"planrunner-{uuid.uuid4().hex[:8]}"
        path = environment()["PYTHONPATH"]
        command = f"env PYTHONPATH={shlex.quote(path)} {shlex.quote(sys.executable)} -m planrunner shell"
        self.tmux("new-session", "-d", "-s", self.name, "-x", "200", "-y", "40", "-c", str(folder), command)
        self.prompted("`help` lists commands")

    def tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", *words], capture_output=True, text=True, check=False)
        return done.stdout

    def keys(self, *names: str) -> None:
        self.tmux("send-keys", "-t", self.name, *names)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", self.name)

    def until(self, *texts: str) -> None:
        """Wait until the screen shows all of these."""
        while not all(text in self.screen() for text in texts):
            time.sleep(0.02)

    def prompted(self, text: str) -> None:
        """Wait until the screen shows this and the prompt reads keys, which is while the line of the session is below."""
        while not (text in (screen := self.screen()) and " session main" in screen.rstrip().rsplit("\n", 1)[-1]):
            time.sleep(0.02)

    def is_open(self) -> bool:
        return self.name in self.tmux("list-sessions", "-F", "#{session_name}")


@pytest.fixture
def window(tmp_path: Path) -> Iterator[Window]:
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "slow.yaml").write_text(SLOW)
    (tmp_path / "planrunner.yaml").write_text("{}\n")
    one = Window(tmp_path)
    yield one
    one.tmux("kill-session", "-t", one.name)


def test_keys_complete_and_bring_lines_back(window: Window) -> None:
    window.keys("hyp", "Tab")
    window.until("> hypotheses")
    window.keys("C-u", "lint plans", "Enter")
    window.prompted("no findings")
    window.keys("C-l")
    while "no findings" in window.screen():
        time.sleep(0.02)
    window.keys("Up")
    window.until("> lint plans")
    window.keys("C-u", "C-d")
    while window.is_open():
        time.sleep(0.02)


def test_a_live_run_is_left_with_ctrl_c_and_shown_again(window: Window, tmp_path: Path) -> None:
    window.keys("exec slow --detach", "Enter")
    window.prompted("queued;")
    window.keys("attach", "Enter")
    window.until("wait", "here")
    window.keys("C-c")
    window.prompted("`attach` shows it again")
    window.keys("attach", "Enter")
    (tmp_path / "ready").touch()
    window.until("✔ slow completed")


def test_ctrl_c_stops_the_run_of_a_command_and_not_the_shell(window: Window) -> None:
    window.keys("exec slow", "Enter")
    window.until("wait", "here")
    window.keys("C-c")
    window.prompted("planrunner resume")
    window.keys("history", "Enter")
    window.until("130  exec slow")
