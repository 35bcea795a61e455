"""What the capabilities of the family change they show before and take back after: byte for byte, mode for mode."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from files_desk import MUTATING, Desk, declaration, hasty  # noqa: F401 (is used by being there)
from hypothesis import given, settings
from hypothesis import strategies as st

from planrunner.capabilities.builtin import TARGETS
from planrunner.capabilities.contract import Failure, Preview
from planrunner.files import beneath, staged

LEFT_AND_RIGHT = [
    {"path": "docs/a.txt", "search": "two", "replace": "zwei"},
    {"path": "src/b.txt", "search": "2", "replace": "3"},
    {"path": "", "search": "", "replace": "made\n"},
]
DIFF = """\
--- a/docs/a.txt
+++ b/docs/a.txt
@@ -1,3 +1,2 @@
 one
-two
 three
--- a/src/b.txt
+++ /dev/null
@@ -1,2 +0,0 @@
-1
-2
--- /dev/null
+++ b/new/deep/c.txt
@@ -0,0 +1 @@
+see
"""
ACTS: dict[str, tuple[str, dict[str, Any]]] = {
    "append": ("append", {"path": "docs/a.txt", "content": "four\n"}),
    "append to nothing": ("append", {"path": "new/a.txt", "content": "four\n", "parents": True}),
    "copy a file": ("copy", {"path": "docs/a.txt", "to": "new/deep/a.txt", "parents": True}),
    "copy a folder": ("copy", {"path": "docs", "to": "copied"}),
    "copy over a folder": ("copy", {"path": "docs", "to": "src", "replace": True}),
    "copy over a link": ("copy", {"path": "docs/a.txt", "to": "link", "replace": True}),
    "copy a file over a folder": ("copy", {"path": "docs/a.txt", "to": "src", "replace": True}),
    "copy a folder over a file": ("copy", {"path": "docs", "to": "src/b.txt", "replace": True}),
    "delete a file": ("delete", {"path": "docs/a.txt"}),
    "delete a link": ("delete", {"path": "link"}),
    "delete a tree": ("delete", {"path": "docs", "recursive": True}),
    "edit by diff": ("edit", {"diff": DIFF}),
    "edit by blocks": ("edit", {"blocks": [*LEFT_AND_RIGHT[:2], {**LEFT_AND_RIGHT[2], "path": "new/c.txt"}]}),
    "mkdir": ("mkdir", {"path": "new/deep", "parents": True}),
    "mkdir that is there": ("mkdir", {"path": "docs", "mode": "700"}),
    "move a file": ("move", {"path": "docs/a.txt", "to": "new/moved.txt", "parents": True}),
    "move a tree": ("move", {"path": "docs", "to": "moved"}),
    "move over a file": ("move", {"path": "docs/a.txt", "to": "src/b.txt", "replace": True}),
    "template": ("template", {"path": "out.txt", "template": "src/t.txt", "values": {"n": 3}, "mode": "0600"}),
    "write": ("write", {"path": "docs/a.txt", "content": "other\n"}),
    "write with a mode": ("write", {"path": "docs/run.sh", "content": "echo\n", "mode": "600"}),
    "write something new": ("write", {"path": "new/deep/x", "content": "x", "parents": True}),
    "restore": ("restore", {"snapshot": ""}),
}


def filled(folder: Path) -> Desk:
    desk = Desk(folder)
    desk.write("docs/a.txt", "one\ntwo\nthree\n", 0o640)
    desk.write("docs/run.sh", "echo\n", 0o755)
    desk.write("docs/deep/bytes", "\x00\x01")
    (desk.root / "docs/deep/empty").mkdir(mode=0o700)
    desk.write("src/b.txt", "1\n2\n")
    desk.write("src/t.txt", "{% for i in [1, 2] %}{{ i * n }} {% endfor %}\n")
    (desk.root / "link").symlink_to("docs/a.txt")
    (desk.root / "docs/dangling").symlink_to("nowhere")
    return desk


def prepared(folder: Path, act: str) -> tuple[Desk, str, dict[str, Any]]:
    """A desk, and what is done there; a snapshot to restore was taken of another state."""
    desk = filled(folder)
    verb, inputs = ACTS[act]
    if verb == "restore":
        inputs = {"snapshot": desk.do("snapshot")["snapshot"]}
        shutil.rmtree(desk.root / "docs/deep")
        desk.write("docs/a.txt", "changed")
        desk.write("added/x.txt", "added")
        (desk.root / "link").unlink()
        desk.write("link/file", "a folder now")
        (desk.root / "src").chmod(0o700)
        desk.visit += 1
    return desk, verb, inputs


@pytest.fixture(params=["with the calls of the kernel", "without them"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "without them":
        monkeypatch.setattr(beneath, "_syscall", missing)
        monkeypatch.setattr(beneath, "_missing", set())
    yield


def missing(*_: Any) -> int:
    import errno

    raise OSError(errno.ENOSYS, "no such call")


def test_every_capability_that_changes_files_can_show_and_undo_it() -> None:
    for name in TARGETS:
        if name.startswith("files."):
            found = declaration(name.removeprefix("files."))
            changes = name.removeprefix("files.") in (*MUTATING, "artifact")  # which test_files_artifact.py undoes
            assert (found.undo is not None and found.capture is not None) == changes, name
            assert (found.preview is not None) == (changes or name == "files.snapshot"), name
            assert found.effect == ("idempotent" if changes else "read"), name


@pytest.mark.parametrize("act", ACTS)
def test_an_act_is_undone_exactly_whatever_was_seen_of_it(tmp_path: Path, act: str, kernel: None) -> None:
    desk, verb, inputs = prepared(tmp_path, act)
    before = desk.tree()
    noted = desk.capture(verb, **inputs)
    assert desk.tree() == before, "looking changes nothing"
    desk.undo(verb, noted)
    assert desk.tree() == before, "an act that never happened is undone by doing nothing"
    outputs = desk.do(verb, **inputs)
    assert outputs["changed"]
    done = desk.tree()
    assert done != before
    assert desk.do(verb, **inputs) == outputs, "issued again it answers the same"
    assert desk.do(verb, attempt=2, **inputs) == outputs, "and so does another attempt of the same visit"
    assert desk.tree() == done
    desk.undo(verb, noted, outputs)
    assert desk.tree() == before
    desk.undo(verb, noted)
    assert desk.tree() == before, "twice is the same as once"


@pytest.mark.parametrize("act", [act for act in ACTS if "append" not in act])
def test_an_act_that_has_nothing_to_do_says_so(tmp_path: Path, act: str) -> None:
    desk, verb, inputs = prepared(tmp_path, act)
    desk.do(verb, **inputs)
    done = desk.tree()
    assert not desk.fresh(verb, **inputs)["changed"]
    assert desk.tree() == done
    assert desk.capture(verb, **inputs)["changes"] == []
    assert desk.preview(verb, **inputs) == Preview("nothing would change")


@pytest.mark.parametrize("act", ACTS)
def test_a_preview_is_what_git_says_of_the_change(tmp_path: Path, act: str) -> None:
    desk, verb, inputs = prepared(tmp_path, act)
    git = [
        "git",
        "-C",
        str(desk.root),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "-c",
        "core.fileMode=true",
    ]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    shown = desk.preview(verb, **inputs)
    desk.do(verb, **inputs)
    subprocess.run([*git, "add", "-A", "-N"], check=True)
    status = subprocess.run(
        [*git, "diff", "--no-renames", "--name-only"], check=True, capture_output=True
    ).stdout.decode()
    told = {line.split(" b/")[1] for line in shown.diff.splitlines() if line.startswith("diff --git ")}
    assert set(status.split()) <= told
    assert all(not (desk.root / path).is_file() or path in status or "mode" in act for path in told)
    assert shown.summary.split(":")[0]


def test_a_preview_of_a_text_is_a_unified_diff(tmp_path: Path) -> None:
    desk = filled(tmp_path)
    before = desk.tree()
    shown = desk.preview("edit", diff=DIFF)
    assert desk.tree() == before
    assert shown.summary == "1 made, 1 changed, 1 removed: docs/a.txt, src/b.txt, new/deep/c.txt"
    assert "--- a/docs/a.txt\n+++ b/docs/a.txt\n@@ -1,3 +1,2 @@\n one\n-two\n three\n" in shown.diff
    assert "deleted file mode 100644\n--- a/src/b.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-2\n" in shown.diff
    assert "new file mode 100644\n--- /dev/null\n+++ b/new/deep/c.txt\n@@ -0,0 +1 @@\n+see\n" in shown.diff
    assert desk.preview("write", path="docs/deep/bytes", content="x").diff.endswith(
        "Binary files a/docs/deep/bytes and b/docs/deep/bytes differ\n"
    )


def test_an_act_that_failed_at_first_is_undone_as_the_attempt_found_it(tmp_path: Path) -> None:
    desk = filled(tmp_path)
    inputs = {"path": "later/a.txt", "content": "x"}
    noted = desk.capture("write", **inputs)
    with pytest.raises(Failure, match="folder `later` does not exist"):
        desk.do("write", **inputs)
    empty = desk.tree()
    desk.undo("write", noted)
    assert desk.tree() == empty
    desk.write("later/a.txt", "theirs", 0o600)
    before = desk.tree()
    desk.do("write", attempt=2, **inputs)
    desk.undo("write", noted)
    assert desk.tree() == before


@pytest.mark.parametrize("path", ["docs/a.txt", "docs/new.txt"])
def test_what_an_attempt_wrote_is_undone_though_it_was_given_something_else_by_then(tmp_path: Path, path: str) -> None:
    """A text with the time in it is another one when the task begins than it was a moment before."""
    desk = filled(tmp_path)
    before = desk.tree()
    noted = desk.capture("write", path=path, content="at 10:00")
    desk.do("write", path=path, content="at 10:01")
    desk.undo("write", noted)
    assert desk.tree() == before
    desk.visit += 1
    noted = desk.capture("write", path=path, content="at 10:00")
    desk.do("write", path=path, content="at 10:01")
    assert desk.do("write", attempt=2, path=path, content="at 10:02")["changed"]
    desk.undo("write", noted)
    assert desk.tree() == before


def test_a_path_that_was_another_one_when_the_task_began_is_undone(tmp_path: Path) -> None:
    desk = filled(tmp_path)
    before = desk.tree()
    noted = desk.capture("write", path="docs/at-10.txt", content="x")
    desk.do("write", path="docs/at-11.txt", content="x")
    desk.undo("write", noted)
    assert desk.tree() == before


def test_what_somebody_wrote_between_two_attempts_is_not_put_back(tmp_path: Path) -> None:
    desk = filled(tmp_path)
    noted = desk.capture("write", path="src/b.txt", content="one")
    desk.do("write", path="src/b.txt", content="one")
    desk.write("src/b.txt", "theirs")
    desk.do("write", attempt=2, path="src/b.txt", content="two")
    with pytest.raises(Failure, match=r"src/b.txt was changed by another process before the task replaced it"):
        desk.undo("write", noted)


def test_files_too_large_to_compare_are_told_to_differ(tmp_path: Path) -> None:
    desk = filled(tmp_path)
    shown = desk.preview("write", path="docs/a.txt", content="x\n" * 200_000)
    assert shown.diff.endswith("Files a/docs/a.txt and b/docs/a.txt differ\n")


class TestForeignWork:
    @pytest.mark.parametrize("seen", [True, False])
    def test_a_file_that_somebody_changed_since_is_not_put_back(self, tmp_path: Path, seen: bool) -> None:
        desk = filled(tmp_path)
        noted = desk.capture("edit", diff=DIFF)
        outputs = desk.do("edit", diff=DIFF)
        desk.write("docs/a.txt", "theirs")
        after = desk.tree()
        with pytest.raises(Failure, match=r"docs/a.txt was changed by another process since, so it is not put back"):
            desk.undo("edit", noted, outputs if seen else None)
        assert desk.tree() == after, "and nothing else is, either"

    def test_a_file_that_somebody_changed_before_is_not_put_back(self, tmp_path: Path) -> None:
        desk = filled(tmp_path)
        noted = desk.capture("write", path="src/b.txt", content="ours")
        desk.write("src/b.txt", "theirs")
        desk.do("write", path="src/b.txt", content="ours")
        with pytest.raises(Failure, match=r"src/b.txt was changed by another process before the task replaced it"):
            desk.undo("write", noted)
        assert desk.read("src/b.txt") == "ours"

    def test_what_somebody_else_did_before_the_task_could_is_theirs(self, tmp_path: Path) -> None:
        desk = filled(tmp_path)
        noted = desk.capture("write", path="src/b.txt", content="same")
        desk.write("src/b.txt", "same")
        outputs = desk.do("write", path="src/b.txt", content="same")
        assert not outputs["changed"]
        desk.undo("write", noted, outputs)
        assert desk.read("src/b.txt") == "same"

    def test_a_folder_that_holds_something_of_others_stays(self, tmp_path: Path) -> None:
        desk = filled(tmp_path)
        noted = desk.capture("mkdir", path="new/deep", parents=True)
        desk.do("mkdir", path="new/deep", parents=True)
        desk.write("new/deep/theirs", "x")
        with pytest.raises(Failure, match=r"new/deep holds new/deep/theirs, which the task did not make"):
            desk.undo("mkdir", noted)
        assert desk.read("new/deep/theirs") == "x"

    def test_a_folder_that_goes_away_while_the_undo_looks_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from planrunner.capabilities.files import verb

        desk = filled(tmp_path)
        noted = desk.capture("mkdir", path="new/deep", parents=True)
        desk.do("mkdir", path="new/deep", parents=True)
        entries = verb.entries

        def late(*arguments: Any) -> Any:
            (desk.root / "new").rename(desk.root / "away")
            desk.write("new", "theirs")
            return entries(*arguments)

        monkeypatch.setattr(verb, "entries", late)
        with pytest.raises(Failure, match=r"new cannot be looked through: Not a directory"):
            desk.undo("mkdir", noted)
        assert desk.read("new") == "theirs"

    def test_folders_that_were_made_on_the_way_are_shared(self, tmp_path: Path) -> None:
        desk = filled(tmp_path)
        before = desk.tree()
        inputs = [{"path": f"new/deep/{name}", "content": name, "parents": True} for name in "ab"]
        noted = []
        for each in inputs:
            desk.visit += 1
            noted.append((desk.visit, desk.capture("write", **each)))
        for (desk.visit, _), each in zip(noted, inputs, strict=True):
            desk.do("write", **each)
        for desk.visit, found in reversed(noted):
            desk.undo("write", found)
        assert desk.tree() == before

    def test_a_file_somebody_writes_while_it_is_replaced_is_put_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from planrunner.files import staged

        desk = filled(tmp_path)
        swap = staged._swap

        def late(*arguments: Any) -> None:
            monkeypatch.setattr(staged, "_swap", swap)
            desk.write("src/b.txt", "theirs")
            swap(*arguments)

        monkeypatch.setattr(staged, "_swap", late)
        before = {**desk.tree(), "src/b.txt": ("file", 0o644, b"theirs")}
        with pytest.raises(Failure, match=r"src/b.txt was changed by another process meanwhile"):
            desk.do("write", path="src/b.txt", content="ours")
        assert desk.tree() == before

    @pytest.mark.parametrize("count", range(6))
    def test_an_error_at_any_switch_leaves_everything_as_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
    ) -> None:

        desk = filled(tmp_path)
        before, left = desk.tree(), [count]

        def failing(original: Any) -> Any:
            def act(*arguments: Any) -> None:
                left[0] -= 1
                if left[0] == -1:
                    raise OSError(28, "No space left on device")
                original(*arguments)

            return act

        for name in ("_put", "_take_away"):
            monkeypatch.setattr(staged, name, failing(getattr(staged, name)))
        if count < 5:
            with pytest.raises(Failure, match="No space left on device"):
                desk.do("edit", diff=DIFF)
            assert desk.tree() == before
        else:
            desk.do("edit", diff=DIFF)
            assert left[0] >= 0, "there are no more switches than this"


NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a", "f"])
TEXTS = st.sampled_from(["", "x\n", "x\ny\n", "x\r\ny\r\n", "x", "ü\n\n", "1\n2\n3\n4\n5\n6\n7\n8\n"])
MODES = st.sampled_from([0o600, 0o644, 0o755, 0o444])
FILES = st.dictionaries(NAMES, st.tuples(TEXTS, MODES), max_size=6)


def acts() -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    places = st.sampled_from(["a", "b", "d", "d/e", "d/a", "f", "g/h"])
    blocks = st.lists(
        st.fixed_dictionaries({"path": NAMES, "search": TEXTS, "replace": TEXTS}, optional={"all": st.booleans()}),
        min_size=1,
        max_size=3,
    )
    flags = st.booleans()
    moved = st.fixed_dictionaries({"path": places, "to": places, "replace": flags, "parents": flags})
    return st.one_of(
        st.tuples(st.just("edit"), st.fixed_dictionaries({"blocks": blocks})),
        st.tuples(st.sampled_from(["copy", "move"]), moved),
        st.tuples(st.just("delete"), st.fixed_dictionaries({"path": places, "recursive": flags})),
        st.tuples(
            st.just("mkdir"),
            st.fixed_dictionaries({"path": places, "parents": flags}, optional={"mode": st.just("0750")}),
        ),
        st.tuples(
            st.sampled_from(["write", "append"]),
            st.fixed_dictionaries({"path": places, "content": TEXTS, "parents": flags}),
        ),
    )


def laid_out(desk: Desk, files: dict[str, tuple[str, int]]) -> None:
    for path, (text, mode) in files.items():
        if not any((desk.root / parent).is_file() for parent in Path(path).parents):
            desk.write(path, text, mode)


@settings(max_examples=60)
@given(FILES, st.lists(acts(), min_size=1, max_size=4))
def test_acts_undone_in_turn_leave_the_tree_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, tuple[str, int]],
    todo: list[tuple[str, dict[str, Any]]],
) -> None:
    folder = tmp_path_factory.mktemp("acts")
    desk = Desk(folder)
    laid_out(desk, files)
    trees, noted = [desk.tree()], []
    for verb, inputs in todo:
        desk.visit += 1
        try:
            before = desk.capture(verb, **inputs)
            desk.do(verb, **inputs)
        except Failure:
            assert desk.tree() == trees[-1], "what fails changes nothing"
            continue
        noted.append((desk.visit, verb, before))
        trees.append(desk.tree())
    for visit, verb, before in reversed(noted):
        assert desk.tree() == trees.pop()
        desk.visit = visit
        desk.undo(verb, before)
    assert desk.tree() == trees[0]
    shutil.rmtree(folder)


@settings(max_examples=30)
@given(FILES, FILES)
def test_a_restored_snapshot_is_the_tree_that_was(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[str, tuple[str, int]],
    others: dict[str, tuple[str, int]],
) -> None:
    folder = tmp_path_factory.mktemp("snapshots")
    desk = Desk(folder)
    laid_out(desk, files)
    before = desk.tree()
    kept = desk.do("snapshot")["snapshot"]
    for each in list(desk.root.iterdir()):
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    laid_out(desk, others)
    after = desk.tree()
    noted = desk.capture("restore", snapshot=kept)
    desk.do("restore", snapshot=kept)
    assert desk.tree() == before
    assert desk.fresh("snapshot")["snapshot"] == kept
    desk.visit -= 1
    desk.undo("restore", noted)
    assert desk.tree() == after
    shutil.rmtree(folder)


def test_a_folder_that_is_replaced_while_an_undo_looks_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)
    desk.write("sub/kept", "x")
    noted = desk.capture("mkdir", path="sub/new")
    desk.do("mkdir", path="sub/new")
    fits = staged.fits

    def replaced(*given: Any) -> bool:
        found = fits(*given)
        if (desk.root / "sub").is_dir():
            (desk.root / "sub").rename(desk.root / "elsewhere")
            desk.write("sub", "a file by now")
        return found

    monkeypatch.setattr(staged, "fits", replaced)
    assert desk.undo("mkdir", noted) == {"changed": False, "restored": 0}
    assert desk.read("sub") == "a file by now" and desk.read("elsewhere/kept") == "x"
