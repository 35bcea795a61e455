"""Small real projects, one for each goal that planrunner knows, and the command in them."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import commands
from commands import Ran
from workbench import ROOT

Json = Any


class Project:
    """A folder with a home of its own; calling it calls the command there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        (folder / "home").mkdir()
        self.work.mkdir()
        tools = os.path.dirname(sys.executable)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("XDG_")},
            "PYTHONPATH": str(ROOT),
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "XDG_DATA_HOME": str(folder / "data"),
        }
        self.settings: dict[str, Json] = {"network": {"private": ["127.0.0.1"]}}

    def __call__(self, *words: str, **variables: str) -> Ran:
        return commands.run(*words, folder=self.work, env={**self.env, **variables})

    def write(self, **files: str) -> None:
        """Files by name, ``__`` for a slash and ``_`` before the ending for a dot: ``src__a_py``."""
        for name, text in files.items():
            path = self.work / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def set(self, **sections: Json) -> None:
        self.settings |= sections
        (self.work / "planrunner.yaml").write_text(json.dumps(self.settings))

    def git(self, *words: str) -> str:
        ran = subprocess.run(["git", *words], cwd=self.work, env=self.env, capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    def commit(self, message: str = "work") -> None:
        if not (self.work / ".git").exists():
            self.git("init", "-q", "-b", "main")
            self.git("config", "user.name", "Ana")
            self.git("config", "user.email", "ana@example.org")
            (self.work / ".gitignore").write_text(".planrunner/\nplanrunner.yaml\n__pycache__/\nbuild/\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def draft(self, goal: str, *words: str) -> dict[str, Json]:
        """What ``draft --json`` tells."""
        ran = self("draft", goal, "--json", *words)
        assert ran.code == 0, (ran.out, ran.err)
        told: dict[str, Json] = json.loads(ran.out)
        return told

    def carried_out(self, told: dict[str, Json], gates: dict[str, Callable[[], None]] | None = None) -> dict[str, Json]:
        """Run a draft with consent to its digest, deciding its gates; the run as ``show`` tells it."""
        ran = self("exec", told["file"], "--trust", told["digest"])
        for gate, prepared in (gates or {}).items():
            assert ran.code == 8, (ran.out, ran.err)
            prepared()
            ran = self("approve", "last", gate, "--as", "bo", "--reason", "read it", "--resume")
        assert ran.code == 0, (ran.out, ran.err)
        shown: dict[str, Json] = json.loads(self("show", "last", "--json").out)
        return shown


def nothing() -> None:
    """Before a gate that needs no work."""


class Case(NamedTuple):
    """A goal, the project that it is for, the gates on the way, and what holds in the end."""

    goal: str
    build: Callable[[Project], None]
    gates: Callable[[Project], dict[str, Callable[[], None]]]
    proof: Callable[[Project, dict[str, Json]], bool]


def _python(project: Project) -> None:
    project.write(
        pyproject_toml='[project]\nname = "shop"\nversion = "1.2.0"\n[tool.ruff]\n',
        src__shop_py="def half(n):\n    return n // 2\n",
        tests__check_py="",
    )
    (project.work / "tests" / "test_shop.py").write_text("def test_truth():\n    assert True\n")


def _check(project: Project) -> None:
    _python(project)
    project.write(src__shop_py="x  =  1\n")


def _release(project: Project) -> None:
    _python(project)
    project.commit()


def _bisect(project: Project) -> None:
    for number in range(1, 6):
        project.write(
            Makefile="test:\n\t@grep -q good state.txt\n", state_txt=f"{'good' if number < 4 else 'bad'} {number}\n"
        )
        project.commit(f"Count to {number}")
        if number == 1:
            project.git("tag", "v1.0")


def _review(project: Project) -> None:
    _python(project)
    project.commit()
    project.git("switch", "-q", "-c", "topic")
    project.write(src__shop_py="def half(n: int) -> int:\n    return n // 2\n")
    project.commit("Say the types")


def _deploy(project: Project) -> None:
    project.write(deploy_sh="echo new > live.txt\n", rollback_sh="echo old > live.txt\n", live_txt="old\n")


def _migrate(project: Project) -> None:
    with sqlite3.connect(project.work / "shop.db") as database:
        database.execute("CREATE TABLE account (name TEXT)")
    (project.work / "migrations").mkdir()
    (project.work / "migrations" / "001_email.sql").write_text("ALTER TABLE account ADD COLUMN email TEXT;\n")


def _backup(project: Project) -> None:
    project.write(data__a_txt="one\n", data__inner__b_txt="two\n")


def _refactored(project: Project) -> None:
    project.write(src__shop_py="def half(number):\n    return number // 2\n")


def _columns(project: Project) -> list[str]:
    with sqlite3.connect(project.work / "shop.db") as database:
        return [row[1] for row in database.execute("PRAGMA table_info(account)")]


CASES = {
    "check": Case(
        "run the tests and fix the formatting",
        _check,
        lambda _: {},
        lambda project, _: (project.work / "src" / "shop.py").read_text() == "x = 1\n",
    ),
    "release": Case(
        "build version 1.3.0 and tag the release",
        _release,
        lambda _: {"approve": nothing},
        lambda project, _: project.git("tag") == "v1.3.0",
    ),
    "data": Case(
        "fetch {server}/prices.csv, clean the data and write a report",
        lambda _: None,
        lambda _: {},
        lambda project, _: (project.work / "build/data/clean").read_text() == "name,price\nsoup,4\nrice,7\n",
    ),
    "backup": Case(
        "back up the folder data and verify it",
        _backup,
        lambda _: {},
        lambda project, shown: (project.work / shown["outputs"]["file"]).is_file(),
    ),
    "bisect": Case(
        "find out which commit since v1.0 broke the tests",
        _bisect,
        lambda _: {},
        lambda _, shown: shown["outputs"]["subject"] == "Count to 4",
    ),
    "research": Case(
        "research how tall the tower is, with the sources {server}/tower.html and {server}/heights.html",
        lambda _: None,
        lambda _: {"accept": nothing},
        lambda project, _: "300 metres" in (project.work / "build/research.md").read_text(),
    ),
    "review": Case(
        "review the change on this branch",
        _review,
        lambda _: {"decide": nothing},
        lambda project, _: "+def half(n: int) -> int:" in (project.work / "build/review.md").read_text(),
    ),
    "deploy": Case(
        "deploy the service and check {server}/health, roll back when it fails",
        _deploy,
        lambda _: {"approve": nothing},
        lambda project, _: (project.work / "live.txt").read_text() == "new\n",
    ),
    "refactor": Case(
        "refactor the shop without breaking the tests",
        _release,
        lambda project: {"change": lambda: _refactored(project)},
        lambda project, _: "def half(number)" in project.git("show", "HEAD:src/shop.py"),
    ),
    "migrate": Case(
        "migrate the database shop.db with migrations/001_email.sql",
        _migrate,
        lambda _: {"approve": nothing},
        lambda project, _: _columns(project) == ["name", "email"],
    ),
}

_PAGES = {
    "/prices.csv": "name,price\nsoup,4\n\nrice,7\nsoup,4\n",
    "/health": "ok",
    "/tower.html": "<html><title>Tower</title><body><p>The tower stands in the town. The tower is 300 metres tall, "
    "which makes it the tallest of the country, and it was opened in 1889.</p></body></html>",
    "/heights.html": "<html><title>Heights</title><body><p>A list of heights of towers. The tower is 300 metres tall, "
    "as was measured again last year by the office of the town.</p></body></html>",
}


@contextmanager
def pages() -> Iterator[str]:
    """A server of a few pages; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = _PAGES.get(self.path)
            body = (text or "not there").encode()
            self.send_response(200 if text else 404)
            self.send_header("content-type", "text/html" if self.path.endswith(".html") else "text/plain")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
