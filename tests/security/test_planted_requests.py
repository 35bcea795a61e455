"""Votes and stops that somebody else put among the requests of a run: they count for nothing, and that is said."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from security_desk import ROOT, Desk

from planrunner.journal.records import Request
from planrunner.journal.sqlite import open_journal

PLAN = """\
plan: p
defaults: {timeout: 10m}
tasks:
  - {id: allowed, gate: approval, ask: "Go on?"}
  - {id: act, needs: [allowed], run: "touch $CANARY", env: {CANARY: PLACE}}
"""
VOTE = {"gate": "allowed", "verdict": "approve", "reason": "planted"}


class Project(Desk):
    """A project with a run that waits at its gate."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.base = base
        self.is_now("own")
        self.write("p.yaml", PLAN.replace("PLACE", str(self.canary)))

    def is_now(self, who: str) -> None:
        self.env = {"XDG_DATA_HOME": str(self.base / who), "HOME": str(self.base / who)}

    def begin(self) -> str:
        self.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)
        return str(self.rows("SELECT run FROM runs ORDER BY number DESC")[0][0])

    def rows(self, statement: str, *values: Any) -> list[Any]:
        connection = sqlite3.connect(self.state / "journal.db", timeout=60)
        with connection:
            found = connection.execute(statement, values).fetchall()
        connection.close()
        return found

    def plant(self, run: str, kind: str, body: str) -> None:
        columns = "run, at, kind, body, by"
        self.rows(f"INSERT INTO requests ({columns}) VALUES (?, 1.0, ?, ?, 'you')", run, kind, body)

    def post(self, run: str, **body: Any) -> None:
        """A request of whoever this is now, which waits."""
        before = {name: os.environ.get(name) for name in self.env}
        os.environ.update(self.env)
        try:
            journal = open_journal(str(self.state))
            journal.post(run, Request("vote", body, "you", at=time.time()))
            journal.close()
        finally:
            os.environ.update({name: value for name, value in before.items() if value is not None})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.mark.parametrize("body", [json.dumps(VOTE), "{", "[]", '"\ud800"'.encode("utf-8", "replace").decode()])
def test_a_vote_that_was_planted_counts_for_nothing_and_is_told(project: Project, body: str) -> None:
    run = project.begin()
    project.plant(run, "vote", body)
    done = project.do("resume", run, "--no-wait", code=8)
    assert f"a request to run {run} counts for nothing: it was not made by your planrunner" in done.stderr
    assert "counts for nothing" not in project.do("resume", run, "--no-wait", code=8).stderr  # told once
    assert not project.canary.exists()
    project.do("approve", run, "allowed", "--reason", "I looked", "--resume", code=0)
    assert project.canary.exists()


def test_whoever_votes_is_told_of_a_stop_that_was_planted(project: Project) -> None:
    run = project.begin()
    project.plant(run, "cancel", "{}")
    done = project.do("approve", run, "allowed", "--reason", "I looked", code=0)
    assert "counts for nothing" in done.stderr
    project.do("resume", run, code=0)


def _runs(project: Project) -> list[Any]:
    try:
        return project.rows("SELECT run FROM runs") if (project.state / "journal.db").exists() else []
    except sqlite3.OperationalError:  # it is laid out this very moment
        return []


def test_a_stop_that_is_planted_while_the_run_goes_on_does_not_stop_it(project: Project) -> None:
    go = project.base / "go"
    wait = f"until [ -e {go} ]; do sleep 0.05; done"
    plan = project.plan({"id": "t", "run": wait, "timeout": "10m"})
    running = subprocess.Popen(
        [sys.executable, "-m", "planrunner", "exec", plan, "--progress", "quiet"],
        cwd=project.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(project.state), **project.env},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not (found := _runs(project)):
            assert running.poll() is None
            time.sleep(0.05)
        project.plant(found[0][0], "cancel", '{"now": true}')
        while project.rows("SELECT 1 FROM requests WHERE result IS NULL"):
            assert running.poll() is None
            time.sleep(0.05)
        go.touch()
        _, said = running.communicate(timeout=240)
    finally:
        running.kill()
    assert (running.returncode, "counts for nothing" in said) == (0, True)


@pytest.mark.parametrize(
    "change", ["id = 7", "run = 'RUN'", "body = '{}'", "kind = 'cancel'", "by = 'me'", "seal = NULL"]
)
def test_a_request_counts_as_it_was_made_for_one_run_and_once(project: Project, change: str) -> None:
    """It bears the key, and somebody made another one of it."""
    run, other = project.begin(), project.begin()
    project.post(other if "RUN" in change else run, **VOTE)
    project.rows(f"UPDATE requests SET {change.replace('RUN', run)}")
    assert "counts for nothing" in project.do("resume", run, "--no-wait", code=8).stderr
    project.post(run, **VOTE)
    project.do("resume", run, code=0)
    assert project.rows("SELECT seal FROM requests WHERE result IS NOT NULL") == [(None,), (None,)]


def test_what_waits_is_taken_with_a_state_directory_that_a_person_accepts(project: Project) -> None:
    run = project.begin()
    project.post(run, **VOTE)
    project.is_now("colleague")
    project.do("resume", run, code=10)
    project.do("audit", "accept", "--because", "they asked me to go on", code=0)
    project.do("resume", run, code=0)
    assert project.canary.exists()


def test_without_a_home_requests_count_as_ever(project: Project) -> None:
    """There is no key then, so nobody can tell who made one."""
    project.env = {"XDG_DATA_HOME": "/dev/null/home", "HOME": "/dev/null/home"}
    run = project.begin()
    project.plant(run, "vote", json.dumps(VOTE))
    project.do("resume", run, code=0)
    assert project.canary.exists()
