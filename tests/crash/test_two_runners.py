"""Two processes that want the same run: one acts. A holder that was stopped and lost the run does no harm when it wakes."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from workbench import ROOT

from planrunner import errors
from planrunner.app.history.state import stored_state
from planrunner.cli.guard import guarded
from planrunner.journal.records import NewRun, StoredPlan
from planrunner.journal.sqlite import open_journal
from planrunner.machine.events import Entry, RunEnded, RunResumed, RunStarted
from planrunner.plan.identity import digest
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

MARK = f"race-{os.urandom(6).hex()}-"
"""How the ids of runs begin here: whoever resumes a run ends what is left of it on the whole machine, by its id, and
other tests run beside these."""
ROUNDS = int(os.environ.get("PLANRUNNER_RACES", "25"))
PLAN = """\
plan: race
tasks:
  - id: a
    run: 'echo $PPID >> acted; until [ -e go ]; do sleep 0.01; done'
    effect: idempotent
    timeout: 1m
  - {id: b, needs: [a], run: 'echo b >> acted; until [ -e on ]; do sleep 0.01; done', timeout: 1m, effect: idempotent}
"""


CHAIN = "plan: chain\ntasks:\n" + "".join(
    f"  - {{id: t{number}, run: echo t{number} >> acted, effect: idempotent, timeout: 1m"
    + (f", needs: [t{number - 1}]}}\n" if number else "}\n")
    for number in range(8)
)


def cut_off_run(state: Path, folder: Path, run: str, text: str = PLAN) -> None:
    """A run whose runner died before anything began."""
    loaded = load(Source(text, "race.yaml", "yaml"), Registry())
    assert loaded.plan is not None
    traits = {"shell": ["unsafe", False, False]}
    started = RunStarted(digest(loaded.plan), {}, 7, traits=traits, environment={"directory": str(folder)})
    journal = open_journal(str(state))
    stored = StoredPlan(digest(loaded.plan), text, "race.yaml", "yaml")
    new = NewRun(run, "race", digest(loaded.plan), time.time(), stored)
    journal.release(journal.create_run(new, [Entry(1, time.time(), started)]))
    journal.close()


def resume_in_child(state: Path, run: str, gun: int) -> int:
    """A process that resumes the run once it can read from ``gun``; its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.read(gun, 1)
        code = guarded(["--state", str(state), "resume", run, "--progress", "quiet"])
    finally:
        os._exit(code)


@pytest.mark.limit(1800)
def test_of_two_runners_started_at_once_exactly_one_acts_each_time(tmp_path: Path) -> None:
    state = tmp_path / "state"
    for number in range(ROUNDS):
        run, folder = f"{MARK}{number}", tmp_path / f"r{number}"
        folder.mkdir()
        (folder / "on").touch()
        cut_off_run(state, folder, run)
        gun, trigger = os.pipe()
        both = [resume_in_child(state, run, gun) for _ in range(2)]
        os.close(gun)
        os.write(trigger, b"..")
        first, status = os.waitpid(-1, 0)
        while first not in both:  # an orphan that an earlier test left to this process
            first, status = os.waitpid(-1, 0)
        assert os.waitstatus_to_exitcode(status) == errors.HELD
        (folder / "go").touch()
        (second,) = set(both) - {first}
        assert os.waitstatus_to_exitcode(os.waitpid(second, 0)[1]) == errors.OK
        os.close(trigger)
        assert (folder / "acted").read_text() == f"{second}\nb\n"
        journal = open_journal(str(state))
        resumes = [entry for entry in journal.entries(run) if isinstance(entry.event, RunResumed)]
        assert (len(resumes), journal.run(run).epoch) == (1, 2)
        journal.close()


def until(path: Path, text: str) -> None:
    end = time.monotonic() + 240
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < end, f"no {text!r} in {path.name}"
        time.sleep(0.01)


def until_held(lock: Path, process: int) -> None:
    """Until the child holds the run, or has ended, which takes it no longer than this machine may look away."""
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if lock.exists() and f"process {process} " in lock.read_text():
            return
        time.sleep(0.01)


def resume(state: Path, run: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "planrunner", "--state", str(state), "resume", run, "--progress", "quiet"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def test_a_stopped_holder_keeps_its_run_and_one_that_lost_it_is_fenced_and_harms_nobody(tmp_path: Path) -> None:
    """The kernel keeps the lock of a stopped process. Only force, such as removing the file, takes the run from it."""
    state, acted, run = tmp_path / "state", tmp_path / "acted", f"{MARK}r"
    cut_off_run(state, tmp_path, run)
    stale = resume(state, run)
    fresh = None
    try:
        until(acted, f"{stale.pid}\n")
        stale.send_signal(signal.SIGSTOP)
        assert resume(state, run).wait(240) == errors.HELD
        (state / "locks" / f"{run}.lock").unlink()
        fresh = resume(state, run)
        until(acted, f"{fresh.pid}\n")  # the same attempt again, with the same key
        stale.send_signal(signal.SIGCONT)
        told = stale.communicate(timeout=240)[1]
        assert stale.returncode == errors.HELD
        assert f"another runner took over run `{run}`".encode() in told
        time.sleep(0.2)
        (tmp_path / "go").touch()
        until(acted, "b\n")
        (tmp_path / "on").touch()
        assert fresh.wait(240) == errors.OK
    finally:
        for process in (stale, fresh):
            if process is not None:
                process.kill()
                process.wait()
    assert acted.read_text() == f"{stale.pid}\n{fresh.pid}\nb\n"
    journal = open_journal(str(state))
    entries = list(journal.entries(run))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert sum(isinstance(entry.event, RunEnded) for entry in entries) == 1
    found = stored_state(journal, run)
    journal.close()
    assert (found.status, [task.attempts for task in found.tasks]) == ("completed", [1, 1])


def journal_of(state: Path, run: str) -> list[Entry]:
    journal = open_journal(str(state))
    try:
        return list(journal.entries(run))
    finally:
        journal.close()


def stopped(process: int, state: Path) -> bool:
    """Stop a process, unless it has ended. In the middle of a transaction, or alone with the database while it moves the
    log, it would keep everybody else from writing."""
    while True:
        os.kill(process, signal.SIGSTOP)
        if not os.WIFSTOPPED(os.waitpid(process, os.WUNTRACED)[1]):
            return False
        if others_can_write(state):
            return True
        os.kill(process, signal.SIGCONT)
        time.sleep(0.002)


def others_can_write(state: Path) -> bool:
    with (state / "locks" / "journal.lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        database = sqlite3.connect(state / "journal.db", timeout=0, isolation_level=None)
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
            return True
        except sqlite3.OperationalError:
            return False
        finally:
            database.close()


FENCED, NEVER_BEGAN = (errors.OK, errors.HELD), (errors.OK, errors.USAGE)
WAS_DONE, WAS_LEAVING = (errors.USAGE, errors.OK), (errors.OK, errors.OK)
"""How the second runner ended and how the first one did after it woke."""


@pytest.mark.limit(1800)
def test_a_holder_stopped_anywhere_that_lost_its_run_adds_nothing_when_it_wakes(tmp_path: Path) -> None:
    """Whatever it was about to do: at most the one effect whose intent it had stored, and never a line of the journal."""
    state, rng, ends = tmp_path / "state", random.Random(7), Counter[tuple[int, int]]()
    now = os.open("/dev/zero", os.O_RDONLY)
    for number in itertools.count():
        if number >= max(ROUNDS // 5, 5) and ends[FENCED]:  # a busy machine stops it early or late more often
            break
        run, folder = f"{MARK}{number}", tmp_path / f"r{number}"
        folder.mkdir()
        cut_off_run(state, folder, run, CHAIN)
        stale = resume_in_child(state, run, now)
        until_held(state / "locks" / f"{run}.lock", stale)
        time.sleep(rng.uniform(0.0, 0.2))
        if not stopped(stale, state):
            continue
        (state / "locks" / f"{run}.lock").unlink(missing_ok=True)
        code = os.waitstatus_to_exitcode(os.waitpid(resume_in_child(state, run, now), 0)[1])
        before = journal_of(state, run)
        os.kill(stale, signal.SIGCONT)
        woken = os.waitstatus_to_exitcode(os.waitpid(stale, 0)[1])
        assert journal_of(state, run) == before
        assert isinstance(before[-1].event, RunEnded)
        assert sum(isinstance(entry.event, RunEnded) for entry in before) == 1
        acts = Counter((folder / "acted").read_text().split())
        assert set(acts) == {f"t{task}" for task in range(8)}
        assert sum(acts.values()) <= 8 + 1
        ends[code, woken] += 1
    os.close(now)
    assert set(ends) <= {FENCED, NEVER_BEGAN, WAS_DONE, WAS_LEAVING}, ends
