"""No path leads out of the working directory, and none into what belongs to git or planrunner."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from files_desk import Desk, hasty, tree  # noqa: F401 (is used by being there)
from hypothesis import given
from hypothesis import strategies as st
from test_files_undo import missing

from planrunner.capabilities.contract import Failure
from planrunner.files import beneath
from planrunner.files.beneath import Beneath, steps
from planrunner.journal.sqlite import open_journal

WAYS_OUT = {
    "..": "outside",
    "../outside/file": "outside",
    "sub/../../outside/file": "outside",
    "/etc/passwd": "outside",
    "link/file": "link",
    "sub/link/file": "link",
    "absolute/file": "link",
    ".": "working directory itself",
    ".git/config": "plans do not write to",
    "sub/.git": "plans do not write to",
    "sub/.Git/hooks/x": "plans do not write to",
    ".planrunner/journal.db": "plans do not write to",
    "planrunner.yaml": "plans do not write to",
    "sub/Planrunner.YAML": "plans do not write to",
    "kept/state/journal.db": "plans do not write to",
}


@pytest.fixture(params=["openat2", "one step after the other"])
def desk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    if request.param != "openat2":
        monkeypatch.setattr(beneath, "_syscall", missing)
        monkeypatch.setattr(beneath, "_missing", set())
    desk = Desk(tmp_path)
    desk.state = desk.root / "kept/state"
    open_journal(str(desk.state)).close()
    desk.write("sub/file", "one\ntwo\n")
    desk.write("from", "text")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("one\ntwo\n")
    (desk.root / "link").symlink_to("../outside")
    (desk.root / "sub/link").symlink_to("../../outside")
    (desk.root / "absolute").symlink_to(tmp_path / "outside")
    yield desk


def uses_of(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("append", {"path": path, "content": "x", "parents": True}),
        ("copy", {"path": "from", "to": path, "replace": True, "parents": True}),
        ("copy", {"path": path, "to": "new"}),
        ("delete", {"path": path, "recursive": True}),
        ("edit", {"blocks": [{"path": path, "search": "two", "replace": "zwei"}]}),
        ("edit", {"diff": f"--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"}),
        ("mkdir", {"path": path, "parents": True}),
        ("move", {"path": "from", "to": path, "replace": True, "parents": True}),
        ("move", {"path": path, "to": "new"}),
        ("restore", {"path": path, "snapshot": "0" * 64}),
        ("template", {"path": path, "text": "x", "parents": True}),
        ("write", {"path": path, "content": "x", "parents": True}),
    ]


@pytest.mark.parametrize("path", WAYS_OUT)
def test_nothing_is_written_there(desk: Desk, path: str) -> None:
    before = tree(desk.root.parent)
    before = {name: entry for name, entry in before.items() if "kept" not in name}
    for verb, inputs in uses_of(path):
        if verb == "restore" and (path == "." or WAYS_OUT[path] == "link"):
            continue  # a whole working directory may be restored; for links see below
        assert "late" in desk.capture(verb, **inputs)
        for act in (desk.fresh,) if "state" in path else (desk.fresh, desk.preview):
            with pytest.raises(Failure) as failed:
                act(verb, **inputs)
            assert failed.value.failure == "policy", (verb, str(failed.value))
    after = {name: entry for name, entry in tree(desk.root.parent).items() if "kept" not in name}
    assert after == before


def test_a_snapshot_is_not_restored_through_a_link(desk: Desk) -> None:
    kept = desk.do("snapshot", path="sub")["snapshot"]
    before = tree(desk.root.parent / "outside")
    for path in ("link", "sub/link", "link/deeper", "absolute"):
        with pytest.raises(Failure):
            desk.fresh("restore", path=path, snapshot=kept)
    assert tree(desk.root.parent / "outside") == before


def test_a_folder_that_holds_a_repository_is_neither_moved_nor_copied_nor_deleted(desk: Desk) -> None:
    desk.write("clone/.git/config", "x")
    before = {path: entry for path, entry in desk.tree().items() if "kept" not in path}
    for verb, inputs in (
        ("delete", {"path": "clone", "recursive": True}),
        ("copy", {"path": "clone", "to": "new"}),
        ("move", {"path": "clone", "to": "new"}),
    ):
        with pytest.raises(Failure, match=r"plans do not write to `.git`: "):
            desk.fresh(verb, **inputs)
    found = {path: entry for path, entry in desk.tree().items() if "kept" not in path}
    assert found == before


def test_another_name_of_a_file_outside_is_parted_from_it(desk: Desk) -> None:
    outside = desk.root.parent / "outside/file"
    before = tree(desk.root.parent / "outside")
    for verb, inputs in (
        ("write", {"content": "new"}),
        ("write", {"content": "one\ntwo\n", "mode": "0600"}),
        ("append", {"content": "new"}),
        ("edit", {"blocks": [{"path": "twin", "search": "two", "replace": "zwei"}]}),
        ("delete", {}),
    ):
        (desk.root / "twin").unlink(missing_ok=True)
        os.link(outside, desk.root / "twin")
        desk.fresh(verb, **(inputs if "blocks" in inputs else {"path": "twin", **inputs}))
        assert tree(desk.root.parent / "outside") == before


class TestRead:
    def test_links_are_followed_inside(self, desk: Desk) -> None:
        (desk.root / "inner").symlink_to("sub/../sub/./file")
        (desk.root / "chain").symlink_to("inner")
        (desk.root / "sub/up").symlink_to("../from")
        (desk.root / "folder").symlink_to("sub")
        assert desk.do("read", path="chain")["content"] == "one\ntwo\n"
        assert desk.do("read", path="sub/up")["content"] == "text"
        assert desk.do("read", path="folder/up")["content"] == "text"
        (desk.root / "whole").symlink_to(desk.root / "sub/file")
        assert desk.do("read", path="whole")["content"] == "one\ntwo\n"

    @pytest.mark.parametrize("path", ["../outside/file", "link/file", "sub/link/file", "absolute/file", "/etc/passwd"])
    def test_no_path_leads_out(self, desk: Desk, path: str) -> None:
        with pytest.raises(
            Failure, match=r"outside the working directory|leads out of the working directory"
        ) as failed:
            desk.do("read", path=path)
        assert failed.value.failure == "policy"

    def test_a_path_that_goes_up_and_comes_back_is_told_how_it_is_written(self, desk: Desk) -> None:
        for path in ("./sub/../sub/file", str(desk.root / "sub/../sub/file")):
            try:
                assert desk.do("read", path=path)["content"] == "one\ntwo\n"
            except Failure as failed:
                assert failed.failure == "policy"
                assert str(failed).endswith("goes up with `..`, and no path does: write `sub/file`")
                assert path.startswith(".")

    def test_links_in_a_circle_and_links_to_nothing_are_told(self, desk: Desk) -> None:
        (desk.root / "one").symlink_to("other")
        (desk.root / "other").symlink_to("one")
        (desk.root / "none").symlink_to("gone")
        with pytest.raises(Failure, match="one cannot be read: Too many levels of symbolic links"):
            desk.do("read", path="one")
        with pytest.raises(Failure, match="none cannot be read: No such file or directory"):
            desk.do("read", path="none")

    def test_magic_links_are_not_followed(self, desk: Desk) -> None:
        (desk.root / "magic").symlink_to("/proc/self/" + "root/etc/passwd")
        with pytest.raises(Failure):
            desk.do("read", path="magic")


PARTS = st.lists(st.sampled_from(["a", "b", "..", ".", "", "link", "sub"]), min_size=1, max_size=7)


@given(PARTS, st.booleans())
def test_whatever_a_path_is_made_of_it_stays_inside_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], absolute: bool
) -> None:
    folder = tmp_path_factory.getbasetemp() / "paths"
    if not folder.exists():
        (folder / "in/sub").mkdir(parents=True)
        (folder / "in/sub/link").symlink_to("../..")
        (folder / "in/link").symlink_to("..")
        (folder / "b").write_text("outside")
        (folder / "in/b").write_text("inside")
        (folder / "in/sub/b").write_text("inside")
    path = "/".join(parts)
    if absolute:
        path = f"{folder}/in/{path}"
    with Beneath(str(folder / "in")) as tree:
        try:
            names = steps(tree.directory, path)
            assert ".." not in names
            handle = tree.open_to_read(path)
        except (Failure, OSError):
            return
        try:
            assert os.readlink(f"/proc/self/fd/{handle}").startswith(f"{folder}/in")
        finally:
            os.close(handle)


def test_a_state_folder_with_capital_letters_is_left_out_of_a_snapshot(desk: Desk) -> None:
    desk.state = desk.root / "State"
    open_journal(str(desk.state)).close()
    (desk.root / "a.txt").write_text("as it was")
    found = desk.do("snapshot", patterns=["a.txt", "State/**"])
    assert found["files"] == 1
    (desk.state / "told").write_text("goes on")
    (desk.root / "a.txt").write_text("changed")
    desk.fresh("restore", snapshot=found["snapshot"])
    assert (desk.root / "a.txt").read_text() == "as it was"
    assert (desk.state / "told").read_text() == "goes on"
