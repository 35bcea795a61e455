"""Several runs share a repository: an attempt that failed before it acted has nothing to take back, whatever others did
since it was captured, and one that acted takes back its own part alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from git_workbench import Bench, Done, git, repository, tree_state

from planrunner.capabilities.contract import Failure, declaration_of
from planrunner.capabilities.git import commit as committing
from planrunner.capabilities.git import refs
from planrunner.capabilities.git.clone import clone
from planrunner.capabilities.git.commit import commit, merge
from planrunner.capabilities.git.index import add
from planrunner.capabilities.git.refs import branch, switch, tag, tag_delete
from planrunner.capabilities.git.remote import fetch, push
from planrunner.capabilities.git.worktree import worktree_add, worktree_remove

FILES = {"git": {"name": "Ana", "email": "ana@example.org", "protocols": ["file"]}}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    made = repository(tmp_path / "work", a_txt="one\n")
    git(made, "switch", "-q", "-c", "other")
    (made / "a.txt").write_text("two\n")
    git(made, "commit", "-q", "-a", "-m", "other")
    git(made, "switch", "-q", "main")
    git(tmp_path, "clone", "-q", "--bare", str(made), "far.git")
    git(made, "remote", "add", "origin", str(tmp_path / "far.git"))
    (made / "b.txt").write_text("b\n")
    git(made, "add", "b.txt")
    return made


@pytest.fixture
def bench(work: Path, tmp_path: Path) -> Bench:
    return Bench(work, tmp_path / "state", FILES)


def failed(bench: Bench, function: Any, failure: str, others: Callable[[], Any], **inputs: Any) -> Done:
    """Capture, let others act, and try: what is to be taken back after the attempt has failed."""
    context = bench.context()
    declaration: Any = declaration_of(function)
    before = declaration.capture(context, **inputs)
    others()
    with pytest.raises(Failure) as caught:
        function(context, **inputs)
    assert caught.value.failure == failure, str(caught.value)
    return Done(bench, context, declaration, before, None)


def takes_back_nothing(done: Done, work: Path) -> None:
    now = tree_state(work)
    assert done.undo(seen=False) == {"changed": False}
    assert tree_state(work) == now


def just_before(monkeypatch: pytest.MonkeyPatch, module: Any, others: Callable[[], Any]) -> None:
    """Let others act when all is looked at and the reference is about to be set."""
    set_reference = module.move

    def late(*given: Any) -> None:
        others()
        set_reference(*given)

    monkeypatch.setattr(module, "move", late)


def commits(work: Path) -> None:
    git(work, "commit", "-q", "-m", "theirs")


class TestAFailedAttempt:
    def test_the_switch_of_another_run_to_the_branch_of_this_name_stays(self, work: Path, bench: Bench) -> None:
        git(work, "branch", "feature/x")
        done = failed(bench, branch, "exists", lambda: None, name="feature/x", switch=True)
        git(work, "switch", "-q", "feature/x")
        takes_back_nothing(done, work)
        assert git(work, "symbolic-ref", "HEAD") == "refs/heads/feature/x"

    def test_a_branch_that_another_run_made_and_committed_to_stays(self, work: Path, bench: Bench) -> None:
        made = ("switch", "-q", "-c", "feature/x")
        done = failed(bench, branch, "exists", lambda: git(work, *made), name="feature/x", switch=True)
        commits(work)
        takes_back_nothing(done, work)

    def test_a_branch_that_another_run_makes_at_the_same_moment_stays(
        self, work: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        just_before(monkeypatch, refs, lambda: git(work, "branch", "x"))
        takes_back_nothing(failed(bench, branch, "exists", lambda: None, name="x"), work)
        assert git(work, "rev-parse", "x")

    def test_a_tag_that_another_run_makes_at_the_same_moment_stays(
        self, work: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        just_before(monkeypatch, refs, lambda: git(work, "tag", "v1"))
        takes_back_nothing(failed(bench, tag, "exists", lambda: None, name="v1"), work)
        assert git(work, "rev-parse", "v1")

    def test_a_switch_that_local_changes_stopped_leaves_the_switch_of_another_run(
        self, work: Path, bench: Bench
    ) -> None:
        (work / "a.txt").write_text("local\n")
        done = failed(bench, switch, "dirty", lambda: None, ref="other")
        git(work, "switch", "-q", "-f", "other")
        takes_back_nothing(done, work)

    def test_a_merge_that_local_changes_stopped_leaves_the_commits_of_another_run(
        self, work: Path, bench: Bench
    ) -> None:
        git(work, "commit", "-q", "-m", "base")
        (work / "a.txt").write_text("local\n")
        done = failed(bench, merge, "dirty", lambda: None, ref="other")
        git(work, "commit", "-q", "-a", "-m", "theirs")
        takes_back_nothing(done, work)

    def test_a_commit_of_nothing_leaves_the_commit_of_another_run(self, work: Path, bench: Bench) -> None:
        takes_back_nothing(failed(bench, commit, "empty", lambda: commits(work), subject="x"), work)

    def test_a_commit_of_all_that_lost_the_index_leaves_what_the_other_staged(self, work: Path, bench: Bench) -> None:
        lock = work / ".git" / "index.lock"
        done = failed(bench, commit, "transient", lambda: lock.write_text(""), subject="x", all=True)
        lock.unlink()
        (work / "c.txt").write_text("c\n")
        git(work, "add", "c.txt")
        commits(work)
        takes_back_nothing(done, work)

    def test_a_commit_that_lost_the_branch_leaves_the_commit_of_another_run(
        self, work: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        just_before(monkeypatch, committing, lambda: commits(work))
        takes_back_nothing(failed(bench, commit, "moved", lambda: None, subject="x"), work)

    def test_staging_that_lost_the_index_leaves_what_the_other_staged(self, work: Path, bench: Bench) -> None:
        lock = work / ".git" / "index.lock"
        (work / "a.txt").write_text("changed\n")
        done = failed(bench, add, "transient", lambda: lock.write_text(""), paths=["a.txt"])
        lock.unlink()
        git(work, "add", "a.txt")
        takes_back_nothing(done, work)

    def test_a_tag_of_another_run_stays(self, work: Path, bench: Bench) -> None:
        takes_back_nothing(failed(bench, tag, "exists", lambda: git(work, "tag", "v1"), name="v1"), work)

    def test_a_push_that_came_too_late_leaves_what_the_other_pushed(self, work: Path, bench: Bench) -> None:
        git(work, "fetch", "-q", "origin")
        theirs = "refs/heads/other:refs/heads/main"
        url = git(work, "config", "remote.origin.url")
        done = failed(bench, push, "moved", lambda: git(work, "push", "-q", url, theirs))
        far = git(work, "ls-remote", "origin")
        takes_back_nothing(done, work)
        assert git(work, "ls-remote", "origin") == far

    def test_a_clone_of_another_run_stays(self, work: Path, bench: Bench, tmp_path: Path) -> None:
        far = str(tmp_path / "far.git")
        done = failed(bench, clone, "exists", lambda: git(work, "clone", "-q", far, "copy"), url=far, path="copy")
        takes_back_nothing(done, work)

    def test_a_working_tree_and_the_branch_of_another_run_stay(self, work: Path, bench: Bench) -> None:
        made = ("worktree", "add", "-q", "-b", "x", "further")
        done = failed(bench, worktree_add, "exists", lambda: git(work, *made), path="further", branch="x")
        takes_back_nothing(done, work)
        done = failed(bench, worktree_add, "exists", lambda: git(work, "branch", "y"), path="third", branch="y")
        takes_back_nothing(done, work)


class TestWhatWasDoneByOthers:
    """The attempt came to its end, but had nothing to do."""

    def test_a_switch_that_another_run_had_made_already_stays(self, work: Path, bench: Bench) -> None:
        done = after_others(bench, switch, lambda: git(work, "switch", "-q", "other"), ref="other")
        now = tree_state(work)
        assert done.undo() == {"changed": False} and done.undo(seen=False) == {"changed": False}
        assert tree_state(work) == now

    def test_a_tag_that_another_run_deleted_stays_away(self, work: Path, bench: Bench) -> None:
        git(work, "tag", "v0")
        done = after_others(bench, tag_delete, lambda: git(work, "tag", "-d", "v0"), name="v0")
        assert done.undo() == {"changed": False} and git(work, "tag") == ""

    def test_a_working_tree_that_another_run_removed_stays_away(self, work: Path, bench: Bench) -> None:
        git(work, "worktree", "add", "-q", "--detach", "further")
        removed = ("worktree", "remove", "further")
        done = after_others(bench, worktree_remove, lambda: git(work, *removed), path="further")
        assert done.undo() == {"changed": False} and not (work / "further").exists()

    def test_a_push_of_what_was_there_already_leaves_it(self, work: Path, bench: Bench) -> None:
        done = after_others(bench, push, lambda: git(work, "push", "-q", "origin", "other"), ref="other", to="x")
        git(work, "push", "-q", "origin", "other:main")
        again = after_others(bench, push, lambda: None, ref="other", to="main")
        far = git(work, "ls-remote", "origin")
        assert again.undo() == {"changed": False} and git(work, "ls-remote", "origin") == far
        assert done.undo() == {"changed": True} and "refs/heads/x" not in git(work, "ls-remote", "origin")


class TestOnlyTheOwnPart:
    def test_a_commit_goes_back_to_where_it_began_not_to_where_it_was_looked_at(self, work: Path, bench: Bench) -> None:
        def others() -> None:
            git(work, "commit", "-q", "--allow-empty", "--only", "-m", "theirs")

        done = after_others(bench, commit, others, subject="x")
        assert done.undo() == {"changed": True}
        assert git(work, "log", "-1", "--format=%s") == "theirs"

    def test_a_commit_is_taken_back_from_the_branch_that_it_went_to(self, work: Path, bench: Bench) -> None:
        main = git(work, "rev-parse", "main")
        done = after_others(bench, commit, lambda: git(work, "switch", "-q", "-c", "x"), subject="x")
        assert done.undo(seen=False) == {"changed": True}
        assert git(work, "rev-parse", "main", "x").split() == [main, main]

    def test_what_others_staged_before_it_is_not_lost(self, work: Path, bench: Bench) -> None:
        (work / "a.txt").write_text("changed\n")
        (work / "c.txt").write_text("c\n")
        done = after_others(bench, add, lambda: git(work, "add", "c.txt"), paths=["a.txt"])
        now = tree_state(work)
        with pytest.raises(Failure) as caught:
            done.undo()
        assert caught.value.failure == "moved" and tree_state(work) == now

    def test_a_push_goes_back_to_what_it_replaced(self, work: Path, bench: Bench) -> None:
        git(work, "commit", "-q", "-m", "theirs")
        theirs = git(work, "rev-parse", "main")
        git(work, "commit", "-q", "--allow-empty", "-m", "ours")
        done = after_others(bench, push, lambda: git(work, "push", "-q", "origin", f"{theirs}:main"))
        assert done.undo() == {"changed": True}
        assert git(work, "ls-remote", "origin", "refs/heads/main").split()[0] == theirs

    def test_a_switch_that_began_elsewhere_is_told(self, work: Path, bench: Bench) -> None:
        done = after_others(bench, switch, lambda: git(work, "switch", "-q", "-c", "third"), ref="other")
        now = tree_state(work)
        with pytest.raises(Failure, match="`third`") as caught:
            done.undo()
        assert caught.value.failure == "moved" and tree_state(work) == now


def after_others(bench: Bench, function: Any, others: Callable[[], Any], **inputs: Any) -> Done:
    """Capture, let others act, then do."""
    context = bench.context()
    declaration: Any = declaration_of(function)
    before = declaration.capture(context, **inputs)
    others()
    return Done(bench, context, declaration, before, function(context, **inputs))


class TestTheBranchThatIsMeant:
    def test_a_commit_is_made_on_the_branch_that_is_named_only(self, work: Path, bench: Bench) -> None:
        git(work, "branch", "feature/x")
        before = tree_state(work)
        with pytest.raises(Failure, match="expected HEAD on `feature/x`, found `main`") as caught:
            bench.do(commit, subject="x", branch="feature/x")
        assert caught.value.failure == "moved" and tree_state(work) == before
        git(work, "switch", "-q", "feature/x")
        assert bench.do(commit, subject="x", branch="feature/x").branch == "feature/x"

    def test_a_preview_does_not_promise_the_branch_of_now(self, work: Path, bench: Bench) -> None:
        told = bench.preview(commit, subject="x")
        assert told.summary == "commit to the branch HEAD is on then (now main): x"
        assert not any("refs/heads/main" in call for call in told.calls)
        told = bench.preview(commit, subject="x", branch="feature/x")
        assert told.summary == "commit to feature/x: x"
        assert any("refs/heads/feature/x" in call for call in told.calls)


class TestWhatIsSaid:
    def test_a_head_that_moved_is_told_with_what_was_expected_and_what_to_do(self, work: Path, bench: Bench) -> None:
        done = bench.act(branch, name="x", switch=True)
        git(work, "switch", "-q", "-c", "third")
        main = git(work, "rev-parse", "main")[:12]
        with pytest.raises(Failure) as caught:
            done.undo()
        said = str(caught.value)
        assert f"expected `x` at {main}" in said and f"found `third` at {main}" in said and "git switch x" in said

    @pytest.mark.parametrize(
        ("function", "inputs", "failure", "said"),
        [
            (branch, {"name": "a b"}, "logic", "not a name for a branch"),
            (branch, {"name": "x", "start": "nowhere", "switch": True}, "unknown_ref", "nowhere"),
            (switch, {"ref": "nowhere"}, "unknown_ref", "unknown branch `nowhere`"),
            (tag, {"name": "a..b"}, "logic", "not a name for a tag"),
            (push, {"remote": "nowhere"}, "logic", "no remote `nowhere`"),
            (push, {"url": "https://127.0.0.1/x.git"}, "policy", "may not use `https:` addresses"),
            (fetch, {"remote": "-x"}, "policy", "not a name for a remote"),
            (fetch, {"remote": "../other.git"}, "logic", "is not a name for a remote: an address is `url`"),
            (clone, {"url": "/nowhere", "path": "../x"}, "policy", "outside"),
            (worktree_add, {"path": "x", "ref": "nowhere"}, "unknown_ref", "nowhere"),
        ],
    )
    def test_what_the_attempt_refuses_is_left_to_it(
        self, function: Any, inputs: dict[str, Any], failure: str, said: str, work: Path, bench: Bench
    ) -> None:
        done = failed(bench, function, failure, lambda: None, **inputs)
        assert said in done.before["late"]
        takes_back_nothing(done, work)

    def test_what_was_done_although_it_was_refused_at_first_is_not_taken_back_blindly(
        self, work: Path, bench: Bench
    ) -> None:
        done = after_others(bench, switch, lambda: git(work, "branch", "late"), ref="late")
        now = tree_state(work)
        for seen in (True, False):
            with pytest.raises(Failure, match="unknown branch `late`"):
                done.undo(seen)
        assert tree_state(work) == now

    @pytest.mark.parametrize(("function", "inputs"), [(merge, {"ref": "x"}), (switch, {"ref": "x"})])
    def test_a_repository_without_commits_is_told(self, function: Any, inputs: Any, tmp_path: Path) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        git(empty, "init", "-q", "-b", "main")
        git(empty, "fetch", "-q", str(repository(tmp_path / "full")), "main:x")
        bench = Bench(empty, tmp_path / "state")
        takes_back_nothing(failed(bench, function, "logic", lambda: None, **inputs), empty)
        for call in (bench.do, bench.preview):
            with pytest.raises(Failure, match="HEAD has no commit yet"):
                call(function, **inputs)
