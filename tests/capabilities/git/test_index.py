"""The index where it is missing, was but refreshed, or is no file; and what git says about paths, told plainly."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from git_workbench import Bench, Done, git, repository, tree_state

from planrunner.capabilities.contract import Failure, declaration_of
from planrunner.capabilities.git.commit import commit
from planrunner.capabilities.git.index import add
from planrunner.capabilities.git.worktree import worktree_add

FILES = {"git": {"name": "Ana", "email": "ana@example.org", "protocols": ["file"]}}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return repository(tmp_path / "work", a_txt="one\n", b_txt="b\n")


@pytest.fixture
def bench(work: Path, tmp_path: Path) -> Bench:
    return Bench(work, tmp_path / "state", FILES)


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    made = tmp_path / "empty"
    (made / "e").mkdir(parents=True)
    git(made, "init", "-q", "-b", "main")
    return made


class TestNoIndexYet:
    @pytest.mark.parametrize("path", ["e", "."])
    def test_staging_nothing_changes_nothing(self, path: str, empty: Path, tmp_path: Path) -> None:
        bench, before = Bench(empty, tmp_path / "state", FILES), tree_state(empty)
        bench.preview(add, paths=[path])
        done = bench.act(add, paths=[path])
        assert done.outputs == (False, [], "")
        assert tree_state(empty) == before and done.undo() == {"changed": False}

    def test_a_commit_of_nothing_is_told_and_made_where_it_is_allowed(self, empty: Path, tmp_path: Path) -> None:
        bench = Bench(empty, tmp_path / "state", FILES)
        before = tree_state(empty)
        with pytest.raises(Failure, match="nothing to commit") as caught:
            bench.do(commit, subject="x", paths=["e"])
        assert caught.value.failure == "empty" and tree_state(empty) == before
        done = bench.act(commit, subject="x", paths=["e"], allow_empty=True)
        assert git(empty, "rev-parse", "main") == done.outputs.commit
        assert done.undo() == {"changed": True} and tree_state(empty) == before


def after_a_refresh(bench: Bench, work: Path, function: Any, **inputs: Any) -> Done:
    """Capture, let somebody else look at the status, which refreshes the index, then do."""
    os.utime(work / "b.txt", ns=(10**18, 10**18))
    (work / "a.txt").write_text("changed\n")
    context, declaration = bench.context(), declaration_of(function)
    assert declaration is not None and declaration.capture is not None
    before = declaration.capture(context, **inputs)
    index = (work / ".git/index").read_bytes()
    git(work, "status")
    assert (work / ".git/index").read_bytes() != index
    return Done(bench, context, declaration, before, function(context, **inputs))


class TestARefreshBeforeTheAttempt:
    @pytest.mark.parametrize("seen", [True, False])
    def test_does_not_keep_staging_from_being_taken_back(self, seen: bool, work: Path, bench: Bench) -> None:
        done = after_a_refresh(bench, work, add, paths=["a.txt"])
        assert done.undo(seen) == {"changed": True}
        assert git(work, "diff", "--cached", "--name-only") == ""

    @pytest.mark.parametrize("inputs", [{"all": True}, {"paths": ["a.txt"]}])
    def test_does_not_keep_a_commit_from_being_taken_back(
        self, inputs: dict[str, Any], work: Path, bench: Bench
    ) -> None:
        first = git(work, "rev-parse", "main")
        done = after_a_refresh(bench, work, commit, subject="x", **inputs)
        assert done.undo() == {"changed": True}
        assert git(work, "rev-parse", "main") == first and git(work, "diff", "--cached", "--name-only") == ""


@pytest.fixture
def impatient() -> Iterator[None]:
    """Whoever waits for ten seconds is interrupted."""

    def late(*_: Any) -> None:
        raise TimeoutError

    earlier = signal.signal(signal.SIGALRM, late)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, earlier)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_in_the_place_of_the_index_is_told_and_not_waited_for(
    make: Any, work: Path, bench: Bench
) -> None:
    (work / ".git/index").unlink()
    make(work / ".git/index")
    for function, inputs in ((add, {"paths": ["a.txt"]}), (commit, {"subject": "x", "all": True})):
        with pytest.raises(Failure, match="index is not a file"):
            bench.do(function, **inputs)
        with pytest.raises(Failure, match="index is not a file"):
            bench.preview(function, **inputs)


class TestIgnoredFiles:
    @pytest.fixture(autouse=True)
    def ignored(self, work: Path) -> None:
        (work / ".gitignore").write_text("ign*\n")
        for name in ("ign", "ign2"):
            (work / name).write_text("x\n")

    def test_they_are_named_with_what_takes_them(self, work: Path, bench: Bench) -> None:
        before = tree_state(work)
        for call, inputs in ((bench.do, {"paths": ["a.txt", "ign"]}), (bench.preview, {"paths": ["ign"]})):
            with pytest.raises(Failure) as caught:
                call(add, **inputs)
            assert str(caught.value) == "`ign` is ignored; `git.add` with `force: true` takes it"
        with pytest.raises(Failure, match=r"^`ign`, `ign2` are ignored; .* takes them$"):
            bench.do(commit, subject="x", paths=["ign", "ign2"])
        assert tree_state(work) == before
        assert bench.do(add, paths=["ign"], force=True).entries == ["ign"]

    def test_the_settings_of_the_repository_do_not_change_that(self, work: Path, bench: Bench) -> None:
        git(work, "config", "advice.addIgnoredFile", "false")
        with pytest.raises(Failure, match=r"^`ign` is ignored; "):
            bench.do(add, paths=["ign"])


@pytest.mark.parametrize(
    ("path", "why"),
    [("-wt", "`-wt` cannot be made: its name begins with `-`"), (".", "the working directory itself")],
)
def test_a_folder_that_cannot_be_made_is_told_with_the_reason(path: str, why: str, bench: Bench) -> None:
    with pytest.raises(Failure, match=why) as caught:
        bench.do(worktree_add, path=path)
    assert caught.value.failure == "policy"
