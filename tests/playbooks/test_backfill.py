"""The playbook `backfill` on SQLite and PostgreSQL: each row once, whatever is cut off or fails, and back again."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from stage import Stage
from workbench import environment

Staged = Callable[[str], Stage]
BATCHES = ("-p", "size=500", "-p", "pause=1ms", "-p", "batches=8")
ROWS = 10_000
COUNTS = """
CREATE TABLE change (id INTEGER NOT NULL);
CREATE TRIGGER counts AFTER UPDATE ON customer BEGIN INSERT INTO change VALUES (new.id); END;
"""
"""The database itself counts how often each row is changed."""
CUSTOMERS = "SELECT id, email, email_lower FROM customer ORDER BY id"


class Shop:
    """The stage of the rehearsal with 10,000 good rows and one that was filled before."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.database = stage, sqlite3.connect(stage.folder / "shop.db", isolation_level=None)
        self.database.execute("BEGIN")
        self.database.execute("DELETE FROM customer")
        rows = ((n, f"Customer{n}@Example.org") for n in range(1, ROWS + 1))
        self.database.executemany("INSERT INTO customer (id, email) VALUES (?, ?)", rows)
        self.database.execute("INSERT INTO customer VALUES (20000, 'Old@Example.org', 'other@example.org')")
        self.database.execute("COMMIT")
        self.database.executescript(COUNTS)
        self.before = self.rows(CUSTOMERS)

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        return self.database.execute(statement).fetchall()

    def changed(self, rows: int) -> None:
        """That so many rows have been changed, each once, and as they should."""
        assert self.rows("SELECT count(*), count(DISTINCT id) FROM change") == [(rows, rows)]
        assert self.rows("SELECT count(*) FROM customer WHERE email_lower = lower(email)") == [(rows,)]

    def rolled_back(self) -> None:
        undone = self.stage.planrunner("rollback", "last")
        assert undone.code == 0, undone.out + undone.err
        assert self.rows(CUSTOMERS) == self.before
        assert self.rows("SELECT name FROM sqlite_schema WHERE name = 'backfill_old'") == []


@pytest.fixture
def shop(staged: Staged) -> Shop:
    return Shop(staged("backfill"))


@pytest.mark.parametrize("moment", ["rounds#2/batch?1?/change", 30], ids=["between commit and journal", "somewhere"])
def test_killed_in_the_middle_it_changes_each_row_once(shop: Shop, moment: str | int) -> None:
    shop.stage.exec_killed(*BATCHES, at=moment)
    part = shop.rows("SELECT count(*) FROM change")[0][0]
    assert isinstance(part, int) and 0 < part < ROWS
    run = shop.stage.resume()
    assert run.code == 8, run.out + run.err
    shop.changed(ROWS)
    shop.rolled_back()


def test_confirmed_the_old_values_are_dropped(shop: Shop) -> None:
    assert shop.stage.exec(*BATCHES).code == 8
    assert shop.rows("SELECT count(*) FROM backfill_old") == [(ROWS,)]
    shop.stage.planrunner("approve", "last", "confirm")
    run = shop.stage.resume()
    assert (run.code, run.run["outputs"]) == (0, {"unchanged": 0})
    shop.changed(ROWS)
    assert shop.rows("SELECT name FROM sqlite_schema WHERE name = 'backfill_old'") == []


def test_a_batch_with_a_row_that_cannot_be_changed_is_told_and_the_others_go_on(shop: Shop) -> None:
    shop.database.execute("UPDATE customer SET email = 'unknown' WHERE id = 4711")
    shop.database.execute("DELETE FROM change")
    asked = shop.stage.exec(*BATCHES)
    assert asked.code == 8
    shop.changed(ROWS - 500)
    told = shop.stage.planrunner("gates", "last").out
    assert "500 rows are not changed" in told
    assert "4501 to 5000: statement " in told
    assert "CHECK constraint failed: address" in told
    shop.stage.planrunner("approve", "last", "confirm", "--resume")
    shop.database.execute("UPDATE customer SET email = 'Known@Example.org' WHERE id = 4711")
    shop.database.execute("DELETE FROM change WHERE id = 4711")
    assert shop.stage.exec(*BATCHES).code == 8
    shop.changed(ROWS)


def test_too_many_failures_end_it_and_a_retry_goes_on(shop: Shop) -> None:
    shop.database.execute("UPDATE customer SET email = 'unknown' WHERE id IN (600, 1100, 1600)")
    shop.database.execute("DELETE FROM change")
    failed = shop.stage.exec(*BATCHES)
    assert failed.code == 1
    assert failed.status("left") == "omitted"
    shop.database.execute("UPDATE customer SET email = 'Known@Example.org' WHERE id IN (600, 1100, 1600)")
    shop.database.execute("DELETE FROM change WHERE id IN (600, 1100, 1600)")
    again = shop.stage.planrunner("retry", "last", "--unattended", "--json")
    assert again.code == 8, again.out + again.err
    shop.changed(ROWS)


def test_paused_it_goes_on_where_it_was(shop: Shop) -> None:
    stage = shop.stage
    words = stage.scene.command("exec", "-p", "size=500", "-p", "batches=1", "--no-wait")
    running = subprocess.Popen(
        [sys.executable, "-m", "planrunner", *words],
        cwd=stage.folder,
        env=environment(**stage.scene.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while shop.rows("SELECT count(*) FROM change") == [(0,)]:
        assert running.poll() is None
        time.sleep(0.02)
    stage.planrunner("pause", "last", "--reason", "the shop is busy")
    assert running.wait() == 8
    assert stage.resume().code == 8
    shop.changed(ROWS)


POSTGRESQL = """
CREATE TABLE customer (id bigserial PRIMARY KEY, email text NOT NULL, email_lower text CHECK (email_lower LIKE '%@%'));
INSERT INTO customer (email) SELECT 'Customer' || n || '@Example.org' FROM generate_series(1, 10000) n;
CREATE TABLE change (id bigint NOT NULL);
CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO change VALUES (new.id); RETURN new; END';
CREATE TRIGGER counts AFTER UPDATE ON customer FOR EACH ROW EXECUTE FUNCTION counts();
"""
CHANGED = """
SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE email_lower = lower(email)) FROM customer JOIN change USING (id)
"""
DIGEST = "SELECT md5(string_agg(customer::text, ';' ORDER BY id)) FROM customer"


def test_on_postgresql_each_row_is_changed_once_too_and_a_rollback_gives_the_old_values(staged: Staged) -> None:
    stage = staged("backfill")
    stage.scene.new = True
    server = stage.scene.postgresql()
    stage.scene.settings["sql"] = {"databases": {"main": {"url_env": "SHOP"}}}
    stage.scene.save()
    stage.scene.environment["SHOP"] = server.address
    server.psql(POSTGRESQL)
    before = server.psql(DIGEST)
    stage.exec_killed("-p", "database=main", *BATCHES, at="rounds#2/batch?1?/change")
    run = stage.resume()
    assert run.code == 8, run.out + run.err
    assert server.psql(CHANGED) == "10000|10000|10000"
    assert stage.planrunner("rollback", "last").code == 0
    assert server.psql(DIGEST) == before
    assert server.psql("SELECT to_regclass('backfill_old') IS NULL") == "t"
