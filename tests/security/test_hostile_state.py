"""A clone or an archive that brings a state directory with it: what its author prepared there acts for nobody else."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from pathlib import Path

import pytest
from security_desk import Desk

from planrunner.app.runs.secrets import hidden_variables
from planrunner.app.runs.setup import Held, cache_key
from planrunner.journal.database import APPLICATION, LAYOUT, TABLES
from planrunner.journal.sqlite import open_journal
from planrunner.plan.agents import Roster
from planrunner.plugins.registry import Registry

MISMATCH = 10
PLAN = """\
plan: p
defaults: {timeout: 1m}
tasks:
  - {id: keep, run: "echo shown > shown.txt", artifacts: [shown.txt], checkpoint: {paths: ["*.txt"]}}
  - {id: allowed, needs: [keep], gate: approval, ask: "Go on?"}
  - {id: act, needs: [allowed], run: "touch $CANARY", env: {CANARY: PLACE}}
"""


class Clone(Desk):
    """A project with ``.planrunner`` in it, worked in by its ``author`` and then by somebody ``else``."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.state = self.folder / ".planrunner"
        self.base = base
        self.write("p.yaml", PLAN.replace("PLACE", str(self.canary)))
        self.is_now("author")

    def is_now(self, who: str) -> None:
        self.env = {"XDG_DATA_HOME": str(self.base / who), "HOME": str(self.base / who)}

    def change(self, *statements: str) -> None:
        connection = sqlite3.connect(self.state / "journal.db", isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()

    def lay_out(self, layout: int = LAYOUT) -> None:
        """A journal without runs, whose header names that layout."""
        self.state.mkdir(mode=0o700)
        self.change(*TABLES, f"PRAGMA application_id={APPLICATION}", f"PRAGMA user_version={layout}")
        self.change("INSERT INTO audit VALUES (x'000102030405060708090a0b0c0d0e0f')")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@pytest.fixture(scope="module")
def _prepared(tmp_path_factory: pytest.TempPathFactory, _data_home: str) -> Clone:
    made = Clone(tmp_path_factory.mktemp("prepared"))
    made.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)
    (made.folder / "shown.txt").write_text("the user's own\n")
    made.is_now("else")
    made.do(
        "exec", "p.yaml", "--no-wait", code=MISMATCH
    )  # gives this user a key: without one, readers can tell nothing
    return made


ACTING = [
    ("exec", "p.yaml", "--no-wait"),
    ("resume", "last"),
    ("rerun", "last", "keep"),
    ("rollback", "last"),
    ("fork", "last", "--from", "keep"),
    ("approve", "last", "allowed", "--reason", "x", "--resume"),
    ("reject", "last", "allowed", "--reason", "x"),
    ("cancel", "last"),
    ("pause", "last"),
    ("artifacts", "get", "p/keep/shown.txt", "-o", "got.txt"),
    ("checkpoints", "last", "keep", "--restore-files", "--yes"),
    ("audit", "accept", "last", "--because", "x"),
]


@pytest.mark.parametrize("words", ACTING, ids=lambda words: " ".join(words[:2]))
def test_nobody_acts_on_runs_that_came_with_a_clone(words: tuple[str, ...], _prepared: Clone) -> None:
    done = _prepared.do(*words, code=MISMATCH)
    assert "was not written by your planrunner" in done.stderr
    assert "`state.foreign`" in done.stderr and "audit accept" in done.stderr
    assert not _prepared.canary.exists() and not (_prepared.folder / "got.txt").exists()
    assert (_prepared.folder / "shown.txt").read_text() == "the user's own\n"


@pytest.mark.parametrize("words", [("runs",), ("show", "last"), ("lint", "p.yaml"), ("events", "last")])
def test_they_can_be_looked_at(words: tuple[str, ...], _prepared: Clone) -> None:
    assert _prepared.do(*words).returncode in (0, 1, 8)
    assert not _prepared.canary.exists()


def test_a_person_takes_them_with_all_that_lies_there(clone: Clone) -> None:
    clone.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)
    clone.is_now("else")
    clone.do("exec", "p.yaml", "--no-wait", code=MISMATCH)
    clone.do("audit", "accept", "--because", "a colleague wrote them", code=0)
    clone.do("approve", "last", "allowed", "--reason", "I looked", "--resume", code=0)
    assert clone.canary.exists()


def test_a_project_that_its_user_moved_or_copied_goes_on(clone: Clone) -> None:
    clone.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)
    shutil.copytree(clone.folder, clone.base / "copy")
    clone.folder = clone.base / "copy"
    clone.state = clone.folder / ".planrunner"
    clone.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)
    clone.do("cancel", "last", code=0)


def test_a_project_whose_plugins_lie_there_is_none_that_brings_runs(clone: Clone) -> None:
    clone.write(".planrunner/plugins/own.py", "")
    clone.state.chmod(0o700)
    clone.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)


@pytest.mark.parametrize("known", [False, True])
def test_runs_of_an_older_layout_are_read_by_nobody(clone: Clone, known: bool) -> None:
    """A journal that says it is older must not get the seals of whoever opens it."""
    if known:
        clone.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)
        shutil.rmtree(clone.state)
    clone.lay_out(LAYOUT - 1)
    clone.change("INSERT INTO runs VALUES (9, 'r9', 'p', 'digest', 1.0, 1, '', NULL, 1, NULL)")
    before = (clone.state / "journal.db").read_bytes()
    for words in (("exec", "p.yaml", "--no-wait"), ("cancel", "r9"), ("resume", "r9")):
        assert "an older planrunner wrote it" in clone.do(*words, code=11).stderr
    assert (clone.state / "journal.db").read_bytes() == before


@pytest.mark.parametrize("folder", ["artifacts/sha256/ab", "cache/fresh", "cache/http", "tmp/r1"])
def test_answers_that_are_laid_out_without_a_journal_are_none(clone: Clone, folder: str) -> None:
    clone.write(f".planrunner/{folder}/0123", "prepared")
    for path in (clone.state, *clone.state.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    done = clone.do("exec", "p.yaml", "--no-wait", code=MISMATCH)
    assert f"`{clone.state}/{folder}/0123` belongs to no journal" in done.stderr
    clone.do("audit", "accept", "--because", "I packed them myself", code=0)
    clone.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)


def test_a_link_to_a_folder_is_no_cache(clone: Clone) -> None:
    (clone.state / "cache").mkdir(parents=True)
    (clone.state / "cache" / "http").symlink_to(clone.base)
    for path in (clone.state, clone.state / "cache"):
        path.chmod(0o700)
    assert "cache/http` belongs to no journal" in clone.do("exec", "p.yaml", "--no-wait", code=MISMATCH).stderr


@pytest.mark.parametrize("known", [False, True])
def test_votes_that_a_trigger_casts_are_not_counted(clone: Clone, known: bool) -> None:
    """A journal without a single run, which votes for each one that is begun; or one's own, whose first page came with a
    log that a commit put beside it."""
    vote = '{"task":"allowed","vote":"approve","by":"you"}'
    if known:
        clone.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)
    else:
        clone.lay_out()
    clone.change(
        "CREATE TRIGGER late AFTER INSERT ON runs BEGIN INSERT INTO requests (run, at, kind, body, by)"
        f" VALUES (NEW.run, 1.0, 'vote', '{vote}', 'you'); END"
    )
    for words in (("exec", "p.yaml", "--no-wait"), ("runs",), ("audit", "accept", "--because", "x")):
        assert "it has a trigger `late`" in clone.do(*words, code=11).stderr
    assert not clone.canary.exists()


@pytest.mark.parametrize("table", ["runs", "audit"])
def test_a_table_that_never_ends_keeps_nobody(clone: Clone, table: str) -> None:
    clone.lay_out()
    clone.change(
        f"DROP TABLE {table}",
        f"CREATE VIEW {table} AS WITH RECURSIVE n(run) AS (SELECT 1 UNION ALL SELECT run + 1 FROM n)"
        " SELECT run, run AS journal FROM n WHERE run < 0",
    )
    for words in (
        ("runs",),
        ("show", "last"),
        ("exec", "p.yaml", "--no-wait"),
        ("resume", "last"),
        ("audit", "export"),
    ):
        assert f"it has a view `{table}`" in clone.do(*words, code=11).stderr
    assert f"the view `{table}` of the database" in clone.do("audit", "verify", code=MISMATCH).stdout


@pytest.mark.parametrize("known", [False, True])
def test_no_file_elsewhere_is_deleted_because_a_log_names_it(clone: Clone, known: bool) -> None:
    """SQLite deletes the file at the end of a rollback journal, which it takes for one of its own."""
    if known:
        clone.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)
    else:
        clone.lay_out()
    victim = clone.base / "victim"
    victim.write_text("precious\n")
    (clone.state / "journal.db-journal").write_bytes(rollback_log(clone.state / "journal.db", str(victim)))
    for words in (
        ("exec", "p.yaml", "--no-wait"),
        ("runs",),
        ("resume", "last"),
        ("audit", "accept", "--because", "x"),
    ):
        clone.do(*words)
        assert victim.exists(), words
    assert "which SQLite would delete" in clone.do("exec", "p.yaml", code=11).stderr


def rollback_log(database: Path, victim: str) -> bytes:
    magic, page = bytes.fromhex("d9d505f920a163d7"), 4096
    head = magic + struct.pack(">IIIII", 0, 0, os.path.getsize(database) // page, 512, page)
    name = victim.encode()
    return head.ljust(512, b"\0") + struct.pack(">I", (1 << 30) // page + 1) + name + (
        struct.pack(">II", len(name), sum(name)) + magic
    )  # fmt: skip


def test_what_somebody_put_into_the_cache_of_plans_does_not_run(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not under the key of the plan, not with the mac of another one."""
    monkeypatch.setenv("XDG_DATA_HOME", clone.env["XDG_DATA_HOME"])
    texts = {name: f"plan: p\ntasks:\n  - {{id: a, run: 'echo {name} > said', timeout: 1m}}\n" for name in "ab"}
    for name, text in texts.items():
        clone.write(f"{name}.yaml", text)
        clone.do("exec", f"{name}.yaml", "--progress", "quiet", code=0)
    held = Held({}, Roster(), hidden_variables(str(clone.folder)))
    a, b = (
        cache_key(f"{name}.yaml", text.encode(), Registry(project=str(clone.folder)), held)
        for name, text in texts.items()
    )
    for value in (f"(SELECT value FROM compiled WHERE key = '{b}')", "substr(value, 17)", "replace(value, 'e', 'E')"):
        clone.change(f"UPDATE compiled SET value = {value} WHERE key = '{a}'")
        journal = open_journal(str(clone.state))
        assert journal.compiled_get(a) is None and journal.compiled_get(b) is not None
        journal.close()
        clone.do("exec", "a.yaml", "--progress", "quiet", code=0)
        assert (clone.folder / "said").read_text() == "a\n"


def test_not_even_an_empty_journal_of_somebody_else_is_written_on(clone: Clone) -> None:
    """Whoever knows its name could put another one with runs in its place later."""
    clone.lay_out()
    assert "does not bear your key" in clone.do("exec", "p.yaml", "--no-wait", code=MISMATCH).stderr
    assert "does not bear your key" in clone.do("exec", "p.yaml", "--no-wait", code=MISMATCH).stderr


def test_a_journal_without_runs_that_was_moved_is_still_its_users(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", clone.env["XDG_DATA_HOME"])
    open_journal(str(clone.state)).close()
    shutil.move(clone.state, clone.base / "moved")
    open_journal(str(clone.base / "moved")).close()


@pytest.mark.parametrize("words", [("runs",), ("show", "last"), ("artifacts", "verify")])
def test_a_pipe_in_the_place_of_a_lock_or_of_an_artifact_is_not_waited_for(
    words: tuple[str, ...], clone: Clone
) -> None:
    clone.do("exec", "p.yaml", "--no-wait", "--progress", "quiet", code=8)
    row = sqlite3.connect(clone.state / "journal.db").execute("SELECT run FROM runs").fetchone()
    os.mkfifo(clone.state / "locks" / f"{row[0]}.lock")
    for kept in [path for path in (clone.state / "artifacts").rglob("*") if path.is_file() and len(path.name) > 40]:
        kept.unlink()
        os.mkfifo(kept)
    clone.is_now("else")
    assert clone.do(*words).returncode in (0, 1, 8, MISMATCH)
