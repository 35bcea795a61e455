"""`planrunner plugins check --cases` leaves no process behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from workbench import ROOT

CASES = '''
import os, subprocess, time
from planrunner.api import Context, capability
from planrunner.testing.conformance import Case


@capability("slow.wait", effect="read")
def wait(context: Context) -> None:
    """Wait."""
    child = subprocess.Popen(["sleep", "77"])
    with open("PLACE/pids", "w") as file:
        file.write(f"{os.getpid()} {child.pid}\\n")
    while STUBBORN or not context.cancelled():
        time.sleep(0.05)


CASES = [Case(wait, exempt={"schema": "x", "docs": "x"})]
'''


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("stubborn", [False, True])
def test_the_suite_and_what_it_started_end_with_the_command(
    tmp_path: Path, number: signal.Signals, stubborn: bool
) -> None:
    text = CASES.replace("PLACE", str(tmp_path)).replace("STUBBORN", str(stubborn))
    (tmp_path / "cases.py").write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-m", "planrunner", "plugins", "check", "--cases", "cases.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    pids = tmp_path / "pids"
    try:
        deadline = time.monotonic() + 240
        while not (pids.exists() and pids.read_text().endswith("\n")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(240) in (128 + number, -number)
    finally:
        process.kill()
        process.wait()
    left = [pid for pid in map(int, pids.read_text().split()) if _lives(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
