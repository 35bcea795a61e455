"""SQL on SQLite: read-only means read-only, one transaction or nothing, done once, stopped in time."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from planrunner.capabilities.contract import Call, Context, Failure, declaration_of
from planrunner.capabilities.sql.execution import execute, query, script
from planrunner.capabilities.sql.statements import lines, statements
from planrunner.plan.model import Task

BOOK = "sqlite:///book.db"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


class Log:
    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    usage: dict[str, Any] = {}

    def beat(self) -> None: ...
    def spend(self, amounts: Any) -> None: ...


class Settings:
    """What the engine gives: of ``planrunner.yaml``, and the state folder, which lies in ``var``."""

    def __init__(self, directory: Path, **databases: Any) -> None:
        self.place = directory
        self.databases = databases

    def directory(self) -> str:
        return str(self.place)

    def cache(self, name: str) -> str:
        folder = self.place / "var" / "cache" / name
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    def settings(self, section: str) -> dict[str, Any]:
        return {"databases": self.databases} if section == "sql" else {}

    def conceal(self, name: str, value: str) -> None:
        """Nothing is kept here."""


def context(directory: Path, once: str = "r:t:1", stop: Any = lambda: False, task: Task | None = None, **databases: Any) -> Context:  # fmt: skip
    call = Call("r", task or Task("t"), 1, "k", {}, "", (), {}, {}, str(directory), "", None, once=once)
    return Context(call, Log(), stop, Settings(directory, **databases))  # type: ignore[arg-type]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "book.db") as connection:
        connection.executescript(
            "CREATE TABLE entry (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, cents INTEGER, data BLOB);"
            "INSERT INTO entry VALUES (1, 'rent', -90000, x'00ff'), (2, 'wages', 250000, NULL)"
        )
    return tmp_path


def count(book: Path) -> int:
    return int(sqlite3.connect(book / "book.db").execute("SELECT count(*) FROM entry").fetchone()[0])


class TestQuery:
    def test_rows_come_as_maps_of_json_data(self, book: Path) -> None:
        found = query(
            context(book), "SELECT id, name, data, cents / 100.0 AS euros FROM entry ORDER BY id", database=BOOK
        )
        assert found.rows == [
            {"id": 1, "name": "rent", "data": "AP8=", "euros": -900.0},
            {"id": 2, "name": "wages", "data": None, "euros": 2500.0},
        ]
        assert (found.columns, found.row_count, found.truncated) == (["id", "name", "data", "euros"], 2, False)

    def test_more_rows_than_wanted_are_left_out_and_that_is_told(self, book: Path) -> None:
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        found = query(context(book), numbers, database=BOOK, max_rows=250)
        assert (found.row_count, found.truncated, found.rows[-1]) == (250, True, {"i": 250})
        wide = query(
            context(book),
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT hex(zeroblob(50000)) AS x FROM n",
            database=BOOK,
        )
        assert wide.truncated
        assert wide.row_count == 10

    def test_values_are_bound(self, book: Path) -> None:
        hostile = "rent'; DROP TABLE entry; --"
        assert query(context(book), "SELECT id FROM entry WHERE name = :n", {"n": hostile}, BOOK).rows == []
        assert query(context(book), "SELECT id FROM entry WHERE name IN :n", {"n": [hostile, "rent"]}, BOOK).rows == [
            {"id": 1}
        ]

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM entry",
            "INSERT INTO entry (name) VALUES ('x') RETURNING id",
            "WITH x AS (SELECT 1) DELETE FROM entry",
            "CREATE TABLE stolen (x)",
            "CREATE TEMP TABLE stolen (x)",
            "DROP TABLE entry",
            "PRAGMA query_only = OFF",
            "PRAGMA journal_mode = DELETE",
            "PRAGMA user_version(7)",
            "SELECT load_extension('x')",
            "VACUUM INTO 'stolen.db'",
            "REINDEX",
        ],
    )
    def test_nothing_can_be_changed(self, book: Path, statement: str) -> None:
        before = (book / "book.db").read_bytes()
        with pytest.raises(Failure):
            query(context(book), statement, database=BOOK)
        assert (book / "book.db").read_bytes() == before
        assert not (book / "stolen.db").exists()

    def test_the_schema_may_be_looked_at(self, book: Path) -> None:
        found = query(context(book), "PRAGMA table_info(entry)", database=BOOK)
        assert [row["name"] for row in found.rows] == ["id", "name", "cents", "data"]

    def test_two_columns_of_one_name_are_refused(self, book: Path) -> None:
        with pytest.raises(Failure, match="two columns are named `id`"):
            query(context(book), "SELECT id, id FROM entry", database=BOOK)

    def test_a_fault_of_the_statement_is_told(self, book: Path) -> None:
        with pytest.raises(Failure, match="SQLite: no such table: entries") as failed:
            query(context(book), "SELECT * FROM entries", database=BOOK)
        assert failed.value.failure == "logic"

    def test_a_template_in_a_statement_is_refused_before_anything_is_opened(self, tmp_path: Path) -> None:
        task = Task("t", inputs={"statement": "SELECT {{ params.x }}"})
        with pytest.raises(Failure, match="`statement` is code and takes no templates") as refused:
            query(context(tmp_path, task=task), "SELECT 1", database=BOOK)
        assert refused.value.failure == "policy"

    @pytest.mark.slow
    def test_a_timeout_and_a_stop_end_a_long_statement(self, book: Path) -> None:
        began = time.monotonic()
        with pytest.raises(Failure, match=r"longer than 0\.3 s") as late:
            query(context(book), ENDLESS, database=BOOK, timeout="300ms")
        assert late.value.failure == "timeout"
        stop = threading.Event()
        threading.Timer(0.3, stop.set).start()
        with pytest.raises(Failure, match="was stopped"):
            query(context(book, stop=stop.is_set), ENDLESS, database=BOOK)
        assert time.monotonic() - began < 240


class TestExecute:
    def test_statements_are_one_transaction(self, book: Path) -> None:
        both = ["INSERT INTO entry (name) VALUES ('tax')", "INSERT INTO entry (name) VALUES ('rent')"]
        with pytest.raises(Failure, match="UNIQUE constraint failed") as failed:
            execute(context(book), both, database=BOOK)
        assert failed.value.failure == "constraint"
        assert count(book) == 2
        tables = query(context(book), "SELECT name FROM sqlite_schema WHERE type = 'table'", database=BOOK).rows
        assert tables == [{"name": "entry"}]

    def test_counts_and_returned_rows_are_told(self, book: Path) -> None:
        done = execute(
            context(book),
            [
                {"statement": "INSERT INTO entry (name, cents) VALUES (:n, :c)", "params": [{"n": "a", "c": 1}, {"n": "b", "c": 2}]},
                {"statement": "UPDATE entry SET cents = 0 WHERE cents < :c RETURNING name", "params": {"c": 3}},
            ],
            database=BOOK,
        )  # fmt: skip
        assert (done.affected, done.counts, done.repeated) == (5, [1, 1, 3], False)
        assert sorted(row["name"] for row in done.rows) == ["a", "b", "rent"]

    def test_values_beside_a_list_are_those_of_all_its_statements(self, book: Path) -> None:
        done = execute(
            context(book),
            [
                "INSERT INTO entry (name, cents) VALUES (:name, :cents)",
                {"statement": "INSERT INTO entry (name, cents) VALUES (:name, :cents)", "params": {"name": "y"}},
                "UPDATE entry SET cents = 0 WHERE name = :name RETURNING name",
            ],
            {"name": "x", "cents": 7},
            BOOK,
        )
        assert (done.counts, done.rows) == ([1, 1, 1], [{"name": "x"}])
        with pytest.raises(Failure, match="no statement uses `:nmae`"):
            execute(context(book), ["SELECT 1", "SELECT 2"], {"nmae": "a"}, BOOK)
        with pytest.raises(Failure, match="`params` beside a list of statements is a map"):
            execute(context(book), ["SELECT 1", "SELECT 2"], [{"name": "a"}], BOOK)

    def test_rows_that_are_only_read_are_not_counted_as_changed(self, book: Path) -> None:
        done = execute(context(book), ["DELETE FROM entry WHERE id = 1", "SELECT * FROM entry"], database=BOOK)
        assert (done.affected, done.counts, len(done.rows)) == (1, [1, 1], 1)

    def test_rows_that_are_not_returned_are_counted_all_the_same(self, book: Path) -> None:
        numbers = (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) SELECT 'x' || i FROM n"
        )
        done = execute(context(book), f"INSERT INTO entry (name) {numbers} RETURNING id", database=BOOK)
        assert (done.affected, done.counts, len(done.rows)) == (3000, [3000], 1000)

    def test_the_same_task_is_done_once_and_gives_the_same_result(self, book: Path) -> None:
        statement = "INSERT INTO entry (name) VALUES (:n) RETURNING id"
        first = execute(context(book), statement, {"n": "x"}, BOOK)
        again = execute(context(book), statement, {"n": "x"}, BOOK)
        assert first.rows == [{"id": 3}]
        assert again == first._replace(repeated=True)
        assert count(book) == 3
        with pytest.raises(Failure, match="done before with other statements or values"):
            execute(context(book), statement, {"n": "y"}, BOOK)
        execute(context(book, once="r:t:2"), statement, {"n": "y"}, BOOK)
        assert count(book) == 4

    def test_two_attempts_at_the_same_time_do_it_once(self, book: Path) -> None:
        results: list[Any] = []

        def attempt() -> None:
            results.append(execute(context(book), "UPDATE entry SET cents = cents + 1 WHERE id = 1", database=BOOK))

        threads = [threading.Thread(target=attempt) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(result.repeated for result in results) == [False] + [True] * 5
        assert query(context(book), "SELECT cents FROM entry WHERE id = 1", database=BOOK).rows == [{"cents": -89999}]

    def test_doing_it_without_a_key_has_to_be_said(self, book: Path) -> None:
        statement = "UPDATE entry SET cents = cents + 1 WHERE id = 1"
        with pytest.raises(Failure, match="effect: unsafe"):
            execute(context(book), statement, database=BOOK, key=False)
        unsafe = Task("t", effect="unsafe")
        for _ in range(2):
            assert not execute(context(book, task=unsafe), statement, database=BOOK, key=False).repeated
        assert query(context(book), "SELECT cents FROM entry WHERE id = 1", database=BOOK).rows == [{"cents": -89998}]

    @pytest.mark.parametrize(
        "statement",
        [
            "COMMIT", "/**/ROLLBACK", "ATTACH 'stolen.db' AS s", "SELECT 1; COMMIT", "PRAGMA journal_mode = WAL",
            "DETACH main", "SELECT load_extension('x')", "PRAGMA writable_schema = ON",
        ],
    )  # fmt: skip
    def test_nothing_leads_out_of_the_transaction_or_the_file(self, book: Path, statement: str) -> None:
        with pytest.raises(Failure):
            execute(context(book), ["INSERT INTO entry (name) VALUES ('half')", statement], database=BOOK)
        assert count(book) == 2
        assert not (book / "stolen.db").exists()

    def test_who_finds_the_database_locked_waits_his_turn_and_no_longer_than_his_time(self, book: Path) -> None:
        other = sqlite3.connect(book / "book.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Failure, match=r"longer than 0\.4 s|database is locked"):
            execute(context(book), "DELETE FROM entry", database=BOOK, timeout="400ms")
        threading.Timer(0.5, lambda: other.execute("COMMIT")).start()
        assert execute(context(book), "DELETE FROM entry", database=BOOK).affected == 2
        other.close()

    def test_a_file_that_is_not_there_is_made_by_writing_and_not_by_reading(self, tmp_path: Path) -> None:
        with pytest.raises(Failure, match="unable to open database file"):
            query(context(tmp_path), "SELECT 1", database="sqlite:///new.db")
        execute(context(tmp_path), "CREATE TABLE a (x)", database="sqlite:///new.db")
        assert query(context(tmp_path), "SELECT * FROM a", database="sqlite:///new.db").columns == ["x"]


class TestScript:
    def test_a_migration_runs_as_a_whole_or_not_at_all(self, book: Path) -> None:
        (book / "one.sql").write_text(
            "-- history\nCREATE TABLE log (name TEXT);\n"
            "CREATE TRIGGER t AFTER INSERT ON entry BEGIN INSERT INTO log VALUES (new.name); END;\n"
            "INSERT INTO entry (name) VALUES (':not; a value');"
        )
        done = script(context(book), "one.sql", BOOK)
        assert (done.affected, len(done.counts)) == (1, 3)
        assert query(context(book), "SELECT name FROM log", database=BOOK).rows == [{"name": ":not; a value"}]
        (book / "two.sql").write_text("CREATE TABLE more (x); INSERT INTO nowhere VALUES (1);")
        with pytest.raises(Failure, match="no such table: nowhere"):
            script(context(book, once="other"), "two.sql", BOOK)
        assert query(context(book), "SELECT name FROM sqlite_schema WHERE name = 'more'", database=BOOK).rows == []

    @pytest.mark.slow
    def test_a_long_script_is_read_in_good_time(self, book: Path) -> None:
        text = "".join(f"INSERT INTO entry (name) VALUES ('{number}');\n" for number in range(20_000))
        found = statements(text, "sqlite")
        started = time.process_time()
        assert lines(text, found, "sqlite") == list(range(1, 20_001))
        assert time.process_time() - started < 4

    def test_a_pipe_is_not_waited_for(self, book: Path) -> None:
        os.mkfifo(book / "pipe.sql")
        with pytest.raises(Failure, match=r"pipe\.sql is not a regular file"):
            script(context(book), "pipe.sql", BOOK)

    def test_only_a_file_of_the_project_is_read(self, book: Path) -> None:
        with pytest.raises(Failure, match="outside the working directory"):
            script(context(book), "/etc/passwd", BOOK)
        with pytest.raises(Failure, match=r"no\.sql cannot be read: No such file"):
            script(context(book), "no.sql", BOOK)


class TestDatabases:
    @pytest.mark.parametrize(
        "database",
        ["sqlite:///../out.db", "sqlite:////tmp/out.db", "sqlite://", "sqlite:///:memory:", "sqlite:///a.db?mode=rwc", "sqlite:///link.db"],
    )  # fmt: skip
    def test_a_plan_names_files_of_the_project_alone(self, book: Path, database: str) -> None:
        (book / "link.db").symlink_to(book.parent / "elsewhere.db")
        with pytest.raises(Failure, match="is not a file below the working directory") as refused:
            execute(context(book), "CREATE TABLE a (x)", database=database)
        assert refused.value.failure == "policy"

    def test_a_plan_names_no_server(self, book: Path) -> None:
        with pytest.raises(Failure, match=r"by its name in planrunner\.yaml"):
            query(context(book), "SELECT 1", database="postgresql://me:secret@127.0.0.1/x")

    def test_the_operator_names_databases(self, book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        known: dict[str, Any] = {"main": {"url": "sqlite:///book.db"}, "env": {"url_env": "BOOK_URL"}}
        assert query(context(book, **known), "SELECT 1 AS x").rows == [{"x": 1}]
        with pytest.raises(
            Failure, match="the variable BOOK_URL, which holds the address of the database `env`, is not set"
        ):
            query(context(book, **known), "SELECT 1", database="env")
        monkeypatch.setenv("BOOK_URL", "sqlite:///book.db")
        assert query(context(book, **known), "SELECT 1 AS x", database="env").row_count == 1
        with pytest.raises(Failure, match="names no database `other` under `sql: databases:`; it names `env`, `main`"):
            query(context(book, **known), "SELECT 1", database="other")

    @pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite://", "sqlite:///file:x?mode=memory&uri=true"])
    def test_a_database_in_memory_is_refused_and_makes_no_file(self, book: Path, url: str) -> None:
        before = sorted(os.listdir(book))
        with pytest.raises(Failure, match="`main` is one in memory, which would be empty for each task: name a file"):
            execute(context(book, main={"url": url}), "CREATE TABLE a (x)", database="main")
        assert sorted(os.listdir(book)) == before

    def test_a_kind_that_is_not_supported_or_not_readable_is_named_without_its_secrets(self, book: Path) -> None:
        for url in ("mysql://me:s3cret@host/x", "s3cret"):
            with pytest.raises(Failure) as failed:
                query(context(book, main=url), "SELECT 1")
            assert "s3cret" not in str(failed.value)


class TestProtectedPlaces:
    @pytest.mark.parametrize(
        "path",
        [
            ".git/hooks/pre-commit", ".Git/config", ".planrunner/journal.db", "sub/.planrunner/x.db", "planrunner.yaml",
            "PlanRunner.YAML", "var/journal.db", "VAR/x.db", "to-git/config", "to-state/x.db", "sub/../.git/x",
            "./.planrunner//journal.db", "linked.db",
        ],
    )  # fmt: skip
    def test_what_rules_over_the_plan_is_no_database(self, book: Path, path: str) -> None:
        for folder in (".git/hooks", ".planrunner", "sub/.planrunner", "var"):
            (book / folder).mkdir(parents=True)
        (book / "to-git").symlink_to(".git")
        (book / "to-state").symlink_to(book / "var")
        (book / "linked.db").symlink_to("planrunner.yaml")
        (book / "up.sql").write_text("CREATE TABLE stolen (x)")
        before = sorted(book.rglob("*"))
        address = f"sqlite:///{path}"
        for work in (
            lambda: execute(context(book), "CREATE TABLE stolen (x)", database=address),
            lambda: execute(context(book), "CREATE TABLE stolen (x)", database=f"sqlite:///{book}/{path}"),
            lambda: query(context(book), "SELECT 1", database=address),
            lambda: script(context(book), "up.sql", database=address),
        ):
            with pytest.raises(Failure, match="plans do not write to") as refused:
                work()
            assert refused.value.failure == "policy"
        assert [path for path in sorted(book.rglob("*")) if "cache" not in str(path)] == before

    def test_a_working_directory_inside_of_them_is_no_way_around(self, book: Path) -> None:
        (book / "var").mkdir()
        (book / ".git").mkdir()
        given = context(book)
        for folder, words in (("var", "state folder"), (".git", r"`\.git`")):
            call = given.call._replace(directory=str(book / folder), task=Task("t", cwd=folder))
            with pytest.raises(Failure, match=f"plans do not work in .*{words}") as refused:
                execute(given._replace(call=call), "CREATE TABLE stolen (x)", database="sqlite:///x.db")
            assert refused.value.failure == "policy"

    @pytest.mark.parametrize(
        "statement",
        [
            "ATTACH 'other.db' AS o",
            "/* x */ attach 'other.db' as o",
            "VACUUM INTO 'other.db'",
            "EXPLAIN ATTACH 'x' AS o",
        ],
    )
    def test_no_statement_reaches_another_file(self, book: Path, statement: str) -> None:
        (book / "up.sql").write_text(f"SELECT 1;\n{statement};")
        for work in (
            lambda: execute(context(book), statement, database=BOOK),
            lambda: query(context(book), statement, database=BOOK),
            lambda: script(context(book), "up.sql", database=BOOK),
        ):
            with pytest.raises(Failure):
                work()
        assert not (book / "other.db").exists()


class TestPreview:
    def preview(self, *arguments: Any, **more: Any) -> Any:
        declaration = declaration_of(execute)
        assert declaration is not None and declaration.preview is not None
        return declaration.preview(*arguments, **more)

    def test_it_shows_statements_and_values_and_opens_nothing(self, tmp_path: Path) -> None:
        shown = self.preview(context(tmp_path), "DELETE FROM entry WHERE id = :i", {"i": 1}, BOOK)
        assert shown.calls == ('DELETE FROM entry WHERE id = :i {"i": 1}',)
        assert not (tmp_path / "book.db").exists()

    def test_where_the_operator_allows_it_the_work_is_tried_and_rolled_back(self, book: Path) -> None:
        here = context(book, main={"url": "sqlite:///book.db", "preview": "rollback"})
        shown = self.preview(here, ["DELETE FROM entry", "INSERT INTO entry (name) VALUES ('x')"])
        assert shown.summary.endswith("3 rows affected, tried and rolled back")
        assert shown.calls[0] == "DELETE FROM entry  -- 2 rows"
        assert count(book) == 2

    def test_what_would_make_the_file_is_not_tried(self, tmp_path: Path) -> None:
        here = context(tmp_path, main={"url": "sqlite:///book.db", "preview": "rollback"})
        shown = self.preview(here, "CREATE TABLE entry (name TEXT)")
        assert shown.summary.endswith("in one transaction: not tried, as it would make the file")
        assert shown.calls == ("CREATE TABLE entry (name TEXT)",)
        assert not (tmp_path / "book.db").exists()


class TestMessages:
    @pytest.mark.parametrize(
        ("inputs", "message"),
        [
            ({"statement": ["SELECT 1"]}, "`statement` must be text, one statement; sql.execute takes a list"),
            ({"statement": 5}, "`statement` must be text"),
            ({"statement": "SELECT 1", "params": [1]}, "`params` must be a map of values by name"),
            ({"statement": "SELECT 1", "params": "a"}, "`params` must be a map"),
            ({"statement": "SELECT 1", "database": 5}, "`database` must be text"),
            ({"statement": "SELECT 1", "max_rows": "5"}, "`max_rows` must be a number of rows"),
            ({"statement": "SELECT :n", "params": {"n": 99999999999999999999}}, "a value does not fit the database"),
            ({"statement": "SELECT :n", "params": {"n": "\ud800"}}, "a value does not fit the database"),
        ],
    )  # fmt: skip
    def test_an_input_of_another_kind_is_named(self, book: Path, inputs: dict[str, Any], message: str) -> None:
        with pytest.raises(Failure, match=message) as refused:
            query(context(book), **{"database": BOOK, **inputs})
        assert refused.value.failure == "logic"

    def test_so_are_those_of_statements_that_write(self, book: Path) -> None:
        with pytest.raises(Failure, match="a value does not fit the database"):
            execute(context(book), "UPDATE entry SET cents = :n", {"n": 99999999999999999999}, BOOK)
        with pytest.raises(Failure, match="`params` are a map or a list of maps"):
            execute(context(book), "SELECT 1", [1], BOOK)
        with pytest.raises(Failure, match="`file` must be text"):
            script(context(book), 5, BOOK)  # type: ignore[arg-type]

    def test_a_file_that_is_no_database_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("no database, but long enough to be looked at as one\n" * 50)
        for work in (query, execute):
            with pytest.raises(Failure, match=r"SQLite: file is not a database: .*/notes\.txt"):
                work(context(tmp_path), "SELECT * FROM a", database="sqlite:///notes.txt")

    def test_a_database_that_cannot_be_opened_is_named_with_what_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(Failure, match=r"/no/such/a\.db; the folder .*/no/such does not exist$"):
            execute(context(tmp_path), "CREATE TABLE a (x)", database="sqlite:///no/such/a.db")
        with pytest.raises(Failure, match=r"/a\.db; it does not exist; the first task that writes creates it$"):
            query(context(tmp_path), "SELECT 1", database="sqlite:///a.db")

    @pytest.mark.parametrize(
        ("statement", "word"), [("DELETE FROM entry", "DELETE"), ("WITH x AS (SELECT 1) UPDATE entry SET cents = 0", "UPDATE")]
    )  # fmt: skip
    def test_a_query_that_writes_is_sent_to_where_that_is_done(self, book: Path, statement: str, word: str) -> None:
        with pytest.raises(Failure, match=f"sql.query only reads: {word} is for sql.execute") as refused:
            query(context(book), statement, database=BOOK)
        assert refused.value.failure == "policy"

    def test_of_several_statements_the_one_that_failed_is_named(self, book: Path) -> None:
        with pytest.raises(Failure, match=r"^statement 2 of 3: SQLite: no such table: b"):
            execute(context(book), ["SELECT 1", "DELETE FROM b", "SELECT 1"], database=BOOK)
        with pytest.raises(Failure, match=r"^statement 2 of 2: the statement has no value for `:n`"):
            execute(context(book), ["SELECT 1", "SELECT :n"], database=BOOK)
        with pytest.raises(Failure, match=r"^values 2 of 2: SQLite: UNIQUE") as failed:
            execute(context(book), "INSERT INTO entry (name) VALUES (:n)", [{"n": "a"}, {"n": "a"}], BOOK)
        assert failed.value.failure == "constraint"
        with pytest.raises(Failure, match=r"^SQLite: no such table: b"):
            execute(context(book), "DELETE FROM b", database=BOOK)

    def test_in_a_script_the_line_is_named(self, book: Path) -> None:
        (book / "up.sql").write_text("SELECT 1;\n-- next\n/* and\nnow */\n\n DELETE FROM b;\nSELECT 1;\n")
        with pytest.raises(Failure, match=r"^up\.sql, line 6: SQLite: no such table: b"):
            script(context(book), "up.sql", BOOK)
        (book / "up.sql").write_text("SELECT 1;\n\nCOMMIT;\n")
        with pytest.raises(Failure, match=r"^up\.sql, line 3: COMMIT is not allowed"):
            script(context(book), "up.sql", BOOK)
        (book / "up.sql").write_text("SELECT 1;\nSELECT 'a;\n")
        with pytest.raises(Failure, match=r"^up\.sql: the string that starts in line 2"):
            script(context(book), "up.sql", BOOK)
