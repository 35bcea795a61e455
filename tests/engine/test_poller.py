"""The time line of a run: even while it goes on, continued after a stop, and never taken back."""

from __future__ import annotations

import time

import pytest

from planrunner.engine import poller
from planrunner.engine.poller import Clock, TimeLine, boot
from planrunner.machine.events import Entry, RunResumed, RunStarted, TaskQueued

HERE = {"id": "one", "uptime": 5000.0}


def line(*entries: tuple[float, RunStarted | RunResumed | TaskQueued]) -> TimeLine:
    found = TimeLine()
    for seq, (at, event) in enumerate(entries, 1):
        found.see(Entry(seq, at, event))
    return found


def started(uptime: float, boot_id: str = "one") -> RunStarted:
    return RunStarted("digest", {}, 7, boot={"id": boot_id, "uptime": uptime})


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has been up for 5000 seconds, and stays so."""
    monkeypatch.setattr(poller.time, "clock_gettime", lambda which: 5000.0)


@pytest.mark.slow
def test_a_clock_goes_on_evenly_from_where_it_is_set() -> None:
    clock = Clock(1000.0)
    first = clock.now()
    time.sleep(0.05)
    assert 1000.0 <= first < 1240.0
    assert 0.04 < clock.now() - first < 240.0


@pytest.mark.usefixtures("stopped")
def test_in_the_same_boot_the_line_goes_on_whatever_the_wall_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller.time, "time", lambda: 9.0e9)
    assert line((1000.0, started(4000.0)), (1100.0, TaskQueued("a"))).clock(HERE).now() == 2000.0


@pytest.mark.usefixtures("stopped")
def test_the_last_resume_is_the_anchor() -> None:
    resumed = RunResumed(2, boot={"id": "one", "uptime": 4900.0})
    assert line((1000.0, started(10.0, "zero")), (3000.0, resumed)).clock(HERE).now() == 3100.0


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("anchor", [started(4000.0, "zero"), RunStarted("digest", {}, 7), started(4000.0, "")])
@pytest.mark.parametrize(("wall", "now"), [(1.0e6, 1.0e6), (900.0, 1100.0)])
def test_after_a_reboot_the_wall_clock_counts_but_never_takes_the_line_back(
    monkeypatch: pytest.MonkeyPatch, anchor: RunStarted, wall: float, now: float
) -> None:
    monkeypatch.setattr(poller.time, "time", lambda: wall)
    assert line((1000.0, anchor), (1100.0, TaskQueued("a"))).clock(HERE).now() == now


@pytest.mark.usefixtures("stopped")
def test_a_line_is_not_taken_back_where_the_uptime_is_another_one() -> None:
    """As in a container whose clocks are shifted."""
    assert line((1000.0, started(8000.0)), (1100.0, TaskQueued("a"))).clock(HERE).now() == 1100.0


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("uptime", [None, "late", True, {}])
def test_a_damaged_anchor_is_no_anchor(monkeypatch: pytest.MonkeyPatch, uptime: object) -> None:
    monkeypatch.setattr(poller.time, "time", lambda: 2000.0)
    damaged = RunStarted("digest", {}, 7, boot={"id": "one", "uptime": uptime})
    assert line((1000.0, damaged)).clock(HERE).now() == 2000.0


def test_the_boot_is_known_by_its_id_and_its_uptime_grows() -> None:
    first, second = boot(), boot()
    assert first["id"] == second["id"] != ""
    assert first["uptime"] <= second["uptime"]


def test_a_system_without_a_boot_id_is_never_taken_for_the_same_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller, "_BOOT_ID", "/nowhere")
    assert boot()["id"] == ""
