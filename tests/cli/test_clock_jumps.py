"""The clock on the wall jumps by ten days while a run goes on, and while nobody acts on it. Nothing fires twice, nothing
comes early or late, and no entry of the journal is older than the one before."""

from __future__ import annotations

import glob
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from workbench import ROOT, planrunner

FOUND = [path for lib in ("lib*", "lib*/*") for path in glob.glob(f"/usr/{lib}/faketime/libfaketime.so.1")]

pytestmark = pytest.mark.skipif(not FOUND, reason="libfaketime is not installed, so no clock can be moved")

JUMPS = ["+10d", "-10d"]
LONG = 200.0
"""Seconds that no wait of a test takes, however busy the machine, and far from any jump."""
RETRY = """\
plan: p
defaults: {timeout: 1m}
budgets: {time: 1h}
tasks:
  - id: flaky
    uses: fail
    with: {class: transient}
    retry: {attempts: 2, backoff: fixed, delay: DELAYs, jitter: 0}
    allow_failure: true
"""
WAITS = """\
plan: p
budgets: {time: 1h}
on_failure: continue
tasks:
  - {id: nap, uses: sleep, with: {duration: 1s}, timeout: 10m}
  - {id: late, run: 'exec sleep 600', timeout: 1s}
"""
BUDGET = "plan: p\nbudgets: {time: 1s}\ntasks:\n  - {id: a, uses: sleep, with: {duration: 1h}, timeout: 2h}\n"


class Machine:
    """A machine whose clock on the wall can be moved while programs run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.set("+0")

    def set(self, offset: str) -> None:
        new = self.folder / "offset.new"
        new.write_text(offset + "\n")
        new.replace(self.folder / "offset")

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PLANRUNNER_STATE": str(self.folder / "state"),
            "LD_PRELOAD": FOUND[0],
            "FAKETIME_TIMESTAMP_FILE": str(self.folder / "offset"),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        command = [sys.executable, "-m", "planrunner", *words]
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def events(self) -> list[dict[str, Any]]:
        done = planrunner(self.folder, "events", "last", "--json", PLANRUNNER_STATE=str(self.folder / "state"))
        return [json.loads(line) for line in done.stdout.splitlines()[1:]]

    def until(self, kind: str) -> None:
        end = time.monotonic() + 240
        while not any(event["type"] == kind for event in self.events()):
            assert time.monotonic() < end, f"no {kind} came"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def in_order(events: list[dict[str, Any]]) -> bool:
    times = [event["at"] for event in events]
    return times == sorted(times)


def starts(events: list[dict[str, Any]], task: str) -> list[float]:
    return [event["at"] for event in events if event["type"] == "attempt_started" and event["task"] == task]


def ended(events: list[dict[str, Any]]) -> dict[str, Any]:
    return {event["task"]: event for event in events if event["type"] == "attempt_ended"}


def test_the_clock_of_these_tests_can_be_moved(machine: Machine) -> None:
    machine.set("+10d")
    program = "import time; print(time.time())"
    environment = {"LD_PRELOAD": FOUND[0], "FAKETIME_TIMESTAMP_FILE": str(machine.folder / "offset")}
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True)
    assert float(done.stdout) - time.time() > 9 * 86400


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_while_a_retry_waits_neither_shortens_nor_lengthens_it(machine: Machine, plan: Any, jump: str) -> None:
    going = machine.start("exec", plan(RETRY.replace("DELAY", "2")))
    machine.until("retry_scheduled")
    machine.set(jump)
    assert going.wait(240) == 0
    events = machine.events()
    first, second = starts(events, "flaky")
    assert 1.9 < second - first < LONG
    assert in_order(events)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_leaves_sleeps_and_timeouts_as_long_as_they_are(machine: Machine, plan: Any, jump: str) -> None:
    going = machine.start("exec", plan(WAITS))
    machine.until("attempt_started")
    machine.set(jump)
    assert going.wait(240) == 1
    events = machine.events()
    assert in_order(events)
    outcomes = ended(events)
    assert outcomes["nap"]["outcome"].get("failure", "") == ""
    assert outcomes["late"]["outcome"]["failure"] == "timeout"
    for task in ("nap", "late"):
        (begun,) = starts(events, task)
        assert 0.9 < outcomes[task]["at"] - begun < LONG
        assert 0.9 < outcomes[task]["outcome"]["duration"] < LONG


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_uses_up_no_time_budget_and_saves_none(machine: Machine, plan: Any, jump: str) -> None:
    going = machine.start("exec", plan(BUDGET))
    machine.until("attempt_started")
    machine.set(jump)
    assert going.wait(240) == 6
    events = machine.events()
    assert in_order(events)
    assert 0.9 < events[-1]["at"] - events[0]["at"] < LONG


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_between_the_end_of_a_runner_and_the_resume_leaves_the_wait_of_a_retry_as_it_was(
    machine: Machine, plan: Any, jump: str, how: signal.Signals
) -> None:
    for delay in (2, 8, 32):
        going = machine.start("exec", plan(RETRY.replace("DELAY", str(delay))))
        machine.until("retry_scheduled")
        going.send_signal(how)
        going.wait(240)
        if len(starts(machine.events(), "flaky")) == 1:  # else the machine was so busy that the wait was over
            break
    machine.set(jump)
    assert machine.start("resume", "last").wait(240) == 0
    events = machine.events()
    first, second = starts(events, "flaky")
    assert delay - 0.1 < second - first < LONG
    assert in_order(events)
    assert events[-1]["at"] - events[0]["at"] < LONG
