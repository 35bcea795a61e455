"""How the files of a checkpoint are read: what is read again and what is not, and what cannot be kept."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from planrunner.engine import backups
from planrunner.engine.backups import INDEX, taken
from planrunner.engine.effects import TakeCheckpoint
from planrunner.errors import StorageFailed
from planrunner.files import snapshot
from planrunner.files.listing import fits, matching
from planrunner.files.snapshot import Manifest, changes
from planrunner.files.walk import FileState
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.machine.events import CheckpointAsked, CheckpointTaken

OLD = 1_600_000_000


class Tree:
    """A folder to keep, and the state beside it."""

    def __init__(self, root: Path, state: Path) -> None:
        self.root = root
        self.state = state

    def keep(self, *patterns: str, since: str = "") -> CheckpointTaken:
        asked = CheckpointAsked("a", 1, 1, 0, patterns, since)
        found = taken(str(self.state), TakeCheckpoint(asked, str(self.root)))
        assert isinstance(found, CheckpointTaken), found
        return found

    def states(self, found: CheckpointTaken) -> dict[str, FileState]:
        return snapshot.read(ArtifactStore(str(self.state)), found.files).states

    def index(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.state / INDEX).read_text())["files"]
        return found


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    state.mkdir()
    return Tree(root, state)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file counts as settled at once: nobody wants to wait for two seconds here."""
    monkeypatch.setattr(backups, "SETTLED", -1_000_000_000_000)


def test_the_same_tree_has_the_same_manifest(tree: Tree) -> None:
    (tree.root / "a").write_text("a")
    first = tree.keep()
    again = tree.keep(since=first.files)
    assert (again.files, again.added, again.changed, again.removed) == (first.files, 0, 0, 0)


def test_a_file_that_has_just_changed_is_read_again(tree: Tree) -> None:
    path = tree.root / "a"
    path.write_text("one")
    os.utime(path, (OLD, OLD))  # the time of its content lies; that of the inode cannot
    tree.keep()
    assert tree.index() == {}
    stat = path.stat()
    path.write_text("two")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert ArtifactStore(str(tree.state)).read(tree.states(tree.keep())["a"].sha256) == b"two"


def test_a_file_that_is_as_it_was_is_not_read_again(tree: Tree, quick: None) -> None:
    path = tree.root / "a"
    path.write_text("one")
    tree.keep()
    marks = tree.index()["a"]
    wrong = ArtifactStore(str(tree.state)).keep_bytes(b"what the index says")["sha256"]
    index = json.loads((tree.state / INDEX).read_text())
    index["files"]["a"] = [*marks[:-1], wrong]
    (tree.state / INDEX).write_text(json.dumps(index))
    assert tree.states(tree.keep())["a"].sha256 == wrong  # believed, and so not read
    os.utime(path)
    assert ArtifactStore(str(tree.state)).read(tree.states(tree.keep())["a"].sha256) == b"one"


def test_an_index_of_another_folder_or_a_damaged_one_is_not_believed(tree: Tree, quick: None) -> None:
    (tree.root / "a").write_text("one")
    first = tree.keep()
    for text in ("", "[]", '{"files": 3}', json.dumps({"directory": "/elsewhere", "files": tree.index()})):
        (tree.state / INDEX).write_text(text)
        assert tree.keep().files == first.files


def test_content_that_the_store_has_lost_is_kept_again(tree: Tree, quick: None) -> None:
    (tree.root / "a").write_text("one")
    sha256 = tree.states(tree.keep())["a"].sha256
    store = ArtifactStore(str(tree.state))
    os.unlink(store.path_of(sha256))
    assert tree.states(tree.keep())["a"].sha256 == sha256
    assert store.read(sha256) == b"one"


def test_checkpoints_with_paths_leave_the_rest_of_the_index_alone(tree: Tree, quick: None) -> None:
    (tree.root / "a").write_text("a")
    (tree.root / "out").mkdir()
    (tree.root / "out" / "b").write_text("b")
    tree.keep()
    tree.keep("out/**")
    assert sorted(tree.index()) == ["a", "out/b"]
    (tree.root / "a").unlink()
    tree.keep()
    assert sorted(tree.index()) == ["out/b"]


def test_the_state_links_and_insides_of_git_are_not_followed_or_kept(tmp_path: Path) -> None:
    root = tmp_path / "root"
    state = root / "deep" / "state"
    state.mkdir(parents=True)
    (state / "journal").write_text("x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(".")
    (root / "sub" / ".git").mkdir(parents=True)
    (root / "sub" / ".git" / "config").write_text("x")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "s"))
        os.mkfifo(root / "pipe")
        tree = Tree(root, state)
        found = tree.states(tree.keep())
    assert {path: piece.kind for path, piece in found.items()} == {
        "deep": "folder",
        "out": "link",
        "loop": "link",
        "sub": "folder",
    }
    assert found["out"].target == str(tmp_path / "outside")
    assert tree.keep("deep/**").held == 0


def test_too_many_files_are_a_problem_and_nothing_is_kept(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "MOST", 3)
    for name in "abcd":
        (tree.root / name).write_text(name)
    found = tree.keep()
    assert (found.files, found.problem) == ("", "there are more than 3 files: name those to keep with `paths`")
    assert tree.keep("a").files


def test_too_many_bytes_are_a_problem_and_nothing_is_kept(tree: Tree) -> None:
    with (tree.root / "sparse").open("wb") as file:
        file.truncate(backups.LARGEST + 1)
    found = tree.keep()
    assert found.files == "" and "bytes are more than 2,147,483,648" in found.problem


def test_what_cannot_be_looked_at_is_told_and_the_rest_is_kept(tree: Tree) -> None:
    (tree.root / "a").write_text("a")
    at = os.open(tree.root, os.O_RDONLY)
    for _ in range(25):  # deeper than a path can say
        os.mkdir("d" * 200, dir_fd=at)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    found = tree.keep()
    assert "cannot be read: File name too long" in found.problem
    pieces = tree.states(found)
    assert pieces["a"].kind == "file"
    assert [piece.kind for piece in pieces.values()].count("unread") == 1


def test_a_folder_that_is_gone_is_a_problem(tree: Tree) -> None:
    tree.root.rmdir()
    assert "cannot be read" in tree.keep().problem


def test_a_store_that_cannot_be_written_is_no_checkpoint(tree: Tree) -> None:
    (tree.root / "a").write_text("a")
    (tree.state / "artifacts").write_text("in the way")
    effect = TakeCheckpoint(CheckpointAsked("a", 1, 1), str(tree.root))
    assert isinstance(taken(str(tree.state), effect), StorageFailed)


def test_a_lost_manifest_before_makes_a_first_checkpoint(tree: Tree) -> None:
    (tree.root / "a").write_text("a")
    found = tree.keep(since="0" * 64)
    assert (found.since, found.added) == ("", 0)


def test_what_could_not_be_read_is_no_change() -> None:
    before = Manifest(
        (), {"a": FileState("file", 0o644, 1, "x"), "b": FileState("unread"), "c": FileState("link", target="x")}
    )
    after = Manifest(
        (), {"a": FileState("unread"), "b": FileState("folder", 0o755), "c": FileState("link", target="y")}
    )
    assert changes(before, after) == ((), ("c",), ())


@pytest.mark.parametrize("pattern", ["out", "out/**", "*.txt", "**/*.txt", "out/*/x", "a?", "**", "deep/**/x", "[ab]*"])
def test_a_path_fits_a_pattern_exactly_where_the_search_finds_it(pattern: str, tmp_path: Path) -> None:
    for path in ("out/a.txt", "out/in/x", "a1", "b.txt", "deep/x", "deep/er/x", "deep/er/y/z.txt", "out.txt/k"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    found = set(matching(str(tmp_path), pattern))
    every = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert found == {path for path in every if fits(path, pattern)}
