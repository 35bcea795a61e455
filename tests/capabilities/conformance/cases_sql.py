"""sql.query, sql.execute and sql.script, on SQLite; PostgreSQL is tried in tests/capabilities."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case, Ready

BOOK = "sqlite:///book.db"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "


def _book(directory: Path) -> Path:
    connection = sqlite3.connect(directory / "book.db")
    connection.executescript(
        "CREATE TABLE entry (id INTEGER PRIMARY KEY, name TEXT UNIQUE); INSERT INTO entry VALUES (1, 'a')"
    )
    connection.close()
    return directory / "book.db"


def _query(directory: Path) -> Ready:
    _book(directory)
    settings = {"sql": {"databases": {"book": {"url": f"sqlite:///{directory}/book.db"}}}}
    return Ready(
        {"statement": "SELECT name FROM entry WHERE id = :id", "params": {"id": 1}, "database": "book"}, settings
    )


def _with(**inputs: Any) -> Any:
    def setup(directory: Path) -> Ready:
        book = _book(directory)
        (directory / "more.sql").write_text("CREATE TABLE more (x); INSERT INTO more VALUES ('a;b');")
        (directory / "endless.sql").write_text(f"INSERT INTO entry (name) {ENDLESS} SELECT 'x' || i FROM n;")

        def look() -> list[Any]:
            connection = sqlite3.connect(book)
            try:
                return connection.execute("SELECT * FROM entry ORDER BY id").fetchall()
            finally:
                connection.close()

        return Ready({"database": BOOK, **inputs}, look=look)

    return setup


INSERT = {"statement": "INSERT INTO entry (name) VALUES (:n) RETURNING id", "params": {"n": "it's; {{ x }}"}}

CASES = [
    Case("sql.query", _query),
    Case("sql.query", _with(statement="DELETE FROM entry"), name="writing", fails="policy"),
    Case("sql.query", _with(statement=f"{ENDLESS} SELECT count(*) FROM n"), name="long", waits=True),
    Case("sql.execute", _with(**INSERT), volatile=["repeated"]),
    Case("sql.execute", _with(statement="INSERT INTO entry VALUES (2, 'a')"), name="constraint", fails="constraint"),
    Case(
        "sql.execute",
        _with(statement=f"INSERT INTO entry (name) {ENDLESS} SELECT 'x' || i FROM n"),
        name="long",
        waits=True,
    ),
    Case("sql.script", _with(file="more.sql"), volatile=["repeated"]),
    Case("sql.script", _with(file="endless.sql"), name="long", waits=True),
]
