"""Checkpoints from the command line: files of every kind are kept, shown and put back."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from planrunner import errors

if TYPE_CHECKING:
    from conftest import Project

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

MAKE = r"""
rm -rf src empty 'with space' came secret link
mkdir -p src/deep empty 'with space'
echo one > src/one.txt
echo same > src/same.txt
echo go > run.sh; chmod 755 run.sh
ln -s src/one.txt link
printf a > "$(printf 'new\nline')"
printf b > "$(printf 'bad\377name')"
printf c > 'with space/c d'
chmod 750 src/deep
printf '#!' > secret; chmod 600 secret
"""
SPOIL = r"""
echo two > src/one.txt
chmod 644 run.sh
rm link; ln -s nowhere link
rm "$(printf 'new\nline')"
printf changed > "$(printf 'bad\377name')"
rm -r 'with space' empty
mkdir -p came/since; echo x > came/since/file; ln -s .. came/up
rm secret; mkdir secret; echo y > secret/y
rm -r src/deep; echo file > src/deep
"""


def making(project: Project, **keys: Any) -> dict[bytes, Any]:
    """A run whose first task makes files and keeps them, and whose second spoils them; gives how they were between."""
    project.plan(
        {"id": "make", "run": MAKE, "checkpoint": True},
        {"id": "look", "needs": ["make"], "run": "true"},
        {"id": "spoil", "needs": ["look"], "run": SPOIL + "exit 1\n"},
        **keys,
    )
    project.run("exec", "plan.json", "--until", "look")
    before = project.tree()
    project.run("exec", "plan.json", code=errors.FAILED)
    return before


def test_everything_is_as_it_was_after_files_are_put_back(project: Project) -> None:
    before = making(project)
    assert project.tree() != before
    done = project.run("fork", "last", "--from", "make", "--restore-files", "--yes")
    assert project.tree() == before, done.err
    assert "remove came/since/file: added since" in done.err
    assert "write src/one.txt: its content differs" in done.err
    assert "write run.sh: its mode is not 755" in done.err
    assert "write secret: it is another kind of file" in done.err
    assert "write new\\nline: it is missing" in done.err
    assert "write bad\\udcffname: its content differs" in done.err
    again = project.run("fork", "last", "--from", "make", "--restore-files")  # the new run knows the same places
    assert "no file has to be restored" in again.err


def test_what_is_overwritten_or_removed_is_kept_first(project: Project) -> None:
    making(project)
    (project.folder / "precious").write_text("precious\n")
    (project.folder / "src" / "same.txt").write_text("mine\n")
    project.run("fork", "last", "--from", "make", "--restore-files", "--yes")
    kept = {path.read_bytes() for path in (project.state / "artifacts" / "sha256").rglob("*") if path.is_file()}
    assert {b"precious\n", b"mine\n", b"two\n", b"x\n", b"y\n"} <= kept
    assert not (project.folder / "precious").exists()


def test_without_a_yes_nothing_changes_and_no_run_is_made(project: Project) -> None:
    making(project)
    spoilt, runs = project.tree(), project.run("runs", "--json").out
    done = project.run("resume", "last", "--from", "make", "--restore-files", code=errors.USAGE)
    assert "remove came" in done.err and "--yes" in done.err
    assert (project.tree(), project.run("runs", "--json").out) == (spoilt, runs)


def test_who_does_not_ask_for_the_files_is_told_that_they_differ(project: Project) -> None:
    making(project)
    spoilt = project.tree()
    done = project.run("fork", "last", "--from", "make")
    assert "paths differ from the checkpoint: --restore-files lists and restores them" in done.err
    assert project.tree() == spoilt


def test_a_resumed_run_goes_on_with_the_files_of_the_checkpoint(project: Project) -> None:
    project.plan(
        {"id": "a", "run": "echo 1 > n", "checkpoint": True},
        {"id": "b", "needs": ["a"], "run": "echo $(($(cat n) + 1)) > n; cat n >> log; exit 0"},
        {"id": "c", "needs": ["b"], "run": "cat n > seen"},
    )
    project.run("exec", "plan.json")
    project.run("resume", "last", "--from", "a")
    assert (project.folder / "seen").read_text() == "3\n"  # files were left as they are
    done = project.run("resume", project.first_run(), "--from", "a", "--restore-files", "--yes")
    assert (project.folder / "seen").read_text() == "2\n", done.err
    assert (project.folder / "log").read_text() == "2\n"  # the log came after the checkpoint
    assert "replays exactly" in project.run("replay", "last").out


def test_a_checkpoint_without_files_of_its_own_takes_those_of_the_nearest_before(project: Project) -> None:
    before = making(project)
    done = project.run("fork", "last", "--from", "look", "--restore-files", "--yes")
    assert project.tree() == before, done.err
    assert project.data("checkpoints", "last", "look")["files"]["own"] is False


def test_artifacts_of_tasks_after_the_checkpoint_are_newer_than_it(project: Project) -> None:
    project.plan(
        {"id": "a", "run": "echo a > f; echo a > g", "checkpoint": True, "artifacts": ["f"]},
        {"id": "b", "needs": ["a"], "run": "echo b > f", "artifacts": ["f"]},
        {"id": "c", "needs": ["b"], "run": "echo c > f; echo c > g"},
    )
    project.run("exec", "plan.json")
    project.run("fork", "last", "--from", "b", "--restore-files", "--yes")
    assert ((project.folder / "f").read_text(), (project.folder / "g").read_text()) == ("b\n", "a\n")
    project.run("fork", project.first_run(), "--from", "a", "--restore-files", "--yes")
    assert (project.folder / "f").read_text() == "a\n"


def test_a_checkpoint_with_paths_leaves_everything_else_alone(project: Project) -> None:
    project.plan(
        {"id": "a", "run": "mkdir out; echo a > out/a; echo a > other", "checkpoint": {"paths": ["out/**"]}},
        {"id": "b", "needs": ["a"], "run": "echo b > out/a; echo b > out/b; echo b > other; echo b > new"},
        {"id": "c", "needs": ["b"], "run": "true"},
    )
    project.run("exec", "plan.json")
    project.run("fork", "last", "--from", "a", "--restore-files", "--yes")
    assert (project.folder / "out" / "a").read_text() == "a\n"
    assert not (project.folder / "out" / "b").exists()
    assert ((project.folder / "other").read_text(), (project.folder / "new").exists()) == ("b\n", True)


def test_paths_and_everything_make_one_picture(project: Project) -> None:
    project.plan(
        {"id": "a", "run": "mkdir out; echo a > out/f; echo a > g; echo a > out/gone", "checkpoint": True},
        {"id": "b", "needs": ["a"], "run": "echo b > out/f; echo b > g; rm out/gone", "checkpoint": {"paths": ["out"]}},
        {"id": "c", "needs": ["b"], "run": "echo c > out/f; echo c > g; echo c > out/gone"},
    )
    project.run("exec", "plan.json")
    project.run("fork", "last", "--from", "b", "--restore-files", "--yes")
    assert ((project.folder / "out" / "f").read_text(), (project.folder / "g").read_text()) == ("b\n", "a\n")
    assert not (project.folder / "out" / "gone").exists()


def test_fifteen_rounds_are_kept_every_five(project: Project) -> None:
    draft = {"id": "draft", "run": "echo {{ loop.round }} > draft.txt"}
    project.plan(
        {"id": "polish", "loop": {"max": 15, "until": "loop.round >= 12", "checkpoint": 5, "tasks": [draft]}},
        {"id": "end", "needs": ["polish"], "run": "true"},
    )
    project.run("exec", "plan.json")
    listed = {one["task"]: one for one in project.data("checkpoints", "last")["checkpoints"] if one["files"]}
    assert list(listed) == ["polish#5", "polish#10"]
    project.run("resume", "last", "--from", "polish#5", "--restore-files", "--yes")
    assert (project.folder / "draft.txt").read_text() == "12\n"
    lines = [json.loads(line) for line in project.run("events", "last", "--json").out.splitlines()]
    assert [line["number"] for line in lines if line["type"] == "frame_opened"] == list(range(1, 13))
    forked = next(at for at, line in enumerate(lines) if line["type"] == "run_forked")
    assert lines[forked - 1]["type"] == "attempt_started" and lines[forked - 1]["task"] == "polish#6/draft"


def test_what_a_checkpoint_holds_is_shown(project: Project) -> None:
    project.plan(
        {
            "id": "a",
            "run": 'echo a > f; echo old > g; echo "count=3" >> "$PLANRUNNER_OUTPUT"',
            "outputs": {"count": "int"},
            "expect": ["exit_code == 0", "outputs.count > 2"],
            "artifacts": ["f"],
            "checkpoint": True,
        },
        {"id": "ok", "gate": "approval", "needs": ["a"], "ask": "go?"},
        {"id": "b", "needs": ["ok"], "run": "rm f; echo b > g; echo b > h", "checkpoint": True},
        {"id": "c", "needs": ["b"], "run": "true"},
        params={"who": {"type": "string", "default": "ada"}},
    )
    project.run("exec", "plan.json", code=errors.WAITING)
    project.run("approve", "last", "ok", "--reason", "looks good", "--as", "grace")
    project.run("resume", "last")
    found = project.data("checkpoints", "last", "b")
    assert found["params"] == {"who": "ada"}
    assert found["outputs"]["a"] == {"count": 3}
    assert [(one["task"], one["path"]) for one in found["artifacts"]] == [("a", "f")]
    assert [(one["decision"], one["by"], one["reason"]) for one in found["decisions"]] == [
        ("approved", ["grace"], "looks good")
    ]
    assert [(one["criterion"], one["holds"]) for one in found["evidence"]] == [
        ("exit_code == 0", True),
        ("outputs.count > 2", True),
    ]
    files = found["files"]
    assert (files["added"], files["changed"], files["removed"]) == (["h"], ["g"], ["f"])
    assert files["since"] == project.data("checkpoints", "last", "a")["checkpoint"]
    assert found["environment"]["planrunner"] and found["environment"]["python"]
    text = project.run("checkpoints", "last", "b").out
    assert "added h" in text and "ok approved by grace: looks good" in text and "a.count = 3" in text
    listed = project.run("checkpoints", "last").out.splitlines()
    assert listed[0].split() == ["checkpoint", "entry", "completed", "files", "changes"]
    assert [line.split()[-3:] for line in listed if line.startswith("cp-b")] == [["+1", "~1", "-1"]]
    assert [line.split()[-1] for line in listed if line.startswith("cp-a")] == ["first"]


def test_an_unknown_checkpoint_has_a_nearest_name(project: Project) -> None:
    making(project)
    assert "did you mean `make`?" in project.run("checkpoints", "last", "mak3", code=errors.NO_PLAN).err


def test_a_checkpoint_that_the_run_ended_with_can_be_looked_at_only(project: Project) -> None:
    project.plan({"id": "a", "run": "echo a > f", "checkpoint": True})
    project.run("exec", "plan.json")
    assert project.data("checkpoints", "last", "a")["files"]["held"] == 2
    assert "nothing is left to continue with" in project.run("fork", "last", "--from", "a", code=errors.USAGE).err


@needs_git
def test_what_git_ignores_is_neither_kept_nor_touched(project: Project) -> None:
    project.git("init", "-q")
    (project.folder / ".gitignore").write_text("*.log\nbuild/\n!kept.log\n.planrunner/\n")
    (project.folder / "tracked.txt").write_text("1\n")
    project.git("add", "-A")
    project.git("commit", "-qm", "first")
    project.plan(
        {"id": "a", "run": "mkdir build; echo a > build/x; echo a > a.log; echo a > kept.log", "checkpoint": True},
        {
            "id": "b",
            "needs": ["a"],
            "run": "echo b > build/x; echo b > a.log; echo b > kept.log; git rm -q tracked.txt",
        },
        {"id": "c", "needs": ["b"], "run": "true"},
    )
    project.run("exec", "plan.json")
    found = project.data("checkpoints", "last", "a")["files"]
    assert found["git"] == {"head": project.git("rev-parse", "HEAD"), "branch": "main"}
    project.run("fork", "last", "--from", "a", "--restore-files", "--yes")
    read = {name: (project.folder / name).read_text() for name in ("build/x", "a.log", "kept.log", "tracked.txt")}
    assert read == {"build/x": "b\n", "a.log": "b\n", "kept.log": "a\n", "tracked.txt": "1\n"}


@needs_git
def test_a_repository_without_a_commit_is_called_so(project: Project) -> None:
    project.git("init", "-q", "-b", "main")
    project.plan({"id": "a", "run": "true", "checkpoint": True})
    project.run("exec", "plan.json")
    assert "git without a commit on main" in project.run("checkpoints", "last", "a").out


@needs_git
def test_a_repository_of_its_own_inside_is_kept_by_its_own_rules(project: Project) -> None:
    project.git("init", "-q")
    inner = project.folder / "inner"
    inner.mkdir()
    (inner / ".gitignore").write_text("*.tmp\n")
    project.git("-C", "inner", "init", "-q")
    project.plan(
        {"id": "a", "run": "echo a > inner/x.tmp; echo a > inner/x.txt", "checkpoint": True},
        {
            "id": "b",
            "needs": ["a"],
            "run": "echo b > inner/x.tmp; echo b > inner/x.txt; git init -q came; echo c > came/c",
        },
        {"id": "c", "needs": ["b"], "run": "true"},
    )
    project.run("exec", "plan.json")
    project.run("fork", "last", "--from", "a", "--restore-files", "--yes")
    assert ((inner / "x.tmp").read_text(), (inner / "x.txt").read_text()) == ("b\n", "a\n")
    assert (project.folder / "came" / "c").read_text() == "c\n"  # a repository that came since is nobody's to remove


def test_without_git_everything_is_kept(project: Project) -> None:
    (project.folder / ".git").mkdir()
    (project.folder / ".gitignore").write_text("*.log\n")
    project.plan({"id": "a", "run": "echo a > a.log", "checkpoint": True}, {"id": "b", "needs": ["a"], "run": "true"})
    project.run("exec", "plan.json")
    found = project.data("checkpoints", "last", "a")["files"]
    assert (found["held"], found["git"], found["problem"]) == (3, {}, "")


def test_what_cannot_be_read_is_told_and_left_alone(project: Project) -> None:
    at = os.open(project.folder, os.O_RDONLY)
    for _ in range(25):  # deeper than a path can say
        os.mkdir("d" * 200, dir_fd=at)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("end", os.O_WRONLY | os.O_CREAT, dir_fd=at))
    project.plan(
        {"id": "a", "run": "echo a > f", "checkpoint": True},
        {"id": "b", "needs": ["a"], "run": "echo b > f"},
        {"id": "c", "needs": ["b"], "run": "true"},
    )
    done = project.run("exec", "plan.json")
    assert "the checkpoint of a does not hold every file: d" in done.err
    assert "cannot be read: File name too long" in done.err
    assert "does not hold every file" in project.run("show", "last").out
    assert "(not whole)" in project.run("checkpoints", "last").out
    again = project.run("fork", "last", "--from", "a", "--restore-files", "--yes")
    assert "it could not be read then" in again.err
    assert (project.folder / "f").read_text() == "a\n"
    assert os.listdir(at) == ["end"]
    os.close(at)


def test_a_folder_that_has_become_a_link_is_a_folder_again_and_what_it_leads_to_is_left(project: Project) -> None:
    outside = project.folder.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("a\n")
    (outside / "g").write_text("theirs\n")
    project.plan(
        {"id": "a", "run": "mkdir in; echo a > in/f; echo a > in/g", "checkpoint": True},
        {"id": "b", "needs": ["a"], "run": "rm -r in; ln -s ../outside in"},
        {"id": "c", "needs": ["b"], "run": "true"},
    )
    project.run("exec", "plan.json")
    project.run("fork", "last", "--from", "a", "--restore-files", "--yes")
    assert not (project.folder / "in").is_symlink()
    assert {path.name: path.read_text() for path in (project.folder / "in").iterdir()} == {"f": "a\n", "g": "a\n"}
    assert (outside / "g").read_text() == "theirs\n"


def test_a_store_that_is_full_parks_the_run_and_nothing_is_lost(project: Project) -> None:
    project.plan(
        {"id": "a", "run": "echo a >> log", "checkpoint": True, "effect": "idempotent"},
        {"id": "b", "needs": ["a"], "run": "true"},
    )
    (project.folder / "large").write_bytes(os.urandom(3 << 20))

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))

    command = [sys.executable, "-m", "planrunner", "exec", "plan.json"]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, preexec_fn=small, check=False)
    assert done.returncode == errors.STORAGE
    assert "the artifact store" in done.stderr and "cannot be written" in done.stderr
    assert "checkpoint_taken" not in project.run("events", "last").out
    project.run("resume", "last")
    found = project.data("checkpoints", "last", "a")
    assert found["files"]["held"] == 3 and (project.folder / "log").read_text() == "a\n"


def test_a_dry_run_keeps_nothing(project: Project) -> None:
    project.plan({"id": "a", "run": "echo a > f", "checkpoint": True}, {"id": "b", "needs": ["a"], "run": "true"})
    project.run("exec", "plan.json", "--dry-run")
    assert not (project.state / "artifacts").exists()


def test_what_is_lost_from_the_store_is_told_and_the_rest_is_put_back(project: Project) -> None:
    making(project)
    found = project.data("checkpoints", "last", "make")["files"]
    whole = project.state / "artifacts" / "sha256" / found["manifest"][:2] / found["manifest"][2:]
    listed = json.loads(whole.read_bytes())
    lost = next(row for row in listed["pieces"] if row[0] == "src/one.txt")[4]
    (project.state / "artifacts" / "sha256" / lost[:2] / lost[2:]).unlink()
    done = project.run("fork", "last", "--from", "make", "--restore-files", "--yes")
    assert "leave out src/one.txt: its content is not in the store any more" in done.err
    assert (project.folder / "src" / "one.txt").read_text() == "two\n"
    whole.unlink()
    project.run("fork", "last", "--from", "make", "--restore-files", "--yes", code=errors.NO_PLAN)


def test_the_last_task_of_a_run_is_listed_like_every_other(project: Project) -> None:
    project.plan({"id": "only", "run": "echo x=1 > $PLANRUNNER_OUTPUT"})
    project.run("exec", "plan.json")
    listed = project.run("checkpoints", "last").out
    assert "cp-only-" in listed and "the end" in listed
    refused = project.run("fork", "last", code=errors.USAGE).err
    assert "nothing is left to continue with" in refused
    project.plan({"id": "only", "run": "exit 1"})
    project.run("exec", "plan.json", code=errors.FAILED)
    assert "no task completed" in project.run("checkpoints", "last").err
