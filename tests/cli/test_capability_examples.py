"""The examples that ``planrunner capabilities NAME`` prints: a plan of one lints clean, and does what it says."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from planrunner.app.plans import reference as examples
from planrunner.app.plans.reference import EARLIER, GATED, INPUTS
from planrunner.capabilities import builtin
from planrunner.cli import main
from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source

REGISTRY = Registry(plugins=False)
NAMES = sorted(builtin.TARGETS)
SITE = "https://example.com/"


def _printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The tasks as a person copies them out of the terminal."""
    assert main(["capabilities", name]) == 0
    return f"plan: x\ntasks:\n{capsys.readouterr().out.partition('example:' + chr(10))[2]}"


def test_every_built_in_capability_has_an_example_and_no_other() -> None:
    assert sorted(set(NAMES) - set(INPUTS)) == [], "these have no example in planrunner/app/plans/examples.json"
    assert sorted(set(INPUTS) - set(NAMES)) == [], "these are no built-ins"
    assert {*EARLIER, *EARLIER.values()} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_of_the_printed_example_lints_clean(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = _printed(name, capsys)
    assert f"uses: {name}\n" in text
    assert [finding.message for finding in load(Source(text), REGISTRY).findings] == [], text


@pytest.mark.parametrize("name", [name for name in NAMES if name != "http.poll"])  # its `until` is an expression
def test_an_example_made_from_types_lints_without_errors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "INPUTS", {})
    monkeypatch.setattr(examples, "EARLIER", {})
    text = "plan: x\ntasks:\n" + examples.example_tasks(REGISTRY[name], lambda other: REGISTRY[other]) + "\n"
    assert [found.message for found in load(Source(text), REGISTRY).findings if found.severity == "error"] == [], text


def test_words_that_yaml_takes_for_something_else_are_quoted() -> None:
    assert examples._written({"on": ["yes", "plain", "1.", "a: b", True, None]}) == (
        '{"on": ["yes", plain, "1.", "a: b", true, null]}'
    )


FILES = {
    "notes.txt": "a draft\n",
    "hello.txt.j2": "Hello {{ name }}\n",
    "shop.py": "def total(prices: list[int]) -> int:\n    return sum(prices)\n",
    "tools.py": "def add(a, b):\n    return {'sum': a + b}\n",
    "schema.sql": "CREATE TABLE further (id INTEGER PRIMARY KEY);\n",
    "config.json": '{"port": 80}\n',
    "config.schema.json": '{"type": "object", "properties": {"port": {"type": "integer"}}}\n',
    "src/shop.py": '"""The shop."""\n\nNAME: str = "shop"\n',
    "tests/test_shop.py": "def test_it():\n    assert True\n",
    "build/junit.xml": '<testsuite tests="1"><testcase classname="a" name="b"/></testsuite>\n',
    "planrunner.yaml": "git: {name: Ana, email: ana@example.org, protocols: [file]}\n"
    'network: {private: [127.0.0.1]}\nresearch: {user_agent: "trial"}\n',
}


def _git(folder: Path, *arguments: str) -> str:
    who = {f"GIT_{role}_{what}": "ana" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **who}
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project with what the examples name: files, a database, a repository with a remote."""
    folder = tmp_path_factory.mktemp("pattern") / "desk"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with contextlib.closing(sqlite3.connect(folder / "notes.db")) as database:
        database.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
        database.execute("INSERT INTO notes (text) VALUES ('first')")
        database.commit()
    (folder / ".gitignore").write_text(".planrunner\nremote.git\nnotes.db*\n*.pyc\n")
    _git(folder, "init", "-q", "-b", "main")
    for message in ("first", "second"):
        _git(folder, "add", "-A")
        _git(folder, "commit", "-q", "-m", message)
        if message == "first":
            _git(folder, "tag", "v1.0")
            _git(folder, "branch", "topic")
            (folder / "notes.txt").write_text("final\n")
    _git(folder, "clone", "-q", "--bare", ".", "remote.git")
    _git(folder, "switch", "-q", "topic")
    (folder / "topic.txt").write_text("topic\n")
    _git(folder, "add", "topic.txt")
    _git(folder, "commit", "-q", "-m", "topic")
    _git(folder, "switch", "-q", "main")
    (folder / "notes.txt").write_text("a draft\n")
    return folder


class _Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind, body = "application/json", b"[1, 2]"
        if self.path == "/":
            kind, body = "text/html", b"<html><body><p>Example domains stand in examples of texts.</p></body></html>"
        elif self.path.endswith(".txt"):
            kind, body = "text/plain", b"downloaded\n"
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer  # noqa: N815 (names of the library)

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def _is(name: str, text: str) -> Callable[[Path], bool]:
    return lambda desk: (desk / name).read_text() == text


def _says(words: str, *command: str) -> Callable[[Path], bool]:
    return lambda desk: words in _git(desk, *command)


def _rows(desk: Path, query: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(desk / "notes.db")) as database:
        return database.execute(query).fetchall()


DONE: dict[str, Callable[[Path], bool]] = {
    "files.append": _is("notes.txt", "a draft\none more line\n"),
    "files.copy": lambda desk: (desk / "copy.txt").read_text() == (desk / "notes.txt").read_text(),
    "files.delete": lambda desk: not (desk / "notes.txt").exists(),
    "files.edit": _is("notes.txt", "a final\n"),
    "files.mkdir": lambda desk: (desk / "build").is_dir(),
    "files.move": lambda desk: (desk / "moved.txt").exists() and not (desk / "notes.txt").exists(),
    "files.template": _is("hello.txt", "Hello Ana\n"),
    "files.write": _is("notes.txt", "a draft\n"),
    "git.add": _says("notes.txt", "diff", "--cached", "--name-only"),
    "git.branch": _says("topic", "branch"),
    "git.clone": lambda desk: (desk / "shop/notes.txt").read_text() == "final\n",
    "git.commit": _says("Say what changed", "log", "-1"),
    "git.fetch": _says("origin/main", "branch", "-r"),
    "git.merge": lambda desk: (desk / "topic.txt").exists(),
    "git.push": _says("third", "--git-dir=remote.git", "log", "main"),
    "git.switch": _says("topic", "branch", "--show-current"),
    "git.tag": _says("v1.1", "tag"),
    "git.tag_delete": lambda desk: "v1.0" not in _git(desk, "tag"),
    "git.worktree_add": lambda desk: (desk / "tree/notes.txt").exists(),
    "git.worktree_remove": lambda desk: not (desk / "tree").exists(),
    "kb.export": lambda desk: (desk / "knowledge.md").exists(),
    "kb.claim": lambda desk: len(list((desk / "kb").iterdir())) == 1,
    "kb.note": lambda desk: len(list((desk / "kb").iterdir())) == 1,
    "python.write_tests": lambda desk: "hypothesis" in (desk / "tests/test_total.py").read_text(),
    "http.download": _is("notes.txt", "downloaded\n"),
    "sql.execute": lambda desk: _rows(desk, "SELECT text FROM notes") == [("first",), ("a draft",)],
    "sql.script": lambda desk: _rows(desk, "SELECT count(*) FROM further") == [(0,)],
}
"""What is to be seen of it afterwards; the others look, and a good end is all there is to see."""

BEFORE: dict[str, tuple[tuple[str, ...], ...]] = {
    "files.mkdir": (("rm", "-r", "build"),),
    "git.branch": (("git", "branch", "-D", "topic"),),
    "git.bisect": (("git", "checkout", "-q", "notes.txt"),),
    "git.push": (("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "third"),),
    "git.switch": (("git", "checkout", "-q", "notes.txt"),),
    "git.merge": (("git", "checkout", "-q", "notes.txt"),),
    "git.worktree_remove": (("git", "worktree", "add", "-q", "--detach", "tree"),),
    "http.download": (("rm", "notes.txt"),),
}
AFAR = ("agent", "branch", "dask", "docker", "kubectl", "llm", "mcp")
HERE = [
    name
    for name in NAMES
    if name == "llm.embed"
    or (name.partition(".")[0] not in AFAR and name not in ("git.pull_request", "research.search"))
]


KEPT = """plan: site
tasks:
  - {id: build, run: echo hello > page.html, artifacts: [{name: page, path: page.html}], timeout: 1m}
"""


@pytest.mark.parametrize("name", HERE)
def test_the_printed_example_does_what_it_says_where_what_it_names_is_there(
    name: str,
    pattern: Path,
    site: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    desk = tmp_path / "desk"
    shutil.copytree(pattern, desk, symlinks=True)
    remote = f"file://{desk / 'remote.git'}"
    _git(desk, "remote", "add", "origin", remote)
    monkeypatch.chdir(desk)
    if name == "files.artifact":
        (desk / "keep.yaml").write_text(KEPT)
        assert main(["exec", "keep.yaml", "--progress", "quiet"]) == 0
        capsys.readouterr()
    for command in BEFORE.get(name, ()):
        subprocess.run(command, cwd=desk, check=True, capture_output=True)
    text = _printed(name, capsys).replace(f"{SITE}shop.git", remote).replace(SITE, site).replace('"10s"', "10ms")
    (desk / "x.yaml").write_text(text)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    code = main(["exec", "x.yaml", "--json", "--progress", "quiet"])
    told = capsys.readouterr()
    tasks = json.loads(told.out)["tasks"]
    if name in GATED:
        assert (code, tasks[name.rpartition(".")[2]]["status"]) == (8, "pending")
        code = main(["approve", "last", "sign-off", "--as", "ana", "--resume"])
    assert code == (1 if name == "fail" else 0), (text, tasks, told.err)
    assert DONE.get(name, lambda desk: True)(desk), tasks
    if name == "fail":
        assert tasks["fail"]["detail"] == "there is nothing to release"
