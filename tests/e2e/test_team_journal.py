"""A journal in PostgreSQL that two people share: a project at the same path, and a state directory of each."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pgvector
import psycopg
import pytest
from serving import awaited, serving
from workbench import ROOT, environment, planrunner

Json = Any

SHIP = """
plan: ship
defaults: {timeout: 1m}
tasks:
  - id: build
    run: echo built | tee built.txt
    artifacts: [{name: built, path: built.txt}]
    rollback: {run: rm -f built.txt}
  - {id: sign, needs: [build], gate: approval, ask: "Ship it?"}
  - {id: ship, needs: [sign], run: "echo shipped >> shipped.txt"}
"""
WAITS = """
plan: waits
defaults: {timeout: 5m}
tasks:
  - {id: first, run: echo first >> log.txt}
  - {id: stand, needs: [first], run: "echo standing >> log.txt; until test -e go; do sleep 0.05; done", effect: idempotent}
  - {id: last, needs: [stand], run: echo last >> log.txt}
"""


class Member:
    """One of the team, as on a machine of their own: the command with another state directory."""

    def __init__(self, folder: Path, name: str, address: str) -> None:
        self.folder = folder
        own = folder.parent / name
        self.variables = {
            "PLANRUNNER_JOURNAL": address,
            "PLANRUNNER_STATE": str(own / "state"),
            "XDG_DATA_HOME": str(own / "home"),
        }
        self.call = partial(planrunner, folder, **self.variables)
        (folder / "plans").mkdir(parents=True, exist_ok=True)
        (folder / "planrunner.yaml").write_text("{}\n")
        for plan, text in (("ship", SHIP), ("waits", WAITS)):
            (folder / "plans" / f"{plan}.yaml").write_text(text)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command that goes on beside this test."""
        return subprocess.Popen(
            [sys.executable, "-m", "planrunner", *words],
            cwd=self.folder,
            env=environment(**self.variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def shown(self) -> Json:
        return json.loads(self.call("show", "last", "--json").stdout)

    def log(self) -> list[str]:
        path = self.folder / "log.txt"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def address() -> str:
    return pgvector.empty_database()


@pytest.fixture
def team(tmp_path: Path, address: str) -> tuple[Member, Member]:
    return Member(tmp_path / "shop", "ana", address), Member(tmp_path / "shop", "bo", address)


def test_a_run_of_one_is_seen_decided_and_continued_by_the_other(team: tuple[Member, Member]) -> None:
    ana, bo = team
    assert "no runs" in bo.call("runs").stderr + bo.call("runs").stdout
    assert ana.call("exec", "ship").returncode == 8
    assert "ship" in bo.call("runs").stdout and "Ship it?" in bo.call("gates").stdout
    assert bo.call("approve", "last", "sign", "--as", "bo", "--reason", "fine").returncode == 0
    assert bo.call("resume", "last").returncode == 0
    assert (bo.folder / "shipped.txt").read_text() == "shipped\n"
    assert ana.shown()["status"] == bo.shown()["status"] == "completed"
    assert "approved by bo" in ana.call("why", "last", "ship").stdout
    assert "replays exactly" in ana.call("replay", "last").stdout
    assert ana.call("rollback", "last").returncode == 0
    assert not (ana.folder / "built.txt").exists()
    assert bo.shown()["tasks"]["build"]["status"] == "rolled_back"


def test_what_needs_the_chain_says_that_a_shared_journal_has_none(team: tuple[Member, Member]) -> None:
    ana, _ = team
    assert ana.call("exec", "ship").returncode == 8
    done = ana.call("audit", "verify")
    assert done.returncode == 2 and "entries are not chained" in done.stderr
    assert ana.call("doctor").stdout.count("postgresql://") == 1


def test_what_only_the_machine_of_a_runner_has_is_told_as_such(team: tuple[Member, Member]) -> None:
    ana, bo = team
    kept = SHIP.replace("    rollback:", "    checkpoint: true\n    rollback:")
    (ana.folder / "plans" / "ship.yaml").write_text(kept)
    assert ana.call("exec", "ship").returncode == 8
    assert "ship/build/built" in bo.call("artifacts").stdout
    for words in (
        ("artifacts", "get", "ship/build/built"),
        ("checkpoints", "last", "build", "--restore-files", "--yes"),
    ):
        done = bo.call(*words)
        assert done.returncode == 3
        assert "contents stay with the member who ran it: " in done.stderr and " began the run" in done.stderr
    assert "is not on this machine" in bo.call("artifacts", "get", "ship/build/built").stderr


def test_a_runner_that_is_killed_loses_its_lease_and_the_other_goes_on(team: tuple[Member, Member]) -> None:
    ana, bo = team
    runner = ana.start("exec", "waits")
    awaited(lambda: "standing" in ana.log())
    held = bo.call("resume", "last")
    assert held.returncode == 9 and f"process {runner.pid} on" in held.stderr
    os.kill(runner.pid, signal.SIGKILL)
    runner.communicate()
    (bo.folder / "go").touch()
    resumed = awaited(lambda: (done := bo.call("resume", "last", "--json")).returncode == 0 and done)
    assert json.loads(resumed.stdout)["status"] == "completed"
    assert bo.log() == ["first", "standing", "standing", "last"]


def test_the_other_cancels_a_run_that_goes_on(team: tuple[Member, Member]) -> None:
    ana, bo = team
    runner = ana.start("exec", "waits")
    awaited(lambda: "standing" in ana.log())
    assert bo.call("cancel", "last", "--reason", "not now").returncode == 0
    said, _ = runner.communicate()
    assert "not now" in said and runner.returncode != 0
    assert bo.shown()["status"] == "cancelled"


def test_a_server_that_cuts_the_line_stops_the_runner_and_nothing_is_lost(
    team: tuple[Member, Member], address: str
) -> None:
    ana, bo = team
    runner = ana.start("exec", "waits")
    awaited(lambda: "standing" in ana.log())
    with psycopg.connect(address, autocommit=True) as connection:
        cut = (
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid ="
            " ((hashtext(current_schema())::bigint & 4294967295)::oid)"
        )
        assert connection.execute(cut).fetchall() == [(True,)]
    said, _ = runner.communicate()
    assert "the journal at postgresql://" in said and "Traceback" not in said
    assert runner.returncode == 11
    (bo.folder / "go").touch()
    assert bo.call("resume", "last").returncode == 0
    assert bo.log().count("last") == 1


def test_two_who_resume_at_once_are_one_runner(team: tuple[Member, Member]) -> None:
    ana, _ = team
    assert ana.call("exec", "ship").returncode == 8
    assert ana.call("approve", "last", "sign").returncode == 0
    both = [member.start("resume", "last") for member in team]
    codes = sorted(process.wait() for process in both)
    for process in both:
        process.communicate()
    assert codes[0] == 0 and codes[1] in (0, 2, 9)
    assert (ana.folder / "shipped.txt").read_text() == "shipped\n"


def test_a_server_that_is_away_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    member = Member(tmp_path / "shop", "cy", "postgresql://cy:hush@127.0.0.1:1/plans")
    done = member.call("exec", "ship")
    assert done.returncode == 11 and "the journal at postgresql://127.0.0.1:1/plans cannot be used" in done.stderr
    assert "hush" not in done.stderr + done.stdout and not (member.folder / "built.txt").exists()


def test_a_server_that_refuses_is_not_waited_for(tmp_path: Path, address: str) -> None:
    member = Member(tmp_path / "shop", "cy", address.replace("/postgres?", "/elsewhere?"))
    done = member.call("runs")
    assert done.returncode == 11 and "does not exist" in done.stderr
    assert "the server refuses what PLANRUNNER_JOURNAL says" in done.stderr


def test_an_address_that_cannot_be_read_is_corrected_and_no_server_is_waited_for(tmp_path: Path) -> None:
    member = Member(tmp_path / "shop", "cy", "postgresql://cy:hush@127.0.0.1:1/plans?options=-csearch_path=shop")
    done = member.call("runs")
    assert done.returncode == 11 and "correct the address in PLANRUNNER_JOURNAL" in done.stderr
    assert "%3D" in done.stderr and "try again" not in done.stderr and "hush" not in done.stderr


def test_a_schema_of_a_database_is_the_journal_of_one_project(tmp_path: Path, address: str) -> None:
    """Both pages that say how to name a schema print it in the form that the client reads."""
    printed = [
        re.search(r"`\?options=(-csearch_path\S+?)`?[ `]", (ROOT / "docs" / "how-to" / page).read_text())
        for page in ("share-a-journal.md", "remember-things.md")
    ]
    assert printed[0] and printed[1] and printed[0][1] == "-csearch_path%3Dshop"
    with psycopg.connect(address, autocommit=True) as connection:
        for name in ("shop", "site"):
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
    for found in printed:
        assert found and psycopg.conninfo.conninfo_to_dict(f"postgresql://u@h/d?options={found[1]}")
    shop = Member(tmp_path / "shop", "ana", f"{address}&options={printed[0][1]}")
    site = Member(tmp_path / "site", "ana", f"{address}&options={printed[0][1].replace('shop', 'site')}")
    assert shop.call("exec", "ship", "--no-wait").returncode == 8
    assert "ship" in shop.call("runs").stdout and "ship" not in site.call("runs").stdout


def test_the_address_reaches_no_task(team: tuple[Member, Member]) -> None:
    ana, _ = team
    (ana.folder / "plans" / "look.yaml").write_text(
        "plan: look\ntasks:\n  - {id: look, run: 'echo seen ${PLANRUNNER_JOURNAL:-nothing}', timeout: 1m}\n"
    )
    assert "seen nothing" in ana.call("exec", "look").stdout + ana.call("exec", "look").stderr


def test_a_service_shows_and_runs_what_the_team_does(team: tuple[Member, Member]) -> None:
    ana, bo = team
    with serving(ana.folder, **ana.variables) as service:
        run = service.start("plans/ship.yaml")
        assert service.settled(run)["exit_code"] == 8
        assert run in bo.call("runs").stdout
        assert bo.call("exec", "ship").returncode == 8
        other = bo.shown()["run_id"]
        awaited(lambda: other in service.get(f"{service.api}/runs").text)


@pytest.mark.parametrize("address", ["mysql://cy:hush@db/plans", "host=db password=hush", "postgresql://[hush"])
def test_what_is_not_an_address_is_an_error_without_its_password(tmp_path: Path, address: str) -> None:
    member = Member(tmp_path / "shop", "cy", address)
    done = member.call("exec", "ship")
    assert done.returncode in (2, 11) and "Traceback" not in done.stderr, done.stderr
    assert "hush" not in done.stdout + done.stderr
