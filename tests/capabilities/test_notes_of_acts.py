"""What was under way when a runner was killed is known without the cache, which people remove as they like."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from files_desk import Desk, hasty  # noqa: F401 (is used by being there)
from git_workbench import Noted, git, repository

from planrunner.capabilities.contract import Call, Context, declaration_of
from planrunner.capabilities.git.commit import commit
from planrunner.engine.services import AttemptServices
from planrunner.journal.sqlite import open_journal
from planrunner.plan.model import Task


def forget_cache(state: Path) -> None:
    shutil.rmtree(state / "cache", ignore_errors=True)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    work = repository(tmp_path / "work", a_txt="one\n")
    state = tmp_path / "state"
    open_journal(str(state)).close()
    (work / "planrunner.yaml").write_text("git: {name: Ana, email: ana@example.org}\n")
    call = Call("run", Task("step"), 1, "key", {}, "", (), {}, {}, str(work), "", None, once="key")
    services = AttemptServices(str(state), str(work), None, {"PLANRUNNER_RUN_ID": "run"})
    return Context(call, Noted(), lambda: False, services)


def test_a_commit_whose_end_was_not_seen_is_taken_back(context: Context, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "a.txt").write_text("two\n")
    declaration = declaration_of(commit)
    assert declaration is not None and declaration.capture is not None and declaration.undo is not None
    earlier = git(work, "rev-parse", "HEAD")
    before = declaration.capture(context, subject="x", paths=["a.txt"])
    commit(context, subject="x", paths=["a.txt"])
    assert git(work, "rev-parse", "HEAD") != earlier
    forget_cache(tmp_path / "state")
    declaration.undo(context, before, None)
    assert git(work, "rev-parse", "HEAD") == earlier


def test_a_commit_that_is_issued_again_is_made_once(context: Context, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "a.txt").write_text("two\n")
    made = commit(context, subject="x", paths=["a.txt"]).commit
    forget_cache(tmp_path / "state")
    assert commit(context, subject="x", paths=["a.txt"]).commit == made
    assert git(work, "rev-list", "--count", "HEAD") == "2"


def test_what_is_appended_is_not_appended_twice(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.root / "log").write_text("one\n")
    desk.do("append", path="log", content="two\n")
    forget_cache(desk.state)
    desk.do("append", path="log", content="two\n")
    assert (desk.root / "log").read_text() == "one\ntwo\n"
