"""The live tree on a real pseudo-terminal: what stands on the screen while a run goes on, and what stays."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from multiprocessing.connection import wait
from pathlib import Path

import pytest
from workbench import ROOT

_SEQUENCE = re.compile(r"\x1b\[(\d*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n])")


class Screen:
    """As much of a terminal as the tree needs: lines that scroll, moving up, erasing below, and colours left out."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.lines: list[str] = [""]
        self.at = 0
        self.column = 0
        self.overlong = 0
        self.cleared_whole = 0

    def feed(self, text: str) -> None:
        for number, kind, back, down, sign in _SEQUENCE.findall(text):
            if kind == "A":
                top = max(0, len(self.lines) - self.rows)
                self.at = max(top, self.at - int(number or 1))
            elif kind == "K":
                self.lines[self.at] = self.lines[self.at][: self.column]
            elif kind == "J":
                self.cleared_whole += (
                    self.at == max(0, len(self.lines) - self.rows) and self.column == 0 and self.at == 0
                )
                self.lines[self.at] = self.lines[self.at][: self.column]
                del self.lines[self.at + 1 :]
            elif back:
                self.column = 0
            elif down:
                self.at += 1
                self.column = 0
                if self.at == len(self.lines):
                    self.lines.append("")
            elif sign:
                line = self.lines[self.at].ljust(self.column)
                self.lines[self.at] = line[: self.column] + sign + line[self.column + 1 :]
                self.column += 1
                self.overlong += self.column > self.columns

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")


class Session:
    """A command on a pseudo-terminal of a given size."""

    def __init__(self, folder: Path, arguments: list[str], columns: int, rows: int, **extra: str) -> None:
        self.screen = Screen(columns, rows)
        self.raw = ""
        self.frames = 0
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "PLANRUNNER_STATE": str(folder / "state"), "PYTHONPATH": str(ROOT)}
        environment |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **extra}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "planrunner", *arguments],
            cwd=folder,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def read(self, seconds: float) -> bool:
        """Take in what comes within the time; False at the end."""
        ready = wait([self._master], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        self.raw += text
        self.frames += text.count("\x1b[J")
        self.screen.feed(text)
        return bool(data)

    def until(self, pattern: str, seconds: float = 240.0) -> str:
        """Read on until the screen shows the pattern."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.screen.text(), re.MULTILINE):
            assert time.monotonic() < end, self.screen.text()
            if not self.read(0.2):
                break
        assert re.search(pattern, self.screen.text(), re.MULTILINE), self.screen.text()
        return self.screen.text()

    def until_frames(self, count: int) -> None:
        """Read on until the screen was drawn so often."""
        while self.frames < count:
            assert self.read(0.2), self.screen.text()

    def finish(self, seconds: float = 240.0) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.read(0.2):
            pass
        self.process.wait(240)
        os.close(self._master)
        return self.screen.text()


@pytest.fixture
def session(tmp_path):
    begun = []

    def start(*arguments, columns=80, rows=24, **extra):
        begun.append(Session(tmp_path, list(arguments), columns, rows, **extra))
        return begun[-1]

    yield start
    for each in begun:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


STAGES = """\
plan: stages
defaults: {timeout: 10m}
max_parallel: 8
tasks:
  - {id: one, run: 'echo quick'}
  - {id: two, run: 'echo downloading 42%; until [ -e go ]; do sleep 0.05; done', needs: [one]}
  - {id: three, run: 'echo boom >&2; exit 4', needs: [two]}
  - {id: four, run: 'echo never', needs: [three]}
"""


WAITS = "plan: p\ntasks:\n  - {id: a, run: 'until [ -e go ]; do sleep 0.05; done', timeout: 10m}\n"


def test_the_screen_shows_what_runs_and_folds_what_is_done(session, plan, tmp_path):
    live = session("exec", plan(STAGES))
    text = live.until(r"● two .*downloading 42%")
    assert re.search(r"^stages .*✔ 1 completed  ● 1 running  · 2 pending", text, re.MULTILINE)
    assert "one" not in text.replace("stages", "")
    (tmp_path / "go").touch()
    final = live.finish()
    assert live.process.returncode == 1
    assert [line.split()[1] for line in final.splitlines()[:4]] == ["one", "two", "three", "four"]
    assert "✘ three failed (logic)" in final
    assert "boom" in final
    assert final.splitlines()[-1].strip().startswith("planrunner why")
    assert "downloading" not in final


def test_the_screen_is_never_erased_as_a_whole(session, plan, tmp_path):
    live = session("exec", plan(WAITS))
    live.until_frames(3)
    (tmp_path / "go").touch()
    live.finish()
    assert live.screen.cleared_whole == 0


def test_frames_are_few_and_the_elapsed_time_moves_on(session, plan, tmp_path):
    live = session("exec", plan(WAITS))
    started = time.monotonic()
    live.until_frames(6)
    (tmp_path / "go").touch()
    live.finish()
    assert live.process.returncode == 0
    assert live.frames <= 8 * (time.monotonic() - started) + 2


def test_no_line_is_wider_and_no_frame_higher_than_the_window(session, plan, tmp_path):
    tasks = "".join(
        f"  - {{id: a-task-with-a-rather-long-name-{number}, run: 'echo {'x' * 200}; until [ -e go ]; do sleep 0.3; done', timeout: 10m}}\n"
        for number in range(30)
    )
    live = session("exec", plan(f"plan: wide\nmax_parallel: 30\ntasks:\n{tasks}"), columns=40, rows=10)
    live.until(r"and \d+ more running")
    assert len(live.screen.lines) <= 10
    assert live.screen.overlong == 0
    (tmp_path / "go").touch()
    live.finish()
    assert live.process.returncode == 0
    assert live.screen.text().count("completed, ") == 30


def test_a_retry_is_shown_with_the_time_that_is_left(session, plan):
    name = plan(
        "plan: p\ntasks:\n  - {id: a, run: 'exit 75', timeout: 10m, retry: {attempts: 2, delay: 4s, jitter: 0}}\n"
    )
    live = session("exec", name)
    live.until(r"↻ a +attempt 2 of 2 in ")
    assert "✘ a failed" in live.finish()


def test_ctrl_c_leaves_a_tree_and_the_way_to_go_on(session, plan):
    live = session("exec", plan("plan: p\ntasks:\n  - {id: a, run: 'sleep 300', timeout: 10m, effect: read}\n"))
    live.until(r"● a ")
    live.process.send_signal(signal.SIGINT)
    final = live.finish()
    assert live.process.returncode == 130
    assert "p paused (interrupted)" in final
    assert "planrunner resume " in final.splitlines()[-1]


def test_a_dumb_terminal_gets_plain_lines(session, plan):
    live = session("exec", plan("plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 10m}\n"), TERM="dumb")
    final = live.finish()
    assert "\x1b[" not in live.raw
    assert "a started" in final


def test_colour_is_off_with_no_color_and_signs_stay(session, plan):
    live = session("exec", plan("plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 10m}\n"), NO_COLOR="1")
    assert "✔ a  completed" in live.finish()
    assert not re.search(r"\x1b\[\d+m", live.raw)


def test_without_utf8_the_tree_is_drawn_in_ascii(session, plan):
    live = session("exec", plan("plan: p\ntasks:\n  - {id: a, run: 'true', timeout: 10m}\n"), PYTHONIOENCODING="ascii")
    assert "+ a  completed" in live.finish()
    assert live.raw.isascii()


def test_what_a_task_prints_cannot_take_over_the_screen(session, plan, tmp_path):
    name = plan(
        "plan: p\ntasks:\n  - id: a\n    timeout: 10m\n"
        "    run: printf 'safe\\033[2J\\033]0;owned\\007\\n'; until [ -e go ]; do sleep 0.05; done\n"
    )
    live = session("exec", name)
    live.until(r"● a .*safe")
    (tmp_path / "go").touch()
    live.finish()
    assert "\x1b[2J" not in live.raw
    assert "owned" not in live.raw
