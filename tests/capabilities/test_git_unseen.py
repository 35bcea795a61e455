"""What plain git does not look at, or looks up where nobody expects it: flags, settings, names for names, submodules."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from git_workbench import Bench, git, repository, tree_state

from planrunner.capabilities.contract import Failure, declaration_of
from planrunner.capabilities.git import checkout, configuration
from planrunner.capabilities.git.clone import clone
from planrunner.capabilities.git.commit import commit
from planrunner.capabilities.git.configuration import is_refused
from planrunner.capabilities.git.history import diff, log
from planrunner.capabilities.git.index import add
from planrunner.capabilities.git.refs import branch, switch, tag_delete
from planrunner.capabilities.git.remote import fetch, push
from planrunner.capabilities.git.repository import Record, slot
from planrunner.capabilities.git.worktree import worktree_add, worktree_remove

FILES = {"git": {"name": "Ana", "email": "ana@example.org", "protocols": ["file"]}}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return repository(tmp_path / "work", a_txt="one\n", b_txt="b\n")


@pytest.fixture
def bench(work: Path, tmp_path: Path) -> Bench:
    return Bench(work, tmp_path / "state", FILES)


def test_a_tag_that_is_a_name_for_a_branch_takes_no_branch_with_it(work: Path, bench: Bench) -> None:
    git(work, "symbolic-ref", "refs/tags/latest", "refs/heads/main")
    before = tree_state(work)
    with pytest.raises(Failure, match="another name for `main`"):
        bench.act(tag_delete, name="latest")
    assert tree_state(work) == before


def test_a_commit_of_all_paths_keeps_the_files_that_a_sparse_checkout_leaves_out(work: Path, bench: Bench) -> None:
    (work / "far").mkdir()
    (work / "far/x").write_text("x\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "far")
    git(work, "sparse-checkout", "set", "--no-cone", "/*", "!/far/")
    assert not (work / "far/x").exists()
    (work / "a.txt").write_text("two\n")
    bench.do(commit, subject="s", paths=["."])
    assert git(work, "ls-tree", "-r", "--name-only", "HEAD").splitlines() == ["a.txt", "b.txt", "far/x"]


def test_a_commit_of_all_paths_leaves_out_what_git_was_told_not_to_look_at(work: Path, bench: Bench) -> None:
    git(work, "update-index", "--skip-worktree", "b.txt")
    (work / "b.txt").write_text("mine\n")
    (work / "a.txt").write_text("two\n")
    bench.do(commit, subject="s", paths=["."])
    assert git(work, "show", "HEAD:b.txt") == "b"


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_a_working_tree_with_changes_that_git_was_told_not_to_look_at_is_not_removed(
    work: Path, bench: Bench, flag: str
) -> None:
    git(work, "worktree", "add", "-q", "--detach", "side")
    git(work / "side", "update-index", flag, "b.txt")
    (work / "side/b.txt").write_text("mine\n")
    with pytest.raises(Failure) as caught:
        bench.act(worktree_remove, path="side")
    assert caught.value.failure == "dirty"
    assert (work / "side/b.txt").read_text() == "mine\n"


def test_a_working_tree_in_the_middle_of_a_merge_is_not_removed(work: Path, bench: Bench) -> None:
    git(work, "worktree", "add", "-q", "--detach", "side")
    own = Path(git(work / "side", "rev-parse", "--absolute-git-dir"))
    (own / "MERGE_HEAD").write_text(git(work, "rev-parse", "HEAD") + "\n")
    with pytest.raises(Failure, match="MERGE_HEAD") as caught:
        bench.act(worktree_remove, path="side")
    assert caught.value.failure == "dirty"


def test_a_remote_whose_name_is_an_address_does_not_stand_for_another_one(
    work: Path, bench: Bench, tmp_path: Path
) -> None:
    good = repository(tmp_path / "good", a_txt="good\n")
    evil = repository(tmp_path / "evil", a_txt="evil\n")
    git(work, "config", f"remote.file://{good}.url", str(evil))
    with pytest.raises(Failure, match="name programs, files or addresses") as caught:
        bench.do(fetch, url=f"file://{good}")
    assert caught.value.failure == "policy"


def test_addresses_of_bundles_are_refused_whatever_this_git_does_with_them() -> None:
    assert is_refused("fetch.bundleuri", "https://evil.example")
    assert not is_refused("fetch.prune", "true")
    assert not is_refused("remote.team/origin.url", "https://good.example/x.git")


def test_options_that_the_settings_add_to_a_push_stay_here(work: Path, bench: Bench, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "far.git")
    git(tmp_path / "far.git", "config", "receive.advertisePushOptions", "true")
    hook = tmp_path / "far.git/hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho $GIT_PUSH_OPTION_COUNT >{tmp_path}/options\n")
    hook.chmod(0o755)
    git(work, "remote", "add", "origin", str(tmp_path / "far.git"))
    git(work, "config", "push.pushOption", "merge_request.create")
    git(work, "push", "-q", "origin", "main:theirs")
    assert (tmp_path / "options").read_text() == "1\n"
    bench.do(push)
    assert (tmp_path / "options").read_text() in ("0\n", "\n")


def test_a_message_is_utf8_whatever_the_settings_say_of_messages(work: Path, bench: Bench) -> None:
    git(work, "config", "i18n.commitEncoding", "ISO-8859-1")
    bench.do(commit, subject="h\u00e9llo", allow_empty=True)
    assert bench.do(log, limit=1).commits[0]["subject"] == "h\u00e9llo"
    assert "encoding" not in git(work, "cat-file", "-p", "HEAD")


def test_a_tag_by_its_full_name_is_pushed_as_the_object_that_it_is(work: Path, bench: Bench, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "far.git")
    git(work, "remote", "add", "origin", str(tmp_path / "far.git"))
    git(work, "tag", "-a", "-m", "m", "v1")
    bench.do(push, ref="refs/tags/v1")
    assert git(tmp_path / "far.git", "rev-parse", "refs/tags/v1") == git(work, "rev-parse", "refs/tags/v1")


def test_a_submodule_that_wants_to_be_looked_into_runs_no_program(work: Path, bench: Bench, tmp_path: Path) -> None:
    marker = tmp_path / "SPRUNG"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n")
    evil.chmod(0o755)
    repository(work / "sub", x_txt="x\n")
    (work / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "sub")
    git(work / "sub", "config", "filter.e.clean", str(evil))
    (work / "sub/.gitattributes").write_text("* filter=e\n")
    (work / "sub/x.txt").write_text("y\n")
    bench.do(diff)
    assert not marker.exists()
    git(work, "diff")
    assert marker.exists(), "plain git runs it"


def test_a_working_tree_that_names_its_repository_by_a_relative_path_is_known_as_ours(work: Path, bench: Bench) -> None:
    done = bench.act(worktree_add, path="side")
    text = (work / "side/.git").read_text()
    own = text.removeprefix("gitdir: ").strip()
    (work / "side/.git").write_text("gitdir: " + os.path.relpath(own, work / "side") + "\n")
    assert done.undo() == {"changed": True}
    assert not (work / "side").exists()


def test_a_clone_with_a_commit_that_only_a_tag_of_its_own_holds_is_not_taken_back(
    work: Path, bench: Bench, tmp_path: Path
) -> None:
    far = repository(tmp_path / "far", a_txt="x\n")
    git(far, "switch", "-q", "--detach")
    git(far, "commit", "-q", "--allow-empty", "-m", "rel")
    git(far, "tag", "rel")
    git(far, "switch", "-q", "main")
    done = bench.act(clone, url=str(far), path="c")
    git(work / "c", "switch", "-q", "--detach")
    git(work / "c", "commit", "-q", "--allow-empty", "-m", "own")
    git(work / "c", "tag", "own")
    git(work / "c", "switch", "-q", "main")
    with pytest.raises(Failure):
        done.undo()
    git(work / "c", "tag", "-d", "own")
    assert done.undo() == {"changed": True}


def test_a_clone_that_has_further_working_trees_is_not_taken_back(work: Path, bench: Bench, tmp_path: Path) -> None:
    far = repository(tmp_path / "far", a_txt="x\n")
    done = bench.act(clone, url=str(far), path="c")
    git(work / "c", "worktree", "add", "-q", "--detach", str(tmp_path / "elsewhere"))
    with pytest.raises(Failure):
        done.undo()


def test_a_clone_with_changes_that_git_was_told_not_to_look_at_is_not_taken_back(
    work: Path, bench: Bench, tmp_path: Path
) -> None:
    far = repository(tmp_path / "far", a_txt="x\n")
    done = bench.act(clone, url=str(far), path="c")
    git(work / "c", "update-index", "--skip-worktree", "a.txt")
    (work / "c/a.txt").write_text("mine\n")
    with pytest.raises(Failure):
        done.undo()


def test_whoever_looks_at_the_status_while_files_are_switched_disturbs_nothing(
    work: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(work, "switch", "-q", "-c", "other")
    (work / "a.txt").write_text("other\n")
    (work / "new.txt").write_text("new\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "other")
    git(work, "switch", "-q", "main")
    was = tree_state(work)
    real = checkout.move_files

    def looked(*given: Any) -> None:
        os.utime(work / "b.txt", (1, 1))
        git(work, "status")
        real(*given)
        git(work, "status")

    monkeypatch.setattr(checkout, "move_files", looked)
    done = bench.act(switch, ref="other")
    assert git(work, "status", "--porcelain") == ""
    done.undo()
    now = tree_state(work)
    assert now["tree"] == was["tree"] and now["HEAD"] == was["HEAD"]


def test_a_plan_does_not_say_whom_the_user_trusts(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "evil/git").mkdir(parents=True)
    (tmp_path / "evil/git/config").write_text("[safe]\n\tdirectory = /plan\n")
    bench.env = {"XDG_CONFIG_HOME": str(tmp_path / "evil")}
    assert "/plan" not in configuration.user_values(bench.context(), "safe.directory")


def test_a_branch_that_gave_its_name_to_a_folder_of_branches_is_followed_and_taken_back(
    work: Path, bench: Bench, tmp_path: Path
) -> None:
    far = repository(tmp_path / "far", a_txt="x\n")
    git(far, "branch", "a")
    git(work, "remote", "add", "origin", str(far))
    bench.do(fetch)
    git(far, "branch", "-D", "a")
    git(far, "branch", "a/b")
    was = tree_state(work)
    done = bench.act(fetch, prune=True)
    assert "refs/remotes/origin/a/b" in git(work, "for-each-ref")
    done.undo()
    assert tree_state(work) == was


def test_a_fetch_that_was_cut_off_and_done_again_is_taken_back_once(work: Path, bench: Bench, tmp_path: Path) -> None:
    far = repository(tmp_path / "far", a_txt="x\n")
    git(work, "remote", "add", "origin", str(far))
    was = tree_state(work)
    context = bench.context()
    declaration: Any = declaration_of(fetch)
    before = declaration.capture(context)
    noted = {"ref": "refs/remotes/origin/main", "old": "", "new": git(far, "rev-parse", "main")}
    Record(context, slot(context)).write({"updated": [noted]})
    out = fetch(context)
    assert len(out.updated) == 1
    declaration.undo(context, before, out._asdict())
    assert tree_state(work) == was


class Noted(dict[str, Any]):
    """What was captured, and which of it is read."""

    def __init__(self, noted: dict[str, Any]) -> None:
        super().__init__(noted)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)


def test_a_push_notes_what_its_undo_reads_and_nothing_else(work: Path, bench: Bench, tmp_path: Path) -> None:
    far = tmp_path / "far"
    git(tmp_path, "init", "-q", "--bare", str(far))
    git(work, "remote", "add", "origin", str(far))
    git(work, "push", "-q", "origin", "main")
    before_push = git(far, "rev-parse", "main")
    git(work, "commit", "-q", "--allow-empty", "-m", "more")
    context, declaration = bench.context(), declaration_of(push)
    assert declaration is not None and declaration.capture is not None and declaration.undo is not None
    before = Noted(declaration.capture(context))
    out = push(context)
    assert git(far, "rev-parse", "main") != before_push
    declaration.undo(context, before, out._asdict())
    assert git(far, "rev-parse", "main") == before_push
    assert before.read == before.keys()


def test_a_diff_of_any_size_is_cut(work: Path, bench: Bench) -> None:
    (work / "big").write_bytes((b"x" * 99 + b"\n") * 680_000)
    git(work, "add", "-A")
    found = bench.do(diff, staged=True)
    assert found.truncated and len(found.diff) == 200_000


@pytest.fixture
def two(work: Path) -> Path:
    git(work, "switch", "-q", "-c", "other")
    (work / "a.txt").write_text("other\n")
    git(work, "commit", "-q", "-a", "-m", "other")
    git(work, "switch", "-q", "main")
    (work / "c.txt").write_text("new\n")
    return work


STEPS = [(switch, {"ref": "other"}), (add, {"paths": ["c.txt"]}), (commit, {"subject": "s", "paths": ["c.txt"]})]


@pytest.mark.parametrize(("function", "inputs"), STEPS)
@pytest.mark.parametrize("seen", [True, False])
def test_whoever_looks_at_the_status_afterwards_does_not_keep_it_from_being_taken_back(
    two: Path, bench: Bench, function: Any, inputs: Any, seen: bool
) -> None:
    work = two
    was = tree_state(work)
    done = bench.act(function, **inputs)
    index = (work / ".git/index").read_bytes()
    os.utime(work / "b.txt", (1, 1))
    git(work, "status")
    assert (work / ".git/index").read_bytes() != index
    assert done.undo(seen) == {"changed": True}
    assert tree_state(work) == was


def test_an_ignored_link_in_a_folder_that_a_file_would_replace_is_in_the_way(
    two: Path, bench: Bench, tmp_path: Path
) -> None:
    work = two
    git(work, "switch", "-q", "other")
    (work / "d").write_text("d\n")
    (work / ".gitignore").write_text("link\n")
    git(work, "add", "d", ".gitignore")
    git(work, "commit", "-q", "-m", "d")
    git(work, "switch", "-q", "main")
    (work / ".gitignore").write_text("link\n")
    git(work, "add", ".gitignore")
    git(work, "commit", "-q", "-m", "i")
    (work / "d").mkdir()
    (work / "d/link").symlink_to(tmp_path)
    with pytest.raises(Failure, match="untracked files") as caught:
        bench.act(switch, ref="other")
    assert caught.value.failure == "dirty" and (work / "d/link").is_symlink()


@pytest.mark.parametrize("back", [False, True])
def test_a_folder_that_becomes_a_file_and_the_other_way_round_are_taken_back(
    work: Path, bench: Bench, back: bool
) -> None:
    (work / "d").mkdir()
    (work / "d/x").write_text("x\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "folder")
    git(work, "switch", "-q", "-c", "other")
    git(work, "rm", "-q", "-r", "d")
    (work / "d").write_text("d\n")
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "file")
    if not back:
        git(work, "switch", "-q", "main")
    was = tree_state(work)
    done = bench.act(switch, ref="main" if back else "other")
    assert (work / "d").is_dir() == back
    assert done.undo() == {"changed": True}
    assert tree_state(work) == was


def test_the_preview_of_a_branch_that_is_used_as_it_is_makes_none(two: Path, bench: Bench) -> None:
    found = bench.preview(branch, name="other", exists="use")
    assert found.summary.startswith("use the branch other") and found.calls == ()
    assert bench.preview(branch, name="fresh", exists="use").summary.startswith("make the branch fresh")
