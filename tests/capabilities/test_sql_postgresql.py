"""SQL on a real PostgreSQL: read-only, bound, in one transaction, done once, stopped in time, silent about passwords."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planrunner.capabilities.contract import Call, Context, Failure, declaration_of
from planrunner.capabilities.sql.execution import execute, query, script
from planrunner.plan.model import Task

PEER = Path(__file__).resolve().parents[2] / "plans" / "capabilities" / "peers" / "postgresql.py"


class Log:
    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    usage: dict[str, Any] = {}

    def beat(self) -> None: ...
    def spend(self, amounts: Any) -> None: ...


class Settings:
    """What the engine gives of ``planrunner.yaml``."""

    def __init__(self, main: Any) -> None:
        self.main = main

    def settings(self, section: str) -> dict[str, Any]:
        return {"databases": {"main": self.main}} if section == "sql" else {}

    def conceal(self, name: str, value: str) -> None:
        """Nothing is kept here."""

    def directory(self) -> str:
        """Where the run works."""
        return os.getcwd()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of its own for this module."""
    server = subprocess.Popen([sys.executable, str(PEER)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = server.stdout.readline().strip()
    try:
        assert line.startswith("postgresql://"), "PostgreSQL did not start; is it installed? (.ci/programs does)"
        yield line
    finally:
        server.terminate()
        server.wait(240)


@pytest.fixture
def here(address: str, tmp_path: Path) -> Any:
    """A context with an empty table ``entry`` in the database."""

    def make(once: str = "r:t:1", stop: Any = lambda: False, main: Any = None, **more: Any) -> Context:
        call = Call("r", Task("t", **more), 1, "k", {}, "", (), {}, {}, str(tmp_path), "", None, once=once)
        return Context(call, Log(), stop, Settings(main or address))  # type: ignore[arg-type]

    fresh = [
        "DROP TABLE IF EXISTS entry, planrunner_keys",
        "CREATE TABLE entry (id serial PRIMARY KEY, name text UNIQUE, cents numeric(12, 2), at date, data jsonb)",
    ]
    execute(make(effect="unsafe"), fresh, key=False)
    return make


def test_types_come_as_json_data(here: Any) -> None:
    statement = """
        SELECT 1.50::numeric AS n, DATE '2026-01-02' AS d, TIMESTAMPTZ '2026-01-02 03:04:05+00' AS t, '\\x00ff'::bytea AS b,
        NULL AS x, 'NaN'::float8 AS nan, ARRAY[1, 2] AS l, '{"a": [true]}'::jsonb AS j,
        '00000000-0000-0000-0000-000000000001'::uuid AS u, INTERVAL '1 hour' AS i, true AS y, 9007199254740993 AS big
    """
    row = query(here(), statement).rows[0]
    assert row.pop("t").startswith("2026-01-02T0")
    assert row == {
        "n": "1.50", "d": "2026-01-02", "b": "AP8=", "x": None, "nan": "NaN", "l": [1, 2], "j": {"a": [True]},
        "u": "00000000-0000-0000-0000-000000000001", "i": "PT3600S", "y": True, "big": 9007199254740993,
    }  # fmt: skip


def test_values_are_bound_and_take_the_type_of_their_place(here: Any) -> None:
    hostile = "x'); DROP TABLE entry; --%(a)s :b"
    insert = "INSERT INTO entry (name, cents, at, data) VALUES (:n, :c, :d, :j) RETURNING id"
    execute(here(), insert, {"n": hostile, "c": "12.50", "d": "2026-01-02", "j": {"k": 1}})
    found = query(
        here(),
        "SELECT name, cents, at, data FROM entry WHERE name = :n AND cents IN :c",
        {"n": hostile, "c": ["12.5", 3]},
    )
    assert found.rows == [{"name": hostile, "cents": "12.50", "at": "2026-01-02", "data": {"k": 1}}]
    assert query(here(), "SELECT 1 AS x WHERE 5 % 3 = 2 AND 'a%' LIKE :p", {"p": "a%"}).rows == [{"x": 1}]
    assert query(here(), "SELECT id FROM entry WHERE id IN :l", {"l": []}).rows == []
    assert query(here(), "SELECT count(*) AS n FROM entry WHERE id NOT IN :l", {"l": []}).rows == [{"n": 1}]
    assert query(here(), "SELECT :a::text || 'x' AS v, '1:2' AS t", {"a": "b"}).rows == [{"v": "bx", "t": "1:2"}]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO entry (name) VALUES ('x')",
        "WITH d AS (INSERT INTO entry (name) VALUES ('x') RETURNING id) SELECT * FROM d",
        "CREATE TABLE stolen (x int)",
        "SELECT nextval('entry_id_seq')",
        "SELECT set_config('transaction_read_only', 'off', true), (SELECT count(*) FROM entry)",
        "SET TRANSACTION READ WRITE",
        "SET transaction_read_only = off",
        "DO $$ BEGIN INSERT INTO entry (name) VALUES ('x'); END $$",
        "EXPLAIN ANALYZE INSERT INTO entry (name) VALUES ('x')",
        "SELECT 1; COMMIT; INSERT INTO entry (name) VALUES ('x')",
        "COPY entry FROM PROGRAM 'true'",
        "COPY (SELECT 1) TO PROGRAM 'touch {proof}'",
        "DO $$ BEGIN COPY (SELECT 1) TO PROGRAM 'touch {proof}'; END $$",
    ],
)
def test_a_query_cannot_write(here: Any, statement: str) -> None:
    proof = Path(tempfile.gettempdir()) / f"written-by-postgresql-{os.getpid()}"
    with pytest.raises(Failure) as refused:
        query(here(), statement.replace("{proof}", str(proof)))
    assert not proof.exists()
    assert refused.value.failure in ("policy", "logic")
    assert query(here(), "SELECT count(*) AS n FROM entry").rows == [{"n": 0}]
    assert query(here(), "SELECT to_regclass('stolen') AS t").rows == [{"t": None}]


def test_a_large_result_is_cut_without_being_loaded(here: Any) -> None:
    found = query(
        here(),
        "SELECT repeat('x', 1000) AS t FROM generate_series(1, 40000) a, generate_series(1, 40000) b",
        max_rows=300,
    )
    assert (found.row_count, found.truncated) == (300, True)


def test_what_a_read_only_transaction_lets_pass_is_rolled_back(here: Any) -> None:
    query(here(), "SELECT lo_create(4711)")
    assert query(here(), "SELECT oid FROM pg_largeobject_metadata").rows == []


def test_statements_are_one_transaction_and_faults_have_classes(here: Any) -> None:
    insert = "INSERT INTO entry (name) VALUES (:n)"
    with pytest.raises(Failure, match=r"duplicate key .* Key \(name\)=\(a\) already exists") as failed:
        execute(here(), insert, [{"n": "a"}, {"n": "a"}])
    assert failed.value.failure == "constraint"
    with pytest.raises(Failure, match='relation "nowhere" does not exist') as failed:
        execute(here(), ["INSERT INTO entry (name) VALUES ('b')", "INSERT INTO nowhere VALUES (1)"])
    assert failed.value.failure == "logic"
    assert query(here(), "SELECT name FROM entry").rows == []
    done = execute(here(), ["INSERT INTO entry (name) VALUES ('a') RETURNING id", "SELECT generate_series(1, 10)"])
    assert (done.affected, done.counts) == (1, [1, 10])


@pytest.mark.parametrize("statement", ["COMMIT", "/* x */ END", "SELECT 1; COMMIT", "START TRANSACTION", "ROLLBACK"])
def test_nothing_leads_out_of_the_transaction(here: Any, statement: str) -> None:
    with pytest.raises(Failure):
        execute(here(), ["INSERT INTO entry (name) VALUES ('half')", statement, "SELECT 1 / 0"])
    assert query(here(), "SELECT name FROM entry").rows == []


def test_attempts_at_the_same_time_do_it_once_and_give_the_same_result(here: Any) -> None:
    results: list[Any] = []
    statement = "INSERT INTO entry (name) SELECT :n FROM pg_sleep(0.2) RETURNING id"

    def attempt() -> None:
        results.append(execute(here_made, statement, {"n": "x"}))

    here_made = here()
    threads = [threading.Thread(target=attempt) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.repeated for result in results) == [False] + [True] * 4
    assert {result.rows[0]["id"] for result in results} == {1}
    assert query(here(), "SELECT count(*) AS n FROM entry").rows == [{"n": 1}]
    with pytest.raises(Failure, match="done before with other statements"):
        execute(here(), statement, {"n": "y"})


def test_a_connection_that_breaks_before_the_commit_leaves_nothing_and_is_worth_another_attempt(here: Any) -> None:
    kill = "SELECT pg_terminate_backend(pg_backend_pid())"
    with pytest.raises(Failure) as lost:
        execute(here(), ["INSERT INTO entry (name) VALUES ('x')", kill])
    assert lost.value.failure == "transient"
    assert not execute(here(), "INSERT INTO entry (name) VALUES ('x')").repeated


def test_a_timeout_and_a_stop_end_a_statement_on_the_server_too(here: Any) -> None:
    began = time.monotonic()
    with pytest.raises(Failure) as late:
        query(here(), "SELECT pg_sleep(600)", timeout="400ms")
    assert late.value.failure == "timeout"
    stop = threading.Event()
    threading.Timer(0.4, stop.set).start()
    with pytest.raises(Failure, match="was stopped"):
        execute(here(stop=stop.is_set), ["INSERT INTO entry (name) VALUES ('x')", "SELECT pg_sleep(600)"])
    assert time.monotonic() - began < 240
    active = "SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()"
    while query(here(), active).rows != [{"n": 0}]:
        time.sleep(0.05)
    assert query(here(), "SELECT count(*) AS n FROM entry").rows == [{"n": 0}]


def test_a_migration_with_functions_runs_as_a_whole(here: Any, tmp_path: Path) -> None:
    (tmp_path / "m.sql").write_text(
        "CREATE OR REPLACE FUNCTION doubled(x int) RETURNS int LANGUAGE plpgsql AS $body$ BEGIN RETURN x * 2; END; $body$;\n"
        "CREATE OR REPLACE FUNCTION one() RETURNS int BEGIN ATOMIC SELECT 2; SELECT 1; END;\n"
        "INSERT INTO entry (name, cents) VALUES ('it''s; 100%', doubled(21) * one()); -- :done\n"
    )
    assert script(here(), "m.sql").counts == [0, 0, 1]
    assert query(here(), "SELECT name, cents FROM entry").rows == [{"name": "it's; 100%", "cents": "42.00"}]


def test_a_preview_by_rollback_changes_nothing(here: Any, address: str) -> None:
    declaration = declaration_of(execute)
    assert declaration is not None and declaration.preview is not None
    shown = declaration.preview(
        here(main={"url": address, "preview": "rollback"}), "INSERT INTO entry (name) VALUES (:n)", {"n": "x"}
    )
    assert "1 rows affected, tried and rolled back" in shown.summary
    assert query(here(), "SELECT count(*) AS n FROM entry").rows == [{"n": 0}]


def test_no_message_holds_the_password(here: Any, address: str) -> None:
    wrong = address.replace(":", ":s3cr%2Ft", 2).replace("postgresql:s3cr%2Ft", "postgresql:", 1)
    password = address.split(":")[2].split("@", maxsplit=1)[0]
    gone = address.replace("127.0.0.1:", "127.0.0.1:1")[:-7]
    said = []
    for main in (wrong, gone, address.replace("/shop", "/no-such")):
        with pytest.raises(Failure) as failed:
            query(here(main=main), "SELECT 1")
        said.append(str(failed.value))
    assert "password authentication failed" in said[0]
    assert not any(secret in message for message in said for secret in (password, "s3cr"))


def test_a_run_keeps_the_password_out_of_journal_log_and_messages(address: str, tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text("sql: {databases: {shop: {url_env: SHOP_URL}}}\n")
    every = "SELECT i, repeat('x', 100) AS t FROM generate_series(1, 50000) i"
    (tmp_path / "p.yaml").write_text(
        "plan: p\ntasks:\n"
        "  - {id: a, uses: sql.query, with: {database: shop, statement: SELECT 1 AS x}}\n"
        "  - {id: b, uses: sql.query, with: {database: shop, statement: SELECT nothing}, allow_failure: true}\n"
        f'  - {{id: c, uses: sql.query, with: {{database: shop, statement: "{every}", keep: all.jsonl, max_rows: 2}}}}\n'
    )
    password = address.split(":")[2].split("@", maxsplit=1)[0]
    environment = {**os.environ, "SHOP_URL": address, "PYTHONPATH": str(PEER.parents[3])}
    command = [sys.executable, "-m", "planrunner", "--state", "state", "exec", "p.yaml", "--json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert '"rows": [{"x": 1}]' in done.stdout
    kept = json.loads(done.stdout)["tasks"]["c"]["outputs"]
    assert (kept["row_count"], len(kept["rows"]), kept["truncated"]) == (50000, 2, True)
    got = subprocess.run(
        [*command[:5], "artifacts", "get", "p/c/all.jsonl", "-o", "all.jsonl"],
        cwd=tmp_path,
        env=environment,
        timeout=240,
    )
    assert got.returncode == 0
    assert json.loads((tmp_path / "all.jsonl").read_text().splitlines()[49999])["i"] == 50000
    assert password not in done.stdout + done.stderr
    for path in (tmp_path / "state").rglob("*"):
        assert not path.is_file() or password.encode() not in path.read_bytes(), path


def test_a_server_that_does_not_answer_is_not_waited_for_when_the_attempt_stops(here: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"postgresql://me:secret@127.0.0.1:{silent.getsockname()[1]}/x"
        stop = threading.Event()
        threading.Timer(0.3, stop.set).start()
        began = time.monotonic()
        with pytest.raises(Failure, match="stopped while connecting"):
            query(here(stop=stop.is_set, main=address), "SELECT 1")
        assert time.monotonic() - began < 240
