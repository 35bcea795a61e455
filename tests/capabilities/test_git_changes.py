"""What changes a repository: what it does, that it is done once, and that it is taken back byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from git_server import bare, served
from git_workbench import Bench, Done, git, repository, tree_state

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.git.clone import clone
from planrunner.capabilities.git.commit import Merged, commit, merge
from planrunner.capabilities.git.history import Found, bisect, diff, log, show
from planrunner.capabilities.git.index import add
from planrunner.capabilities.git.refs import branch, switch, tag, tag_delete
from planrunner.capabilities.git.remote import fetch, push
from planrunner.capabilities.git.worktree import status, worktree_add, worktree_remove
from planrunner.engine.orphans import end_carriers

NETWORK = {"network": {"private": ["127.0.0.1"]}}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Branches main and other, a staged file, a changed one with permissions of its own, an unknown one."""
    made = repository(tmp_path / "work", a_txt="one\n", b_txt="b\n", m_txt="1\n2\n3\n4\n5\n6\n7\n8\n")
    git(made, "switch", "-q", "-c", "other")
    (made / "d" / "e").mkdir(parents=True)
    (made / "d" / "e" / "new.txt").write_text("new\n")
    (made / "a.txt").write_text("two\n")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    (made / "link").symlink_to("a.txt")
    (made / "m.txt").write_text("1\n2\n3\n4\n5\n6\n7\neight\n")
    git(made, "rm", "-q", "b.txt")
    git(made, "add", "-A")
    git(made, "commit", "-q", "-m", "other")
    git(made, "switch", "-q", "main")
    (made / "a.txt").chmod(0o600)
    (made / "staged.txt").write_text("staged\n")
    git(made, "add", "staged.txt")
    (made / "unknown.txt").write_text("mine\n")
    return made


@pytest.fixture
def bench(work: Path, tmp_path: Path) -> Bench:
    return Bench(work, tmp_path / "state", NETWORK)


CHANGES: list[tuple[Any, dict[str, Any]]] = [
    (add, {"paths": ["."]}),
    (commit, {"subject": "x", "body": "why", "origin": True}),
    (commit, {"subject": "x", "paths": ["unknown.txt"]}),
    (commit, {"subject": "x", "all": True}),
    (branch, {"name": "plan/x-1"}),
    (branch, {"name": "plan/x-1", "start": "other", "switch": True}),
    (switch, {"ref": "other"}),
    (switch, {"ref": "other", "detach": True}),
    (tag, {"name": "v1"}),
    (tag, {"name": "v1", "message": "One."}),
    (merge, {"ref": "other"}),
    (merge, {"ref": "other", "ff": "never"}),
]


@pytest.mark.parametrize(("function", "inputs"), CHANGES, ids=lambda value: getattr(value, "__name__", None))
class TestEachChange:
    def test_it_is_previewed_done_once_and_taken_back_byte_for_byte(
        self, function: Any, inputs: dict[str, Any], work: Path, bench: Bench
    ) -> None:
        before = tree_state(work)
        told = bench.preview(function, **inputs)
        assert told.summary and told.calls and tree_state(work) == before
        done = bench.act(function, **inputs)
        after = tree_state(work)
        assert after != before and after["left"] == []
        assert function(done.context, **inputs) == done.outputs, "issued again, it must find what it did"
        assert tree_state(work) == after
        done.undo(seen=False)
        assert tree_state(work) == before
        done.undo()
        assert tree_state(work) == before


class TestWhatSomebodyDidSince:
    """An undo leaves alone what others did in the meantime, and says so."""

    def refused(self, done: Done, work: Path) -> None:
        after = tree_state(work)
        for seen in (True, False):
            with pytest.raises(Failure) as caught:
                done.undo(seen)
            assert caught.value.failure == "moved"
            assert tree_state(work) == after

    def test_a_branch_that_moved_on_stays(self, work: Path, bench: Bench) -> None:
        done = bench.act(commit, subject="x")
        git(work, "commit", "-q", "--allow-empty", "-m", "another")
        self.refused(done, work)

    def test_an_index_that_was_changed_stays(self, work: Path, bench: Bench) -> None:
        done = bench.act(add, paths=["unknown.txt"])
        (work / "later.txt").write_text("later\n")
        git(work, "add", "later.txt")
        self.refused(done, work)

    @pytest.mark.parametrize("path", ["a.txt", "d/e/new.txt", "b.txt"])
    def test_a_file_that_was_edited_after_a_switch_stays(self, path: str, work: Path, bench: Bench) -> None:
        done = bench.act(switch, ref="other")
        (work / path).write_text("edited\n")
        self.refused(done, work)

    def test_a_switch_to_yet_another_branch_stays(self, work: Path, bench: Bench) -> None:
        done = bench.act(switch, ref="other")
        git(work, "switch", "-q", "-c", "third")
        self.refused(done, work)

    def test_a_tag_that_was_set_elsewhere_stays(self, work: Path, bench: Bench) -> None:
        done = bench.act(tag, name="v1")
        git(work, "tag", "-f", "v1", "other")
        self.refused(done, work)

    def test_a_deleted_tag_that_was_made_anew_stays(self, work: Path, bench: Bench) -> None:
        git(work, "tag", "v0")
        done = bench.act(tag_delete, name="v0")
        git(work, "tag", "v0", "other")
        self.refused(done, work)

    def test_what_was_staged_after_a_commit_stays_staged(self, work: Path, bench: Bench) -> None:
        done = bench.act(commit, subject="x")
        git(work, "add", "unknown.txt")
        done.undo()
        assert git(work, "status", "--short") == "A  staged.txt\nA  unknown.txt"


class TestLocks:
    def test_a_lock_of_another_git_is_respected(self, work: Path, bench: Bench) -> None:
        lock = work / ".git" / "index.lock"
        lock.write_text("")
        before = tree_state(work)
        with pytest.raises(Failure, match="another git process") as caught:
            bench.do(add, paths=["."])
        assert caught.value.failure == "transient" and lock.exists()
        assert tree_state(work) == before

    def test_a_branch_that_another_git_has_is_waited_for_and_the_same_commit_is_used(
        self, work: Path, bench: Bench, tmp_path: Path
    ) -> None:
        lock = work / ".git" / "refs" / "heads" / "main.lock"
        lock.write_text("")
        with pytest.raises(Failure, match="another git process") as caught:
            bench.do(commit, "once", subject="x")
        assert caught.value.failure == "transient" and lock.exists()
        lock.unlink()
        (note,) = (tmp_path / "state" / "notes").iterdir()
        made = json.loads(note.read_text())["commit"]
        assert bench.do(commit, "once", subject="x").commit == made == git(work, "rev-parse", "main")

    def test_a_lock_that_a_kill_left_of_ours_is_removed(self, work: Path, bench: Bench) -> None:
        from planrunner.capabilities.git.index import Copy
        from planrunner.capabilities.git.repository import open_repository, slot

        context = bench.context("killed")
        copy = Copy(open_repository(context), slot(context))
        copy.take()
        copy.hold()
        with pytest.raises(Failure, match="another git process"):
            bench.do(add, "another step", paths=["."])
        assert add(context, paths=["."]).changed
        assert tree_state(work)["left"] == []


KILLED = """
import os, sys, threading, time
sys.path[:0] = [{tests!r}, {root!r}]
from pathlib import Path
from git_workbench import Bench
from planrunner.capabilities.git.{module} import {function}
bench = Bench(Path({work!r}), Path({state!r}), {{}})
bench.env = {{"PLANRUNNER_KEY": "once"}}
context = bench.context("once")
if {after!r}:
    threading.Timer({after!r}, lambda: os.kill(0, 9)).start()
{function}(context, **{inputs!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "function", "inputs"),
    [
        ("branches", switch, {"ref": "many"}),
        ("merging", merge, {"ref": "many", "ff": "never"}),
        ("commits", commit, {"subject": "x", "all": True}),
    ],
)
@pytest.mark.parametrize("goes_on", [True, False])
def test_killed_at_any_moment_it_goes_on_or_is_taken_back(
    module: str, function: Any, inputs: dict[str, Any], goes_on: bool, work: Path, bench: Bench, tmp_path: Path
) -> None:
    git(work, "switch", "-q", "-c", "many")
    for number in range(300):
        (work / f"file{number}.txt").write_text(f"{number}\n" * 200)
    git(work, "add", "file*.txt")
    git(work, "commit", "-q", "-m", "many")
    git(work, "switch", "-q", "main")
    (work / "a.txt").write_text("changed\n") if function is commit else None
    before = tree_state(work)
    here = Path(__file__)
    for step in range(6):
        key = f"once-{os.urandom(6).hex()}-{step}"  # what carries it is ended on the whole machine
        done = Done(bench, bench.context(key), *_captured(bench, key, function, inputs), None)
        script = KILLED.format(
            tests=str(here.parent), root=str(here.parents[2]), module=module, function=function.__name__, work=str(work),
            state=str(bench.state), inputs=inputs, after=0.08 + step * 0.035,
        ).replace('"once"', repr(key))  # fmt: skip
        subprocess.run([sys.executable, "-c", script], start_new_session=True, capture_output=True, check=False)
        end_carriers(f"PLANRUNNER_KEY={key}".encode())  # as the next start of planrunner does
        time.sleep(0.02)
        _free(work)
        if goes_on:
            outputs = function(bench.context(key), **inputs)
            assert function(bench.context(key), **inputs) == outputs
            done.outputs = outputs
        done.undo(seen=goes_on)
        assert tree_state(work) == before, step


def _captured(bench: Bench, key: str, function: Any, inputs: dict[str, Any]) -> tuple[Any, Any]:
    from planrunner.capabilities.contract import declaration_of

    declaration: Any = declaration_of(function)
    return declaration, declaration.capture(bench.context(key), **inputs)


def _free(work: Path) -> None:
    """Locks of references that a kill left: they are anybody's, so a person has to look; the index is ours to free."""
    for lock in (work / ".git").rglob("*.lock"):
        if lock.name != "index.lock":
            lock.unlink()


class TestCommits:
    def test_nothing_to_commit_has_a_class_of_its_own(self, work: Path, bench: Bench) -> None:
        bench.do(commit, subject="staged")
        with pytest.raises(Failure, match="nothing to commit") as caught:
            bench.do(commit, subject="again")
        assert caught.value.failure == "empty"
        assert bench.do(commit, subject="again", allow_empty=True).parent

    def test_the_first_commit_is_taken_back_to_none(self, tmp_path: Path) -> None:
        empty = tmp_path / "empty"
        empty.mkdir()
        git(empty, "init", "-q", "-b", "main")
        before = tree_state(empty)
        bench = Bench(empty, tmp_path / "state")
        (empty / "a").write_text("a\n")
        staged = bench.act(add, paths=["a"])
        made = bench.act(commit, subject="first")
        assert made.outputs.parent == "" and bench.do(status).commit == made.outputs.commit
        made.undo()
        staged.undo()
        (empty / "a").unlink()
        assert tree_state(empty) == before

    def test_paths_are_committed_alone_and_the_rest_stays_staged(self, work: Path, bench: Bench) -> None:
        made = bench.do(commit, subject="one", paths=["unknown.txt"])
        assert git(work, "show", "--format=", "--name-only", made.commit) == "unknown.txt"
        assert git(work, "status", "--short") == "A  staged.txt"

    def test_the_message_is_built_from_data(self, work: Path, bench: Bench) -> None:
        made = bench.do(
            commit,
            subject="Subject",
            body="Body.\n\nMore.",
            trailers={"Refs": "#1"},
            origin=True,
            author="Bo <bo@example.org>",
        )
        assert git(work, "log", "-1", "--format=%B|%an|%cn", made.commit) == (
            "Subject\n\nBody.\n\nMore.\n\nRefs: #1\nPlanrunner-Run: run-1\nPlanrunner-Task: step\n|Bo|Ana"
        )
        assert git(work, "log", "-1", "--format=%(trailers:key=Refs,valueonly)") == "#1"

    def test_nobody_commits_without_a_name(self, work: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        bench.settings["git"] = {}
        monkeypatch.setenv("HOME", "/nonexistent")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        with pytest.raises(Failure, match="no committer is configured"):
            bench.do(commit, subject="x")
        assert bench.do(commit, subject="x", author="Bo <bo@example.org>").subject == "x"

    @pytest.mark.parametrize("name", ["MERGE_HEAD", "CHERRY_PICK_HEAD"])
    def test_what_is_half_done_is_ended_first(self, name: str, work: Path, bench: Bench) -> None:
        (work / ".git" / name).write_text(git(work, "rev-parse", "other") + "\n")
        with pytest.raises(Failure, match=name) as caught:
            bench.do(commit, subject="x")
        assert caught.value.failure == "busy"


class TestSwitches:
    def test_local_changes_in_the_way_stop_it_before_anything_is_touched(self, work: Path, bench: Bench) -> None:
        (work / "a.txt").write_text("local\n")
        before = tree_state(work)
        with pytest.raises(Failure, match=r"a\.txt") as caught:
            bench.do(switch, ref="other")
        assert caught.value.failure == "dirty" and tree_state(work) == before

    @pytest.mark.parametrize("path", ["run.sh", "d", "d/e", "link"])
    def test_files_that_git_does_not_know_are_not_overwritten_even_if_ignored(
        self, path: str, work: Path, bench: Bench
    ) -> None:
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text("precious\n")
        (work / ".git" / "info" / "exclude").write_text("*\n")
        before = tree_state(work)
        with pytest.raises(Failure, match="untracked files would be overwritten") as caught:
            bench.do(switch, ref="other")
        assert caught.value.failure == "dirty" and tree_state(work) == before

    def test_line_ends_that_git_converts_come_back_as_they_were(self, work: Path, bench: Bench) -> None:
        git(work, "config", "core.autocrlf", "true")
        (work / "a.txt").unlink()
        git(work, "checkout", "-q", "--", "a.txt")
        assert (work / "a.txt").read_bytes() == b"one\r\n"
        before = tree_state(work)
        done = bench.act(switch, ref="other")
        assert (work / "a.txt").read_bytes() == b"two\r\n"
        done.undo(seen=False)
        assert tree_state(work) == before

    def test_a_branch_that_is_checked_out_elsewhere_is_not_taken(
        self, work: Path, bench: Bench, tmp_path: Path
    ) -> None:
        git(work, "worktree", "add", "-q", str(tmp_path / "further"), "other")
        with pytest.raises(Failure, match="checked out in a working tree"):
            bench.do(switch, ref="other")


class TestMerges:
    def test_a_conflict_is_told_and_touches_nothing(self, work: Path, bench: Bench) -> None:
        (work / "a.txt").write_text("three\n")
        git(work, "commit", "-q", "-a", "-m", "mine")
        before = tree_state(work)
        with pytest.raises(Failure, match=r"1 path conflicts: a\.txt") as caught:
            bench.act(merge, ref="other")
        assert caught.value.failure == "conflict"
        assert caught.value.outputs["conflicts"] == ["a.txt"]
        assert caught.value.outputs["messages"] == ["CONFLICT (content): Merge conflict in a.txt"]
        assert caught.value.outputs.keys() <= set(Merged._fields)
        assert tree_state(work) == before

    def test_changes_of_both_sides_come_together(self, work: Path, bench: Bench) -> None:
        (work / "m.txt").write_text("one\n2\n3\n4\n5\n6\n7\n8\n")
        git(work, "commit", "-q", "-a", "-m", "mine")
        before = tree_state(work)
        done = bench.act(merge, ref="other", subject="Together")
        assert done.outputs.how == "merge" and (work / "m.txt").read_text() == "one\n2\n3\n4\n5\n6\n7\neight\n"
        assert git(work, "log", "-1", "--format=%s %p").count(" ") == 2
        done.undo()
        assert tree_state(work) == before

    def test_what_is_no_fast_forward_can_be_refused(self, work: Path, bench: Bench) -> None:
        assert bench.do(merge, ref="HEAD").how == "up_to_date"
        git(work, "commit", "-q", "--allow-empty", "-m", "mine")
        with pytest.raises(Failure) as caught:
            bench.do(merge, ref="other", ff="only")
        assert caught.value.failure == "diverged"


class TestOtherRepositories:
    def test_clone_fetch_and_push_over_http_are_taken_back(self, work: Path, tmp_path: Path) -> None:
        far = bare(tmp_path / "srv" / "r.git", work)
        folder = tmp_path / "here"
        folder.mkdir()
        desk = Bench(folder, tmp_path / "state2", NETWORK)
        with served(tmp_path / "srv") as server:
            cloned = desk.act(clone, url=f"{server.url}/r.git", path="copy")
            assert clone(cloned.context, url=f"{server.url}/r.git", path="copy") == cloned.outputs
            copy = folder / "copy"
            bench = Bench(copy, tmp_path / "state3", NETWORK)
            git(far, "branch", "news", "other")
            before = tree_state(copy)
            fetched = bench.act(fetch)
            assert [change["ref"] for change in fetched.outputs.updated] == ["refs/remotes/origin/news"]
            assert fetch(fetched.context) == fetched.outputs
            fetched.undo(seen=False)
            assert tree_state(copy) == before
            git(copy, "commit", "-q", "--allow-empty", "-m", "mine")
            before, there = tree_state(copy), git(far, "for-each-ref")
            for inputs in (
                {},
                {"to": "topic"},
                {"ref": "HEAD~1", "to": "other", "force": True, "expected": "origin/other"},
            ):
                pushed = bench.act(push, **inputs)
                assert pushed.outputs.changed and push(pushed.context, **inputs) == pushed.outputs
                assert git(far, "rev-parse", pushed.outputs.ref) == pushed.outputs.new
                pushed.undo(seen=False)
                assert tree_state(copy) == before and git(far, "for-each-ref") == there
                pushed.undo()
            with pytest.raises(Failure, match="nowhere else") as caught:
                cloned.undo()
            assert caught.value.failure == "moved"
            git(copy, "reset", "-q", "--hard", "origin/main")
            cloned.undo(seen=False)
            assert os.listdir(folder) == []

    def test_a_remote_that_moved_is_not_overwritten(self, work: Path, tmp_path: Path) -> None:
        far = bare(tmp_path / "srv" / "r.git", work)
        desk = Bench(work, tmp_path / "state2", NETWORK)
        with served(tmp_path / "srv") as server:
            git(work, "remote", "add", "origin", f"{server.url}/r.git")
            desk.do(fetch)
            git(work, "commit", "-q", "--allow-empty", "-m", "mine")
            done = desk.act(push)
            git(far, "update-ref", "refs/heads/main", "refs/heads/other")
            with pytest.raises(Failure, match="has moved") as caught:
                done.undo()
            assert caught.value.failure == "moved"
            for inputs in ({}, {"force": True}):
                with pytest.raises(Failure) as caught:
                    desk.do(push, **inputs)
                assert caught.value.failure == "moved"
            desk.do(fetch)
            with pytest.raises(Failure) as caught:
                desk.do(push)
            assert caught.value.failure == "diverged"
            assert git(far, "rev-parse", "main") == git(far, "rev-parse", "other")
            assert desk.do(push, force=True).changed

    def test_a_server_that_is_gone_is_transient_and_one_that_refuses_is_not(self, work: Path, tmp_path: Path) -> None:
        desk = Bench(work, tmp_path / "state2", NETWORK)
        with served(tmp_path, "ana:secret") as server:
            url = f"{server.url}/r.git"
            with pytest.raises(Failure) as caught:
                desk.do(fetch, url=url)
            assert caught.value.failure == "denied"
        with pytest.raises(Failure) as caught:
            desk.do(fetch, url=url)
        assert caught.value.failure == "transient"

    def test_branches_that_are_gone_are_forgotten_when_asked(self, work: Path, tmp_path: Path) -> None:
        far = bare(tmp_path / "srv" / "r.git", work)
        desk = Bench(work, tmp_path / "state2", NETWORK)
        with served(tmp_path / "srv") as server:
            git(work, "remote", "add", "origin", f"{server.url}/r.git")
            desk.do(fetch)
            git(far, "branch", "-D", "other")
            assert desk.do(fetch).updated == []
            done = desk.act(fetch, prune=True)
            assert [(each["ref"], each["new"]) for each in done.outputs.updated] == [("refs/remotes/origin/other", "")]
            done.undo()
            assert git(work, "rev-parse", "origin/other") == git(work, "rev-parse", "other")


class TestWorkingTrees:
    def test_trees_are_added_and_removed_one_at_a_time(
        self, work: Path, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spy, notes = tmp_path / "programs" / "git", tmp_path / "notes"
        real = shutil.which("git")
        is_free = f"fcntl.flock(os.open('{work}/.git', os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        lines = ["#!/bin/sh", 'if [ "$1 $2" = "worktree add" ] || [ "$1 $2" = "worktree remove" ]; then']
        lines += [f'  {sys.executable} -c "import fcntl, os; {is_free}" 2>/dev/null; echo "$2 $?" >> {notes}', "fi"]
        spy.parent.mkdir()
        spy.write_text("\n".join([*lines, f'exec {real} "$@"', ""]))
        spy.chmod(0o755)
        monkeypatch.setenv("PATH", f"{spy.parent}:{os.environ['PATH']}")
        bench.act(worktree_add, path="further", ref="other")
        bench.act(worktree_remove, path="further")
        assert notes.read_text().splitlines() == ["add 1", "remove 1"]

    def test_they_are_added_and_removed_and_each_is_taken_back(self, work: Path, bench: Bench) -> None:
        before = tree_state(work)
        added = bench.act(worktree_add, path="further", ref="other", branch="plan/x")
        assert worktree_add(added.context, path="further", ref="other", branch="plan/x") == added.outputs
        with_it = tree_state(work)
        removed = bench.act(worktree_remove, path="further")
        assert not (work / "further").exists()
        removed.undo(seen=False)
        assert tree_state(work) == with_it
        (work / "further" / "mine").write_text("x")
        with pytest.raises(Failure, match="holds more than what is committed"):
            bench.do(worktree_remove, path="further")
        with pytest.raises(Failure, match="work of its own"):
            added.undo()
        (work / "further" / "mine").unlink()
        added.undo(seen=False)
        assert tree_state(work) == before
        added.undo()

    def test_one_that_was_begun_and_not_ended_is_made_anew(self, work: Path, bench: Bench) -> None:
        from planrunner.capabilities.git.repository import slot

        context = bench.context("half")
        git(
            work,
            "worktree",
            "add",
            "--no-checkout",
            "--detach",
            "--lock",
            "--reason",
            f"planrunner {slot(context)}",
            "further",
        )
        assert worktree_add(context, path="further", ref="other").commit == git(work, "rev-parse", "other")
        assert (work / "further" / "run.sh").exists()


class TestBisecting:
    def test_it_finds_the_first_bad_commit_and_touches_nothing(self, work: Path, bench: Bench) -> None:
        for number in range(12):
            (work / "n").write_text(f"{number}\n")
            git(work, "add", "n")
            git(work, "commit", "-q", "-m", f"count to {number}")
        before = tree_state(work)
        for test in (
            'test "$(cat n 2>/dev/null || echo 0)" -lt 7',
            ["sh", "-c", "n=$(cat n || echo 0); test $n -lt 7"],
        ):
            found = bench.do(bisect, good="HEAD~12", test=test)
            assert found.subject == "count to 7" and 3 <= len(found.steps) <= 6
        with pytest.raises(Failure) as caught:
            bench.do(bisect, good="HEAD~12", test="test ! -e n || exit 125")
        assert caught.value.failure == "wrong_ends"
        hard = 'case "$(cat n 2>/dev/null || echo 0)" in 0) exit 0 ;; 11) exit 1 ;; *) exit 125 ;; esac'
        with pytest.raises(Failure) as caught:
            bench.do(bisect, good="HEAD~12", test=hard)
        assert caught.value.failure == "undecided"
        assert len(caught.value.outputs["candidates"]) == 11
        assert caught.value.outputs.keys() <= set(Found._fields)
        with pytest.raises(Failure) as caught:
            bench.do(bisect, good="HEAD~12", test="exit 127")
        assert caught.value.failure == "broken_test"
        assert tree_state(work) == before


class TestLooking:
    def test_status_tells_each_path_and_the_distance_to_the_upstream(self, work: Path, bench: Bench) -> None:
        git(work, "branch", "-q", "-f", "base", "other")
        git(work, "branch", "-q", "--set-upstream-to=base")
        git(work, "commit", "-q", "-m", "mine")
        (work / "b.txt").unlink()
        (work / "odd\nname").write_text("x")
        found = bench.do(status)
        assert (found.branch, found.upstream, found.ahead, found.behind, found.clean) == ("main", "base", 1, 1, False)
        told = {entry["path"]: (entry["kind"], entry["staged"], entry["unstaged"]) for entry in found.entries}
        assert told["b.txt"] == ("changed", ".", "D")
        assert told["odd\nname"] == told["unknown.txt"] == ("untracked", ".", ".")

    def test_differences_history_and_single_commits(self, work: Path, bench: Bench) -> None:
        assert bench.do(diff, staged=True).files == [{"path": "staged.txt", "added": 1, "removed": 0}]
        between = bench.do(diff, base="main", target="other", paths=["a.txt"])
        assert "-one\n+two\n" in between.diff and (between.added, between.removed) == (1, 1)
        assert bench.do(diff, base="main", target="other", max_bytes=10).truncated
        history = bench.do(log, ref="other", since="main").commits
        assert [entry["subject"] for entry in history] == ["other"]
        shown = bench.do(show, ref="other")
        assert shown.parents == [git(work, "rev-parse", "main")] and len(shown.files) == 6
        assert bench.do(show, ref="main").diff.count("new file") == 3

    def test_what_is_no_repository_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(Failure, match="lies in no git repository"):
            Bench(tmp_path, tmp_path / "state").do(status)

    def test_it_stops_when_the_attempt_does(self, work: Path, bench: Bench) -> None:
        context = bench.context()._replace(cancelled=lambda: True)
        started = time.monotonic()
        with pytest.raises(Failure):
            bisect(context, good="main", bad="other", test=["sleep", "600"])
        assert time.monotonic() - started < 240
