"""Waking a loop from threads that outlive it: what they write goes nowhere else."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from planrunner.engine import poller as pollers
from planrunner.engine.poller import Poller


def test_whoever_wakes_a_closed_loop_writes_into_no_other_file(tmp_path: Path) -> None:
    poller = Poller()
    number = poller.wake_descriptor
    poller.close()
    file = os.open(tmp_path / "other", os.O_WRONLY | os.O_CREAT)
    try:
        os.dup2(file, number)  # as any file that is opened next may get the number
        poller.wake()
    finally:
        os.close(number)
        if file != number:
            os.close(file)
    assert (tmp_path / "other").read_bytes() == b""


def test_a_loop_is_not_closed_while_somebody_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    poller, waking, closing = Poller(), threading.Event(), threading.Event()
    written: list[int] = []
    write = os.write

    def slow(descriptor: int, data: bytes) -> int:
        waking.set()
        closing.wait(240)
        written.append(write(descriptor, data))
        return written[-1]

    monkeypatch.setattr(pollers.os, "write", slow)
    waker = threading.Thread(target=poller.wake)
    waker.start()
    assert waking.wait(240)
    closer = threading.Thread(target=poller.close)
    closer.start()
    closer.join(0.5)  # it waits for the other; one that does not wait is done by now
    closing.set()
    for thread in (waker, closer):
        thread.join(240)
    assert written == [1]


def test_a_full_pipe_still_wakes() -> None:
    poller = Poller()
    try:
        for _ in range(100_000):
            poller.wake()
        woken: list[bytes] = []
        poller.on_wake = woken.append
        poller.turn(240)
        assert woken
    finally:
        poller.close()
