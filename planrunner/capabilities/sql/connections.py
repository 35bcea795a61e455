"""Which database is meant: one that the operator named in ``planrunner.yaml``, or a SQLite file of the project."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.acting import open_tree
from planrunner.capabilities.sql.databases import address, entry

_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
}


class Database(NamedTuple):
    """``path`` is the file of a SQLite database; ``tries`` says that a preview may execute and roll back."""

    name: str
    dialect: Literal["sqlite", "postgresql"]
    url: URL
    path: str = ""
    tries: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether it is a SQLite file that the first task that writes would make."""
        return bool(self.path) and not os.path.exists(self.path)

    def clean(self, text: str) -> str:
        """A message without the password."""
        password = _password(self.url)
        for secret in {password, quote(password, safe=""), quote_plus(password)} - {""}:
            text = text.replace(secret, "***")
        return text


def find(context: Context, database: str) -> Database:
    """The database that a task names. Raises Failure where there is none of that name or planrunner cannot use it."""
    if not isinstance(database, str):
        raise Failure("`database` must be text: a name from planrunner.yaml, or sqlite:///file of the project")
    if "://" in database:
        return _of_the_project(context, database)
    settings = entry(context.settings("sql"), database)
    url = _parsed(address(database, settings), f"the address of the database `{database}`")
    context.conceal(str(settings.get("url_env") or database), _password(url))
    path = url.database or "" if url.drivername == "sqlite" else ""
    if url.drivername == "sqlite" and (path in ("", ":memory:") or "memory" in url.query.get("mode", ())):
        raise Failure(
            f"the database `{database}` is one in memory, which would be empty for each task: name a file in its"
            " address, such as sqlite:///data.db"
        )
    if path and not os.path.isabs(path):
        if context.call.task.cwd:
            raise Failure(f"the address of `{database}` is relative, and the task has a `cwd`: make it absolute")
        path = os.path.join(context.call.directory, path)
    return _made(database, url, path, settings.get("preview") == "rollback")


def _password(url: URL) -> str:
    return str(url.password or url.query.get("password") or "")


def _of_the_project(context: Context, database: str) -> Database:
    url = _parsed(database, "`database`")
    if url.drivername != "sqlite":
        raise Failure(
            "a plan names such a database by its name in planrunner.yaml, not by its address",
            "policy",
            rule="sql.address",
        )
    given = url.database or ""
    root = os.path.realpath(context.call.directory)
    path = os.path.realpath(os.path.join(root, given))
    if not given or given == ":memory:" or url.query or not path.startswith(f"{root.rstrip('/')}/"):
        raise Failure(f"{database} is no file below the working directory", "policy", rule="files.beneath")
    with open_tree(context, looks=context.call.dry) as tree:  # as it is written, and where links lead to
        for way in (os.path.normpath(os.path.join(root, given)), path):
            if way.startswith(f"{root.rstrip('/')}/"):
                tree.writable(os.path.relpath(way, root))
    return _made(database, url, path)


def _parsed(written: str, what: str) -> URL:
    try:
        url = make_url(written)
    except (ArgumentError, ValueError):  # what they say may hold the password
        raise Failure(f"{what} cannot be read; it looks like postgresql://user@host/name or sqlite:///file") from None
    if url.drivername not in _DRIVERS:
        raise Failure(f"{what} is of the kind {url.drivername}; sqlite and postgresql are supported")
    return url.set(drivername=_DRIVERS[url.drivername])


def _made(name: str, url: URL, path: str = "", tries: bool = False) -> Database:
    return Database(name, "sqlite" if url.drivername == "sqlite" else "postgresql", url, path, tries)
