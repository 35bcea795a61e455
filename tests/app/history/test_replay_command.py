"""``replay``, ``checkpoints``, ``fork`` and ``resume --from`` as people call them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workbench import ROOT

Run = Callable[..., Any]

PLAN = """plan: steps
params:
  last: {type: string, default: three}
defaults: {timeout: 2m}
tasks:
  - id: one
    run: echo one >> log
  - id: two
    needs: [one]
    run: echo two >> log
  - id: three
    needs: [two]
    run: echo {{ params.last }} >> log
"""


@pytest.fixture
def ran(run: Run, tmp_path: Path) -> str:
    """The id of a run of three steps that each write a word."""
    (tmp_path / "p.yaml").write_text(PLAN)
    done = run("exec", "p.yaml", "--json")
    assert done.code == 0, done.err
    return str(json.loads(done.out)["run_id"])


def test_a_run_replays_exactly_and_changes_nothing(run: Run, ran: str, tmp_path: Path) -> None:
    before = {
        path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file() and "state" not in path.parts
    }
    entries = run("events", ran).out
    done = run("replay", ran)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"run {ran} replays exactly: 11 entries, 7 decided again, 4 from outside\n"
    data = json.loads(run("replay", ran, "--json").out)
    assert (data["run_id"], data["exact"], data["difference"], data["edited"]) == (ran, True, None, None)
    assert (data["entries"], data["decided"], data["inputs"]) == (11, 7, 4)
    assert run("events", ran).out == entries
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_an_edited_plan_is_reported_at_the_first_difference(run: Run, ran: str, tmp_path: Path) -> None:
    (tmp_path / "edited.yaml").write_text(PLAN.replace("echo two", "echo 2"))
    done = run("replay", ran, "--plan", "edited.yaml")
    assert done.code == 10
    assert done.out.splitlines() == [
        f"run {ran} differs at entry 5: attempt 1 of `two` would be called with another `run`",
        "  task     two",
        "  field    run",
        "  expected echo two >> log",
        "  got      echo 2 >> log",
    ]
    data = json.loads(run("replay", ran, "--plan", "edited.yaml", "--json").out)
    assert not data["exact"]
    assert data["edited"] != data["revision"]
    told = data["difference"]
    assert (told["seq"], told["kind"], told["task"], told["field"]) == (5, "attempt_started", "two", "run")
    assert (told["expected"], told["got"]) == ("echo two >> log", "echo 2 >> log")
    assert (tmp_path / "log").read_text() == "one\ntwo\nthree\n"


def test_another_default_is_a_difference_and_what_was_given_stays(run: Run, ran: str, tmp_path: Path) -> None:
    (tmp_path / "edited.yaml").write_text(PLAN.replace("default: three", "default: 3"))
    done = run("replay", ran, "--plan", "edited.yaml")
    assert done.code == 10
    assert done.out.splitlines()[1:] == [
        "  task     three",
        "  field    values.{{ params.last }}",
        "  expected three",
        "  got      3",
    ]
    run("exec", "p.yaml", "-p", "last=end")
    assert run("replay", "last", "--plan", "edited.yaml").code == 0


def test_a_plan_that_cannot_run_and_a_run_nobody_knows_are_refused(run: Run, ran: str, tmp_path: Path) -> None:
    (tmp_path / "edited.yaml").write_text("plan: broken\ntasks: 3\n")
    assert run("replay", ran, "--plan", "edited.yaml").code == 5
    assert run("replay", ran, "--plan", "nowhere.yaml").code == 3
    assert run("replay", "19990101").code == 3


def test_a_row_that_somebody_changed_is_found(run: Run, ran: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "state" / "journal.db") as database:
        body = '{"task":"two","status":"skipped"}'
        changed = database.execute(
            "UPDATE entries SET body = ? WHERE kind = 'task_settled' AND body LIKE '%two%'", (body,)
        )
        assert changed.rowcount == 1
    done = run("replay", ran)
    assert done.code == 10
    assert done.out.splitlines()[1:] == [
        "  task     two",
        "  field    status",
        "  expected skipped",
        "  got      completed",
    ]


def test_a_run_that_was_killed_and_one_that_waits_replay(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "plan: slow\ndefaults: {timeout: 10m}\ntasks:\n"
        "  - {id: first, run: 'true'}\n  - {id: slow, needs: [first], run: touch begun; sleep 300}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(tmp_path / "state")}
    process = subprocess.Popen([sys.executable, "-m", "planrunner", "exec", "p.yaml"], cwd=tmp_path, env=environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    for _ in range(10_000):
        if (tmp_path / "begun").exists():
            break
        time.sleep(0.02)
    assert run("replay", "last").code == 0  # while it goes on
    refused = run("fork", "last")
    assert refused.code == 9
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert run("replay", "last").code == 0
    assert run("resume", "last").code == 8  # asks what became of it
    assert run("replay", "last").code == 0
    assert run("resume", "last", "--settle", "slow=completed").code == 0
    done = run("replay", "last")
    assert done.code == 0, done.out


def test_checkpoints_are_listed_and_a_run_goes_on_from_one(run: Run, ran: str, tmp_path: Path) -> None:
    listed = json.loads(run("checkpoints", ran, "--json").out)
    assert listed["run_id"] == ran
    assert [one["task"] for one in listed["checkpoints"]] == ["one", "two", "three"]
    name = listed["checkpoints"][0]["name"]
    assert name in run("checkpoints", ran).out
    entries = run("events", ran).out
    done = run("resume", ran, "--from", name, "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["run_id"] != ran
    assert result["status"] == "completed"
    assert (tmp_path / "log").read_text().split() == ["one", "two", "three", "two", "three"]
    assert run("events", ran).out == entries
    assert run("replay", result["run_id"]).code == 0
    assert f"of {ran}" in done.err


def test_a_fork_starts_nothing_and_takes_parameters(run: Run, ran: str, tmp_path: Path) -> None:
    done = run("fork", ran, "--from", "two", "-p", "last=end")
    assert done.code == 0, done.err
    new = done.out.strip()
    assert f"resume {new}" in done.err
    assert (tmp_path / "log").read_text().split() == ["one", "two", "three"]
    shown = json.loads(run("show", new, "--json").out)
    assert (shown["status"], shown["tasks"]["two"]["status"]) == ("paused", "completed")
    assert "forked" in run("runs").out
    assert run("resume", new).code == 0
    assert (tmp_path / "log").read_text().split() == ["one", "two", "three", "end"]


def test_a_fork_from_a_place_that_its_run_took_over_replays(run: Run, ran: str) -> None:
    forked = run("fork", ran, "--from", "two").out.strip()
    assert run("resume", forked).code == 0
    done = run("fork", forked, "--from", "one")
    assert f"of {ran}" in done.err
    again = done.out.strip()
    assert run("replay", again).code == 0
    assert run("resume", again).code == 0
    assert run("replay", again).code == 0


def test_places_that_are_none_are_refused(run: Run, ran: str) -> None:
    for arguments, code, said in (
        (("--at", "99"), 2, "has the entries 1 to 11"),
        (("--at", "11"), 2, "ended with entry 11"),
        (("--at", "3", "--from", "two"), 2, "not both"),
        (("--from", "three"), 2, "nothing is left to continue with"),
        (("--from", "two", "-p", "lost=1"), 2, "no parameter `lost`"),
        (("--from", "two", "-p", "lats=1"), 2, "no parameter `lats`; did you mean `last`?"),
    ):
        done = run("fork", ran, *arguments)
        assert (done.code, said in done.err) == (code, True), done.err
