"""The plan of SQL through the real command line, on SQLite and on a PostgreSQL server of its own."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import workbench
from shown import check_output
from workbench import ROOT

PLAN = "plans/capabilities/sql.yaml"
AFTER = [{"name": "ana", "cents": 3750}, {"name": "bob", "cents": 1350}]


def planrunner(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return workbench.planrunner(folder, *words, **{"PLANRUNNER_STATE": str(folder / "state"), **more})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "plans" / "capabilities", tmp_path / "plans" / "capabilities")
    shutil.copy(ROOT / "planrunner.yaml", tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    peer = ROOT / "plans" / "capabilities" / "peers" / "postgresql.py"
    running = subprocess.Popen([sys.executable, str(peer)], stdout=subprocess.PIPE, text=True)
    yield running
    running.terminate()
    running.wait(240)


def told(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert ended.stdout, ended.stderr
    return dict(json.loads(ended.stdout))


def test_on_sqlite_it_runs_replays_without_the_file_and_rolls_back(project: Path) -> None:
    assert planrunner(project, "lint", PLAN).returncode == 0
    ended = planrunner(project, "exec", PLAN, "--json")
    found = told(ended)
    assert ended.returncode == 0, ended.stderr
    check_output("capabilities/sql.yaml", ended.stderr, 0, project)
    assert found["outputs"]["accounts"] == AFTER
    assert found["tasks"]["overdraw"]["status"] == "failed"
    assert found["tasks"]["refused"]["status"] == "completed"
    (project / "build" / "shop.db").rename(project / "shop.db")
    assert planrunner(project, "replay", "last").returncode == 0
    (project / "shop.db").rename(project / "build" / "shop.db")
    undone = planrunner(project, "rollback", "last")
    rows = (
        sqlite3.connect(project / "build" / "shop.db")
        .execute("SELECT name, cents FROM account ORDER BY name")
        .fetchall()
    )
    assert rows == [("ana", 5000), ("bob", 100)], undone.stdout + undone.stderr


def test_on_postgresql_it_gives_the_same_and_replays_when_the_server_is_gone(
    project: Path, server: subprocess.Popen[str]
) -> None:
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    shown = planrunner(project, "preview", PLAN, "-p", "database=shop", "--changes", SHOP_DATABASE=address)
    assert shown.returncode == 0, shown.stderr
    ended = planrunner(project, "exec", PLAN, "-p", "database=shop", "--json", SHOP_DATABASE=address)
    assert ended.returncode == 0, ended.stderr
    assert told(ended)["outputs"]["accounts"] == AFTER
    server.terminate()
    server.wait(240)
    replayed = planrunner(project, "replay", "last")
    assert replayed.returncode == 0, replayed.stderr
    failed = planrunner(project, "exec", PLAN, "-p", "database=shop", "--json", SHOP_DATABASE=address)
    assert "cannot be reached" in told(failed)["tasks"]["tables"]["detail"]
    password = address.split(":")[2].split("@")[0]
    assert password not in failed.stdout + failed.stderr + shown.stdout


def test_a_run_killed_between_commit_and_journal_does_the_work_once(project: Path) -> None:
    (project / "kill.py").write_text(
        "import os, signal, sqlite3, sys\n"
        "import planrunner.capabilities.sql.session as session\n"
        "from planrunner.cli import console\n"
        "say = session.Session.say\n"
        "def kill(self, words):\n"
        "    say(self, words)\n"
        "    if words == 'COMMIT' and not os.path.exists('killed'):\n"
        "        open('killed', 'w').close(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "session.Session.say = kill\n"
        "sys.argv = ['planrunner', 'exec', 'x.yaml']\n"
        "console()\n"
    )
    (project / "x.yaml").write_text(
        "plan: p\ntasks:\n"
        "  - id: a\n    uses: sql.execute\n    timeout: 2m\n"
        "    with:\n      database: sqlite:///count.db\n      statement:\n"
        "        - CREATE TABLE IF NOT EXISTS n (i INTEGER PRIMARY KEY)\n        - INSERT INTO n DEFAULT VALUES RETURNING i\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(project / "state")}
    killed = subprocess.run([sys.executable, "kill.py"], cwd=project, env=environment, capture_output=True, timeout=240)
    assert killed.returncode == -9
    assert (project / "killed").exists()
    resumed = planrunner(project, "resume", "last", "--json")
    assert told(resumed)["tasks"]["a"]["outputs"] == {
        "affected": 1,
        "counts": [0, 1],
        "rows": [{"i": 1}],
        "repeated": True,
    }
    assert sqlite3.connect(project / "count.db").execute("SELECT count(*) FROM n").fetchone() == (1,)
