"""What survives the death of a writer, and what several writers at once leave behind."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from workbench import ROOT

from planrunner.errors import Fenced, RunHeld
from planrunner.journal.records import NewRun
from planrunner.journal.sqlite import open_journal
from planrunner.machine.events import Entry, RunEnded, RunStarted, TaskQueued

WRITER = Path(__file__).with_name("journal_writer.py")


def start(mode: str, state: Path, run: str, *numbers: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), mode, str(state), run, *map(str, numbers)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


@contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = start(*arguments)  # type: ignore[arg-type]
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=240)


def acknowledged(output: str) -> int:
    acks = [int(line.split()[1]) for line in output.splitlines() if line.startswith("ack ")]
    return acks[-1] if acks else 0


def check(state: Path, run: str, at_least: int) -> int:
    """The database is whole, the sequence has no gap, and nothing acknowledged is missing; returns the last seq."""
    journal = open_journal(str(state))
    try:
        entries = list(journal.entries(run))
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        assert len(entries) >= at_least
        assert journal.run(run).last_seq == len(entries)
        assert not journal.is_leased(run)
    finally:
        journal.close()
    connection = sqlite3.connect(state / "journal.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    return len(entries)


def test_a_run_killed_after_each_of_its_appends_goes_on_without_loss(tmp_path: Path) -> None:
    tasks, state = 12, tmp_path / "state"
    whole = 2 + 3 * tasks
    for killed_after in range(1, tasks + 2):
        run = f"run-{killed_after}"
        process = start("write", state, run, tasks, killed_after)
        output, _ = process.communicate(timeout=240)
        assert process.returncode == -signal.SIGKILL
        acks = acknowledged(output)
        assert acks == min(2 + 3 * (killed_after - 1), whole)
        assert check(state, run, acks) == acks
        process = start("write", state, run, tasks, 0)
        process.communicate(timeout=240)
        assert process.returncode == 0
        assert check(state, run, whole) == whole


def test_a_run_killed_after_every_single_append_still_ends(tmp_path: Path) -> None:
    for round_ in range(1, 8):
        process = start("write", tmp_path / "state", "r1", 6, 1)
        output, _ = process.communicate(timeout=240)
        assert check(tmp_path / "state", "r1", acknowledged(output)) == 2 + 3 * (round_ - 1)
    journal = open_journal(str(tmp_path / "state"))
    assert (journal.run("r1").status, journal.run("r1").epoch) == ("completed", 7)
    journal.close()


def test_writers_killed_at_any_moment_lose_nothing_they_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(20261121)
    for round_ in range(12):
        run = f"flood-{round_}"
        with running("flood", tmp_path / "state", run) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.uniform(0, 0.12))
            process.send_signal(signal.SIGKILL)
            output, _ = process.communicate(timeout=240)
        check(tmp_path / "state", run, max(1, acknowledged(output)))


def test_two_processes_write_different_runs_at_once_and_both_survive_being_killed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with running("flood", state, "one") as one, running("flood", state, "two") as two:
        for process in (one, two):
            assert process.stdout is not None
            process.stdout.readline()
        wait_until_longer(state, ("one", "two"), 100)
        one.send_signal(signal.SIGKILL)
        first, _ = one.communicate(timeout=240)
        time.sleep(0.2)
        two.send_signal(signal.SIGKILL)
        second, _ = two.communicate(timeout=240)
    assert check(state, "one", acknowledged(first)) > 100
    assert check(state, "two", acknowledged(second)) > 100


def wait_until_longer(state: Path, runs: tuple[str, ...], length: int) -> None:
    """Two writers without a pause take turns as SQLite lets them, which is not fair from one second to the next."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        reader = open_journal(str(state), readonly=True)
        lengths = [reader.run(run).last_seq for run in runs]
        reader.close()
        if min(lengths) > length:
            return
        time.sleep(0.05)
    raise AssertionError(f"a run did not grow: {lengths}")


def test_readers_see_a_growing_gapless_run_while_it_is_written(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with running("flood", state, "r1") as process:
        assert process.stdout is not None
        process.stdout.readline()
        lengths: list[int] = []
        while len(lengths) < 8 or lengths[-1] == lengths[0]:
            reader = open_journal(str(state), readonly=True)
            seqs = [entry.seq for entry in reader.entries("r1")]
            assert seqs == list(range(1, len(seqs) + 1))
            assert reader.run("r1").leased
            assert reader.run("r1").last_seq >= len(seqs)
            reader.close()
            lengths.append(len(seqs))
            time.sleep(0.03)
    assert lengths == sorted(lengths)


def test_of_two_processes_that_want_a_run_exactly_one_gets_it_each_time(tmp_path: Path) -> None:
    state, rounds = tmp_path / "state", 200
    journal = open_journal(str(state))
    journal.release(journal.create_run(NewRun("r1", "p", "d", 1.0)))
    with running("race", state, "r1", rounds) as one, running("race", state, "r1", rounds) as two:
        both = (one, two)
        assert [answer(process) for process in both] == ["ready", "ready"]
        for _ in range(rounds):
            tell(both)
            journal.is_leased("r1")  # somebody who only looks must not take it from both
            assert sorted(answer(process) for process in both) == ["lost", "won"]
            assert journal.is_leased("r1")
            tell(both)
            assert [answer(process) for process in both] == ["free", "free"]
            assert not journal.is_leased("r1")
    assert journal.run("r1").epoch == 1 + rounds
    journal.close()


def tell(processes: tuple[subprocess.Popen[str], ...]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_holder_is_named_and_its_death_frees_the_run(tmp_path: Path) -> None:
    state = tmp_path / "state"
    journal = open_journal(str(state))
    journal.release(journal.create_run(NewRun("r1", "p", "d", 1.0)))
    with running("keep", state, "r1") as process:
        assert answer(process) == "held"
        with pytest.raises(RunHeld, match=rf"held by process {process.pid} on \S+ since \d{{4}}-"):
            journal.acquire("r1")
        process.send_signal(signal.SIGSTOP)
        assert journal.is_leased("r1"), "a stopped process still holds its run"
        process.kill()
        process.wait(timeout=240)
        assert not journal.is_leased("r1")
        assert journal.acquire("r1").epoch == 3
    journal.close()


def test_a_stale_holder_is_refused_and_cannot_damage_the_run(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    first = open_journal(state)
    stale = first.create_run(NewRun("r1", "p", "d", 1.0), [Entry(1, 1.0, RunStarted("d", {}, 1))])
    os.unlink(tmp_path / "state" / "locks" / "r1.lock")  # as when somebody cleans up by hand
    second = open_journal(state)
    fresh = second.acquire("r1")
    second.append(fresh, [Entry(2, 2.0, TaskQueued("fresh"))])
    with pytest.raises(Fenced, match="another runner took over run `r1`"):
        first.append(stale, [Entry(2, 2.0, TaskQueued("stale"))])
    second.append(fresh, [Entry(3, 3.0, RunEnded("completed"))])
    assert [entry.event for entry in first.entries("r1", 1)] == [TaskQueued("fresh"), RunEnded("completed")]
    first.release(stale)
    assert first.is_leased("r1"), "letting go of a lost lock frees nobody else's"
    second.release(fresh)
    first.close()
    second.close()
    check(tmp_path / "state", "r1", 3)


def test_four_processes_can_be_the_first_ones_in_a_project(tmp_path: Path) -> None:
    state = tmp_path / "state"
    processes = [start("first", state, f"r{number}") for number in range(4)]
    assert [answer(process) for process in processes] == ["ready"] * 4
    tell(tuple(processes))
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    for number, output in enumerate(outputs):
        assert acknowledged(output) == 11
        check(state, f"r{number}", 11)
