"""A SQLite file with 2,000 customers, one of which breaks a rule of the table; nothing is simulated."""

from __future__ import annotations

import sqlite3

from planrunner.testing.rehearsal import Scene, rehearse

TABLE = """
CREATE TABLE customer (
  id INTEGER PRIMARY KEY, email TEXT NOT NULL, email_lower TEXT CONSTRAINT address CHECK (email_lower LIKE '%@%')
)
"""
CUSTOMERS = 2000
BROKEN = 700


def prepare(scene: Scene) -> None:
    if scene.new:
        with sqlite3.connect(scene.folder / "shop.db") as shop:
            shop.execute(TABLE)
            rows = ((n, f"Customer{n}@Example.org" if n != BROKEN else "unknown") for n in range(1, CUSTOMERS + 1))
            shop.executemany("INSERT INTO customer (id, email) VALUES (?, ?)", rows)
        shop.close()
    scene.arguments += ["-p", "database=sqlite:///shop.db", "-p", "size=100"]


if __name__ == "__main__":
    rehearse(prepare, __file__)
