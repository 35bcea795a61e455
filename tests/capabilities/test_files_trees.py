"""Finding, copying, moving, removing, keeping and rendering, in particular where it does not work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from files_desk import MUTATING, Desk, function, hasty  # noqa: F401 (is used by being there)
from hypothesis import given
from hypothesis import strategies as st

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.files.inputs import written
from planrunner.files.match import files
from planrunner.files.walk import Patterns


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    for path in (
        "src/a.py",
        "src/deep/b.py",
        "src/deep/c.txt",
        "src/.hidden.py",
        ".config/x.py",
        ".git/config",
        "top.py",
    ):
        desk.write(path, path)
    (desk.root / "src/link.py").symlink_to("a.py")
    return desk


class TestGlob:
    @pytest.mark.parametrize(
        ("patterns", "more", "found"),
        [
            ("*.py", {}, ["top.py"]),
            ("**/*.py", {}, ["src/a.py", "src/deep/b.py", "top.py"]),
            ("**", {}, ["src/a.py", "src/deep/b.py", "src/deep/c.txt", "top.py"]),
            ("src/**", {"kind": "any"}, ["src/a.py", "src/deep", "src/deep/b.py", "src/deep/c.txt", "src/link.py"]),
            ("src/**", {"kind": "folder"}, ["src/deep"]),
            ("**/*", {"kind": "link"}, ["src/link.py"]),
            ("src/*.py", {"hidden": True}, ["src/.hidden.py", "src/a.py"]),
            ("src/.*", {}, ["src/.hidden.py"]),
            (["*.py", "src/deep/?.[!t]*"], {}, ["src/deep/b.py", "top.py"]),
            ("**", {"exclude": ["src/deep", "*.py"]}, ["src/a.py"]),
            (".git/**", {"hidden": True}, []),
            ("gone/**", {}, []),
        ],
    )
    def test_patterns_find_what_they_say(
        self, desk: Desk, patterns: Any, more: dict[str, Any], found: list[str]
    ) -> None:
        told = desk.do("glob", patterns=patterns, **more)
        assert told["paths"] == found
        assert told["number"] == len(found)

    def test_sizes_and_digests_are_told(self, desk: Desk) -> None:
        told = desk.do("glob", patterns="top.py", sha256=True)
        assert told["size"] == 6
        assert told["files"] == [{"path": "top.py", "kind": "file", "size": 6, "sha256": told["files"][0]["sha256"]}]
        assert told["files"][0]["sha256"] == desk.do("read", path="top.py")["sha256"]

    def test_more_than_the_limit_is_a_failure(self, desk: Desk) -> None:
        with pytest.raises(Failure, match="more than 2 paths fit"):
            desk.do("glob", patterns="**", limit=2)

    @pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../../b"])
    def test_a_pattern_that_leads_out_is_refused(self, desk: Desk, pattern: str) -> None:
        with pytest.raises(Failure, match="leads out of the working directory") as failed:
            desk.do("glob", patterns=pattern)
        assert failed.value.failure == "policy"

    def test_odd_patterns_and_kinds_are_refused(self, desk: Desk) -> None:
        for inputs, why in (
            ({"patterns": ""}, "is not a pattern"),
            ({"patterns": "a" + "*b" * 9}, "more than 8 stars"),
            ({"patterns": "*", "kind": "pipe"}, "`kind` must be"),
        ):
            with pytest.raises(Failure, match=why):
                desk.do("glob", **inputs)


@given(
    st.lists(st.sampled_from(["a", "b", "*", "**", "?"]), min_size=1, max_size=6),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=6),
)
def test_patterns_mean_what_pathlib_means(parts: list[str], names: list[str]) -> None:
    """A plain search through all ways is the model."""
    path = "/".join(names)

    def fits(pattern: list[str], rest: list[str]) -> bool:
        if not pattern:
            return not rest
        if pattern[0] == "**":
            if len(pattern) == 1:
                return bool(rest)
            return fits(pattern[1:], rest) or (bool(rest) and fits(pattern, rest[1:]))
        return bool(rest) and (pattern[0] in ("*", "?") or pattern[0] == rest[0]) and fits(pattern[1:], rest[1:])

    found = Patterns(["/".join(parts)], True)
    assert found.fits(path) == fits(parts, names)
    if found.fits(path):
        assert all(found.enters("/".join(names[:count])) for count in range(1, len(names)))


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.txt", ["a.txt"]),
        ("**/*.txt", ["a.txt", "in/b.txt", "in/deep/c.txt", "link/c.txt"]),
        ("in/**", ["in/b.txt", "in/deep/c.txt"]),
        (".*/*", [".hidden/d.txt"]),
        ("x/../in/[ab].txt", ["in/b.txt"]),
        ("in/deep/c.txt", ["in/deep/c.txt"]),
        ("not there", ["not there"]),
        ("../*", ["../*"]),
    ],
)
def test_files_of_a_pattern_are_found_through_links_and_without_hidden_ones(
    tmp_path: Path, pattern: str, found: list[str]
) -> None:
    for path in ("a.txt", "in/b.txt", "in/deep/c.txt", ".hidden/d.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "link").symlink_to("in/deep")
    (tmp_path / "in/deep/back").symlink_to(tmp_path)
    assert files(str(tmp_path), pattern) == found


class TestTrees:
    def test_a_folder_is_copied_with_links_and_permissions(self, desk: Desk) -> None:
        (desk.root / "src/a.py").chmod(0o750)
        told = desk.do("copy", path="src", to="out/copy", parents=True)
        assert told == {"path": "out/copy", "changed": True, "files": 5}
        assert (desk.root / "out/copy/link.py").readlink() == Path("a.py")
        assert (desk.root / "out/copy/a.py").stat().st_mode & 0o777 == 0o750
        assert not desk.fresh("copy", path="src", to="out/copy")["changed"]
        desk.write("out/copy/extra", "x")
        with pytest.raises(Failure, match="out/copy is there already; `replace: true` replaces it"):
            desk.fresh("copy", path="src", to="out/copy")
        desk.fresh("copy", path="src", to="out/copy", replace=True)
        assert not (desk.root / "out/copy/extra").exists()

    def test_a_move_keeps_the_file_itself(self, desk: Desk) -> None:
        before = (desk.root / "src/deep/b.py").stat()
        desk.do("move", path="src/deep", to="moved")
        after = (desk.root / "moved/b.py").stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        assert not (desk.root / "src/deep").exists()

    def test_what_is_not_there_is_neither_moved_nor_copied(self, desk: Desk) -> None:
        for verb in ("move", "copy"):
            with pytest.raises(Failure, match="gone is not there"):
                desk.fresh(verb, path="gone", to="new")
        with pytest.raises(Failure, match="lie in each other"):
            desk.fresh("move", path="src", to="src/deep/src")
        with pytest.raises(Failure, match="folder `no/such` does not exist"):
            desk.fresh("move", path="src", to="no/such/folder")

    def test_a_folder_with_something_in_it_is_deleted_only_on_request(self, desk: Desk) -> None:
        with pytest.raises(Failure, match="`recursive: true` removes it with all of that"):
            desk.do("delete", path="src")
        assert desk.fresh("delete", path="src", recursive=True) == {"path": "src", "changed": True, "removed": 7}
        assert desk.fresh("delete", path="src") == {"path": "src", "changed": False, "removed": 0}

    def test_pipes_and_sockets_are_left_alone(self, desk: Desk) -> None:
        os.mkfifo(desk.root / "src/pipe")
        before = sorted(os.listdir(desk.root / "src"))
        for verb, inputs in (("delete", {"path": "src", "recursive": True}), ("copy", {"path": "src", "to": "new"})):
            with pytest.raises(Failure, match="src/pipe is not a regular file"):
                desk.fresh(verb, **inputs)
        assert sorted(os.listdir(desk.root / "src")) == before
        assert "src/pipe" not in desk.fresh("glob", patterns="**")["paths"]
        assert desk.fresh("snapshot")["files"] == 6

    def test_a_folder_is_not_made_over_a_file(self, desk: Desk) -> None:
        with pytest.raises(Failure, match=r"top.py is there already, and is a file"):
            desk.do("mkdir", path="top.py")
        with pytest.raises(Failure, match=r"leads through `top.py`, which is a file"):
            desk.fresh("mkdir", path="top.py/x", parents=True)


class TestSnapshot:
    def test_what_the_patterns_leave_out_is_left_as_it_is(self, desk: Desk) -> None:
        kept = desk.do("snapshot", path="src", patterns="**/*.py", exclude="deep")["snapshot"]
        desk.write("src/a.py", "new")
        desk.write("src/z.py", "new")
        desk.write("src/deep/b.py", "new")
        desk.write("src/note.txt", "new")
        assert desk.fresh("restore", path="src", snapshot=kept) == {"changed": True, "written": 1, "removed": 1}
        assert desk.read("src/a.py") == "src/a.py"
        assert desk.read("src/deep/b.py") == desk.read("src/note.txt") == "new"

    def test_a_snapshot_is_restored_elsewhere(self, desk: Desk) -> None:
        kept = desk.do("snapshot", path="src")["snapshot"]
        desk.fresh("restore", path="far/away", snapshot=kept)
        assert desk.read("far/away/deep/b.py") == "src/deep/b.py"
        desk.fresh("delete", path="src", recursive=True)
        desk.fresh("move", path="far/away", to="src")
        assert desk.fresh("snapshot", path="src")["snapshot"] == kept

    def test_a_snapshot_is_restored_in_its_own_folder_where_no_other_is_named(self, desk: Desk) -> None:
        before = desk.tree()
        kept = desk.do("snapshot", path="src/deep")["snapshot"]
        desk.write("src/deep/b.py", "new")
        desk.write("src/deep/more.py", "new")
        assert "src/deep/more.py" in desk.preview("restore", snapshot=kept).diff
        assert desk.fresh("restore", snapshot=kept) == {"changed": True, "written": 1, "removed": 1}
        assert desk.tree() == before

    @pytest.mark.parametrize(("taken", "restored"), [("src", ""), ("", "src"), ("src", "src/deep")])
    def test_the_own_folder_of_a_snapshot_does_not_depend_on_where_a_task_works(
        self, desk: Desk, taken: str, restored: str
    ) -> None:
        path = os.path.relpath("src/deep", taken) if taken else "src/deep"
        before = desk.tree()
        kept = function("snapshot")(desk.context(cwd=taken), path=path).snapshot
        desk.write("src/deep/b.py", "new")
        desk.visit += 1
        function("restore")(desk.context(cwd=restored), snapshot=kept)
        assert desk.tree() == before

    def test_a_snapshot_of_a_folder_out_of_reach_is_restored_only_where_one_is_named(self, desk: Desk) -> None:
        kept = desk.do("snapshot", path="src/deep")["snapshot"]
        before = desk.tree()
        restore, context = function("restore"), desk.context(cwd=".config")
        with pytest.raises(Failure, match=r"is of src/deep, outside .* `path` says where to put it") as failed:
            restore(context, snapshot=kept)
        assert failed.value.failure == "policy"
        assert desk.tree() == before
        assert restore(context, snapshot=kept, path="here").written == 3

    def test_a_snapshot_that_names_no_folder_is_restored_only_where_one_is_named(self, desk: Desk) -> None:
        head = b'{"entries":[],"exclude":[],"format":1,"offsets":{},"patterns":["**"]}\n'
        kept = desk.context().keep(head, "snapshot")["sha256"]
        before = desk.tree()
        with pytest.raises(Failure, match="`path` says where to put it"):
            desk.do("restore", snapshot=kept)
        assert desk.tree() == before
        assert desk.fresh("restore", snapshot=kept, path=".config")["changed"]

    def test_what_is_no_snapshot_is_told(self, desk: Desk) -> None:
        other = desk.context().keep(b"[1, 2]", "other")["sha256"]
        with pytest.raises(Failure, match="is not a snapshot that this version reads"):
            desk.do("restore", snapshot=other)
        with pytest.raises(Failure, match="the store has no artifact"):
            desk.do("restore", snapshot="0" * 64)
        with pytest.raises(Failure, match="gone is not there"):
            desk.do("snapshot", path="gone")
        with pytest.raises(Failure, match=r"top.py is a file, and a folder is needed"):
            desk.do("snapshot", path="top.py")


class TestTemplate:
    def test_values_fill_the_template_of_a_file(self, desk: Desk) -> None:
        desk.write("page.j2", "{% for one in items %}{{ one.name | upper }};{% endfor %}\n")
        told = desk.do("template", path="out.txt", template="page.j2", values={"items": [{"name": "a"}, {"name": "b"}]})
        assert desk.read("out.txt") == "A;B;\n"
        assert told["changed"]

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("{{ missing }}", "`missing` is not defined here"),
            ("{{ a.b }}", "has no `b`"),
            ("{{ ''.__class__ }}", "has no `__class__`"),
            ("{% include 'x' %}", "templates have no `include`"),
            ("{{ a", "does not parse|never closed"),
        ],
    )
    def test_what_cannot_be_rendered_writes_nothing(self, desk: Desk, text: str, why: str) -> None:
        with pytest.raises(Failure, match=f"the text cannot be rendered: .*({why})"):
            desk.do("template", path="out.txt", text=text, values={"a": {}})
        assert not (desk.root / "out.txt").exists()

    def test_values_are_never_templates(self, desk: Desk) -> None:
        desk.do("template", path="out.txt", text="{{ a }}\n", values={"a": "{{ b }}"})
        assert desk.read("out.txt") == "{{ b }}\n"

    def test_a_template_comes_from_one_place(self, desk: Desk) -> None:
        for inputs in ({}, {"text": "a", "template": "b"}):
            with pytest.raises(Failure, match="either `template`"):
                desk.do("template", path="out.txt", **inputs)
        with pytest.raises(Failure, match="outside the working directory"):
            desk.do("template", path="out.txt", template="../x")


class TestAppend:
    def test_text_is_added_once_a_visit(self, desk: Desk) -> None:
        for attempt in (1, 1, 2):
            assert desk.do("append", attempt=attempt, path="top.py", content="+")["changed"]
        assert desk.read("top.py") == "top.py+"
        desk.fresh("append", path="top.py", content="+")
        assert desk.read("top.py") == "top.py++"

    def test_text_is_appended_once_even_where_others_append_as_well(self, desk: Desk) -> None:
        desk.visit += 1
        desk.do("append", path="top.py", content="+")
        with open(desk.root / "top.py", "ab") as file:
            file.write(b"theirs")
        after = (desk.root / "top.py").read_bytes()
        assert desk.do("append", attempt=2, path="top.py", content="+")["changed"]
        assert (desk.root / "top.py").read_bytes() == after


@pytest.mark.parametrize("verb", [*MUTATING, "glob", "snapshot"])
def test_an_attempt_that_is_stopped_changes_nothing(desk: Desk, verb: str) -> None:
    inputs: dict[str, dict[str, Any]] = {
        "append": {"path": "top.py", "content": "x"},
        "copy": {"path": "src", "to": "new"},
        "delete": {"path": "src", "recursive": True},
        "edit": {"blocks": [{"path": "top.py", "search": "top", "replace": "new"}]},
        "mkdir": {"path": "new"},
        "move": {"path": "src", "to": "new"},
        "restore": {"snapshot": desk.do("snapshot")["snapshot"]},
        "template": {"path": "new", "text": "x"},
        "write": {"path": "new", "content": "x"},
        "glob": {"patterns": "**"},
        "snapshot": {},
    }
    desk.write("src/later", "x")
    before = desk.tree()
    with pytest.raises(Failure, match="stopped"):
        function(verb)(desk.context()._replace(cancelled=lambda: True), **inputs[verb])
    assert desk.tree() == before


def test_the_paths_that_a_call_says_it_writes_are_known_before() -> None:
    diff = "--- a/x\t1\n+++ b/x\n@@\n-a\n+b\n--- a/gone\n+++ /dev/null\n@@\n-a\n"
    assert written("files.edit", {"diff": diff}) == ["x", "gone"]
    assert written("files.edit", {"blocks": [{"path": "a"}, {"path": "{{ b }}"}, {"path": "a"}, 1]}) == ["a", "{{ b }}"]
    assert written("files.move", {"path": "a", "to": "b"}) == ["a", "b"]
    assert written("files.copy", {"path": "a", "to": "b"}) == ["b"]
    assert written("files.write", {"path": "a"}) == ["a"]


@pytest.mark.parametrize(
    ("verb", "inputs"), [("read", {"path": "a"}), ("glob", {"patterns": "*"}), ("delete", {"path": "a"})]
)
def test_a_working_directory_that_is_gone_is_told(desk: Desk, verb: str, inputs: dict[str, Any]) -> None:
    desk.root.rename(desk.root.with_name("elsewhere"))
    with pytest.raises(Failure, match="the working directory cannot be opened: No such file or directory"):
        desk.do(verb, **inputs)
