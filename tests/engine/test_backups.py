"""Files saved before a task starts and put back when it is rolled back, on a real disk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from planrunner.engine.backups import put_back, save
from planrunner.engine.effects import Restore
from planrunner.failures import Failure
from planrunner.files.listing import matching


class Bench:
    """A run's directory and its state directory."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.state = self.root / ".planrunner"
        self.state.mkdir(parents=True)

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def save(self, *patterns: str) -> Restore:
        files = save(str(self.state), str(self.root), patterns)
        return Restore("t", 1, str(self.root), patterns, files)

    def put_back(self, what: Restore) -> dict[str, int]:
        outcome = put_back(str(self.state), what)
        assert not outcome.failure, outcome.message
        return outcome.outputs

    def tree(self) -> dict[str, tuple[str, int]]:
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if name.startswith(".planrunner"):
                continue
            mode = stat.S_IMODE(path.lstat().st_mode)
            if path.is_symlink():
                found[name] = (f"-> {os.readlink(path)}", 0)
            else:
                found[name] = ("folder" if path.is_dir() else path.read_text(), mode)
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_content_permissions_links_and_folders_are_put_back_exactly(bench: Bench) -> None:
    bench.write("out/a", "one", 0o640)
    bench.write("out/deep/b", "two", 0o755)
    bench.write("out/gone", "three")
    (bench.root / "out" / "link").symlink_to("a")
    (bench.root / "out" / "empty").mkdir(mode=0o700)
    before = bench.tree()
    kept = bench.save("out/**")
    bench.write("out/a", "changed", 0o600)
    os.unlink(bench.root / "out" / "gone")
    (bench.root / "out" / "deep" / "b").unlink()
    (bench.root / "out" / "deep").rmdir()
    bench.write("out/deep", "a file where a folder was")
    (bench.root / "out" / "link").unlink()
    bench.write("out/link", "a file where a link was")
    (bench.root / "out" / "empty").rmdir()
    bench.write("out/new/thing", "was not there")
    bench.put_back(kept)
    assert bench.tree() == before


def test_putting_back_twice_changes_nothing(bench: Bench) -> None:
    bench.write("a", "one")
    kept = bench.save("a", "b")
    bench.write("a", "two")
    bench.write("b", "new")
    assert bench.put_back(kept)["changed"] == 2
    assert bench.put_back(kept)["changed"] == 0
    assert set(bench.tree()) == {"a"}


def test_what_was_not_there_is_removed_and_what_does_not_fit_is_left(bench: Bench) -> None:
    kept = bench.save("made", "logs/*.log")
    bench.write("made", "x")
    bench.write("logs/run.log", "x")
    bench.write("logs/keep.txt", "x")
    bench.put_back(kept)
    assert set(bench.tree()) == {"logs", "logs/keep.txt"}


def test_a_pattern_that_leads_out_or_through_a_link_is_refused(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    (bench.root / "door").symlink_to(tmp_path)
    for pattern in ("../secret", "/etc/passwd", "door/secret", "a/../../secret", "."):
        with pytest.raises(Failure):
            bench.save(pattern)
    assert list(matching(str(bench.root), "*/secret")) == [], "a pattern does not follow links"


def test_a_link_put_on_the_way_afterwards_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    bench.write("out/a", "one")
    kept = bench.save("out/a")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("untouched")
    (bench.root / "out" / "a").unlink()
    (bench.root / "out").rmdir()
    (bench.root / "out").symlink_to(outside)
    outcome = put_back(str(bench.state), kept)
    assert outcome.failure
    assert (outside / "a").read_text() == "untouched"


def test_a_link_in_place_of_a_file_is_replaced_and_not_written_through(bench: Bench, tmp_path: Path) -> None:
    bench.write("a", "one")
    kept = bench.save("a")
    (tmp_path / "other").write_text("untouched")
    (bench.root / "a").unlink()
    (bench.root / "a").symlink_to(tmp_path / "other")
    bench.put_back(kept)
    assert (bench.root / "a").read_text() == "one"
    assert not (bench.root / "a").is_symlink()
    assert (tmp_path / "other").read_text() == "untouched"


def test_what_planrunner_keeps_is_neither_saved_nor_removed(bench: Bench) -> None:
    bench.write(".planrunner/journal.db", "the journal")
    bench.write("a", "one")
    kept = bench.save("**")
    assert [record["path"] for record in kept.files] == ["a"]
    bench.write(".planrunner/later", "x")
    bench.put_back(kept)
    assert (bench.root / ".planrunner" / "later").exists()


def test_a_damaged_copy_is_not_put_back(bench: Bench) -> None:
    bench.write("a", "one")
    bench.write("b", "two")
    kept = bench.save("a", "b")
    copy = next(path for path in (bench.state / "artifacts").rglob("*") if path.is_file() and path.read_text() == "one")
    copy.chmod(0o644)
    copy.write_text("bad")
    bench.write("a", "changed")
    bench.write("b", "changed")
    outcome = put_back(str(bench.state), kept)
    assert "missing or damaged" in outcome.message
    assert (bench.root / "a").read_text() == "changed"
    assert (bench.root / "b").read_text() == "two", "the others are put back all the same"
