"""The command at a terminal of its own."""

from __future__ import annotations

import os
import pty
import signal
import sys
import time
from multiprocessing.connection import wait
from typing import Any

import pytest

from planrunner.safety.sandbox import presence


def skip_without_a_sandbox(shown: str) -> None:
    """Skip a test whose plan was refused because nothing here can shut it in."""
    if "lets no files be made in" in shown and presence.bubblewrap()[1] and not presence.covers():
        pytest.skip("bubblewrap is not installed, and the kernel gives a process no mounts of its own")


class Terminal:
    """Starts the command; ``until`` reads to a text, ``type`` answers with a line, ``end`` gives the exit code."""

    def __init__(self, place: Any, *words: str) -> None:
        self.seen = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(place.work)
            arguments = [sys.executable, "-m", "planrunner", *words]
            os.execve(sys.executable, arguments, {**place.env, "TERM": "dumb", "COLUMNS": "100"})

    def until(self, text: str) -> str:
        """What was shown since the last time, up to this text."""
        deadline = time.monotonic() + 240
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            assert self._read(), self.seen
        shown, self.seen = self.seen.split(text, 1)
        return shown

    def type(self, line: str) -> None:
        os.write(self.terminal, f"{line}\n".encode())

    def end(self) -> int:
        deadline = time.monotonic() + 240
        while self._read():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
        os.close(self.terminal)
        skip_without_a_sandbox(self.seen)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        if not wait([self.terminal], 0.2):
            return True
        try:
            data = os.read(self.terminal, 65536)
        except OSError:  # the command has ended
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)
