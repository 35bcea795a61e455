"""The playbook `migration` on a real PostgreSQL: whatever happens, the database is migrated or what it was, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stage import Stage
from workbench import environment

Staged = Callable[[str], Stage]

LOCKS = "SELECT count(*) FROM pg_locks WHERE"
MIGRATED = "SELECT count(*) FROM customer WHERE email_lower = lower(email)"
STANDS_IN = """#!/bin/sh
# {name}, which stops for ever where the file `stop` says so: before its call of that number, or half-way through the data.
case "$(cat stop 2>/dev/null)" in
  half) if [ "$2" = --exit-on-error ]; then {real} "$@" --section=pre-data; touch stopped; exec sleep 600; fi ;;
  ?) if [ {name} = dropdb ]; then
       echo >> calls
       if [ "$(wc -l < calls)" = "$(cat stop)" ]; then touch stopped; exec sleep 600; fi
     fi ;;
esac
exec {real} "$@"
"""


class Shop:
    """The stage, and its database as psql and pg_dump see it."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.environment = {**os.environ, **stage.scene.environment}
        self.before = self.dump()

    def psql(self, statement: str, database: str = "shop") -> str:
        """Looks under the name of the plan's own sessions: it counts the others whenever it comes to that."""
        words = ["psql", "-XAtq", "-d", database, "-c", statement]
        env = {**self.environment, "PGAPPNAME": "planrunner-migration"}
        return subprocess.run(words, env=env, check=True, capture_output=True, text=True).stdout.strip()

    def dump(self) -> str:
        """All that is in the database and what is said of it; without the random words that newer versions print."""
        words = ["pg_dump", "--create", "shop"]
        text = subprocess.run(words, env=self.environment, check=True, capture_output=True, text=True).stdout
        return "".join(line for line in text.splitlines(True) if not line.startswith(("\\restrict", "\\unrestrict")))

    def databases(self) -> str:
        return self.psql("SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE NOT datistemplate")

    def at_the_gate(self, *words: str) -> None:
        asked = self.stage.exec(*words)
        assert asked.code == 8, asked.out + asked.err
        assert self.dump() == self.before
        self.stage.planrunner("approve", "last", "review")

    def started(self, *words: str) -> subprocess.Popen[bytes]:
        """A command of planrunner that goes on beside the test."""
        return subprocess.Popen(
            [sys.executable, "-m", "planrunner", *words],
            cwd=self.stage.folder,
            env=environment(**self.stage.scene.environment),
            stdin=subprocess.DEVNULL,
            stdout=(self.stage.folder.parent / "said").open("wb"),
            stderr=subprocess.STDOUT,
        )

    def reaches(self, command: subprocess.Popen[bytes], holds: Callable[[], object]) -> None:
        """Waits for a state, which the command brings about or ends before it."""
        until(lambda: holds() or command.poll() is not None)
        assert holds(), (self.stage.folder.parent / "said").read_text()

    def rolled_back(self) -> None:
        undone = self.stage.planrunner("rollback", "last")
        assert undone.code == 0, undone.out + undone.err
        assert self.dump() == self.before
        assert self.databases() == "postgres shop"


@pytest.fixture
def data() -> Iterator[list[Path]]:
    """Folders of servers, which are removed when these have ended."""
    folders: list[Path] = []
    yield folders
    for folder in folders:
        shutil.rmtree(folder)


@pytest.fixture
def shop(data: list[Path], staged: Staged) -> Shop:
    shop = Shop(staged("migration"))
    data.append(Path(shop.psql("SHOW data_directory")).parent)
    return shop


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def killed(command: subprocess.Popen[bytes]) -> None:
    command.send_signal(signal.SIGKILL)
    command.wait()


def test_killed_in_the_rehearsal_it_goes_on_with_another_copy_and_is_applied_when_approved(shop: Shop) -> None:
    shop.stage.exec_killed(at="rehearse/change/apply?0?")
    assert shop.stage.resume().code == 8
    assert shop.dump() == shop.before
    shop.stage.planrunner("approve", "last", "review")
    run = shop.stage.resume()
    assert run.code == 0, run.out + run.err
    assert shop.psql(MIGRATED) == "200"
    assert shop.databases() == "postgres shop"
    kept = {artifact["name"] for artifact in json.loads(shop.stage.planrunner("artifacts", "--json").out)["artifacts"]}
    assert {"rows", "schema.diff"} <= kept


def test_a_rollback_restores_the_backup_however_often_it_is_killed(shop: Shop, tmp_path: Path) -> None:
    shop.at_the_gate()
    run = shop.stage.resume()
    assert run.code == 0, run.out + run.err
    shop.psql("INSERT INTO purchase (customer, cents) VALUES (1, 1)")
    migrated = shop.dump()
    (tmp_path / "bin").mkdir()
    for name in ("dropdb", "pg_restore"):
        (tmp_path / "bin" / name).write_text(STANDS_IN.format(name=name, real=shutil.which(name)))
        (tmp_path / "bin" / name).chmod(0o755)
    scene = shop.stage.scene
    scene.environment["PATH"] = f"{tmp_path / 'bin'}:{scene.environment['PATH']}"
    for moment, state in (("1", migrated), ("half", migrated), ("2", migrated), ("3", shop.before)):
        (shop.stage.folder / "stop").write_text(moment)
        command = shop.started("rollback", "last")
        shop.reaches(command, (shop.stage.folder / "stopped").exists)
        killed(command)
        assert shop.dump() == state, moment
        for name in ("stop", "stopped", "calls"):
            (shop.stage.folder / name).unlink(missing_ok=True)
    shop.rolled_back()


def test_a_rejected_migration_changes_nothing(shop: Shop) -> None:
    shop.stage.exec()
    shop.stage.planrunner("reject", "last", "review", "--reason", "not now")
    assert shop.stage.resume().code == 7
    assert shop.dump() == shop.before
    assert shop.databases() == "postgres shop"


def session(shop: Shop, database: str, statements: str) -> subprocess.Popen[bytes]:
    """Another session, which has been sent these statements, until the end of a ``with`` block."""
    words = ["psql", "-Xq", "-d", database]
    other = subprocess.Popen(words, env=shop.environment, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert other.stdin is not None
    other.stdin.write(statements.encode())
    other.stdin.flush()
    return other


def test_nothing_is_applied_while_another_migration_runs_or_others_are_connected(shop: Shop) -> None:
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted = "
    with session(shop, "postgres", "SELECT pg_advisory_lock(hashtext('migration of shop')) \\g /dev/null\n"):
        until(lambda: shop.psql(locks + "true") == "1")
        command = shop.started(*shop.stage.scene.command("exec"))
        until(lambda: shop.psql(locks + "false") == "1")
    assert command.wait() == 8
    shop.stage.planrunner("approve", "last", "review")
    with session(shop, "shop", ""):
        until(lambda: shop.psql("SELECT count(*) FROM pg_stat_activity WHERE datname = 'shop'") == "2")
        run = shop.stage.resume()
    assert run.code == 1
    assert run.status("quiet") == "failed"
    assert shop.dump() == shop.before


def test_without_a_password_it_fails_and_asks_nobody(shop: Shop) -> None:
    del shop.stage.scene.environment["PGPASSWORD"]
    run = shop.stage.exec()
    assert (run.code, run.status("lock"), run.status("clean")) == (1, "failed", "failed"), run.err
    assert "no password supplied" in run.err
    assert shop.dump() == shop.before


def test_a_check_that_fails_restores_the_backup(shop: Shop) -> None:
    shop.at_the_gate("-p", "checks=[\"SELECT current_database() = 'shop.copy'\"]")
    run = shop.stage.resume()
    assert run.code == 1
    assert run.status("migrate/guard") == "rolled_back", run.out + run.err
    assert shop.dump() == shop.before
    assert shop.databases() == "postgres shop"


def between_two_indexes(shop: Shop) -> subprocess.Popen[bytes]:
    """Starts a run whose second `CREATE INDEX CONCURRENTLY` waits for a lock, the first one being done; kills it there."""
    shop.at_the_gate("-p", "sessions=1")
    other = session(shop, "shop", "BEGIN; LOCK TABLE purchase IN SHARE UPDATE EXCLUSIVE MODE;\n")
    until(
        lambda: (
            shop.psql(f"{LOCKS} granted AND mode = 'ShareUpdateExclusiveLock' AND relation = 'purchase'::regclass")
            == "1"
        )
    )
    command = shop.started("resume", "last")
    shop.reaches(command, lambda: shop.psql(f"{LOCKS} NOT granted AND locktype = 'relation'") == "1")
    killed(command)
    assert shop.psql(MIGRATED) == "200"
    assert shop.psql("SELECT count(*) FROM pg_class WHERE relname = 'customer_email_lower'") == "1"
    return other


def test_killed_between_statements_outside_of_a_transaction_it_is_rolled_back(shop: Shop) -> None:
    other = between_two_indexes(shop)
    shop.rolled_back()
    other.communicate()


def test_killed_between_statements_outside_of_a_transaction_it_is_restored_and_applied_again(shop: Shop) -> None:
    other = between_two_indexes(shop)
    run = shop.stage.resume()
    assert run.code == 0, run.out + run.err
    assert shop.psql(MIGRATED) == "200"
    assert shop.psql("SELECT count(*) FROM pg_index WHERE NOT indisvalid") == "0"
    assert shop.databases() == "postgres shop"
    other.communicate()
