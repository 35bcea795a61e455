"""``files.edit``: diffs and blocks as people, tools and models write them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from files_desk import Desk, hasty  # noqa: F401 (is used by being there)
from hypothesis import given
from hypothesis import strategies as st

from planrunner.capabilities.contract import Failure
from planrunner.files.patch import Misfit, apply_hunks, parse_diff

SONG = "".join(f"line {number}\n" for number in range(1, 21))
DIFF = """\
--- a/song.txt
+++ b/song.txt
@@ -3,5 +3,6 @@ where it stands
 line 3
 line 4
-line 5
+line five
+and a half
 line 6
 line 7
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.write("song.txt", SONG)
    return desk


def after(text: str = SONG) -> str:
    return text.replace("line 5\n", "line five\nand a half\n")


class TestDiff:
    def test_a_diff_changes_the_file_and_tells_so(self, desk: Desk) -> None:
        told = desk.do("edit", diff=DIFF)
        assert desk.read("song.txt") == after()
        assert told["changed"]
        assert told["files"] == [{"path": "song.txt", "changed": True, "exists": True, "first_line": 5, "lines": 2}]

    def test_applied_before_it_changes_nothing(self, desk: Desk) -> None:
        desk.do("edit", diff=DIFF)
        before = (desk.root / "song.txt").stat().st_ino
        assert not desk.fresh("edit", diff=DIFF)["changed"]
        assert desk.read("song.txt") == after()
        assert (desk.root / "song.txt").stat().st_ino == before

    @pytest.mark.parametrize(
        "head",
        [
            "@@ -3,9 +3,1 @@", "@@ -3 +3 @@", "@@ -1,5 +1,6 @@", "@@ -300,5 +300,6 @@", "@@ ... @@", "@@",
            "@@ def line():",
        ],
    )  # fmt: skip
    def test_miscounted_and_misplaced_hunks_go_where_their_context_fits(self, desk: Desk, head: str) -> None:
        desk.do("edit", diff=DIFF.replace("@@ -3,5 +3,6 @@ where it stands", head))
        assert desk.read("song.txt") == after()

    def test_lines_of_context_that_lost_their_space_are_empty_lines(self, desk: Desk) -> None:
        desk.write("song.txt", "a\n\nb\n\nc\n")
        desk.do("edit", diff="--- a/song.txt\n+++ b/song.txt\n@@ -1,5 +1,5 @@\n a\n\n-b\n+B\n\n c\n")
        assert desk.read("song.txt") == "a\n\nB\n\nc\n"

    def test_text_around_a_diff_is_no_part_of_it(self, desk: Desk) -> None:
        mail = f"From: ana\nSubject: a change\n\nIt is better.\n---\n song.txt | 3 ++-\n\n{DIFF}-- \n2.39.5\n\n"
        desk.do("edit", diff=mail)
        assert desk.read("song.txt") == after()
        desk.write("song.txt", SONG)
        desk.fresh("edit", diff=f"Here you are:\n```diff\n{DIFF}```\n")
        assert desk.read("song.txt") == after()

    def test_a_hunk_that_shifted_is_found(self, desk: Desk) -> None:
        desk.write("song.txt", "new\n" * 7 + SONG)
        desk.do("edit", diff=DIFF)
        assert desk.read("song.txt") == "new\n" * 7 + after()

    def test_a_hunk_that_fits_in_two_places_and_not_at_its_own_is_refused(self, desk: Desk) -> None:
        desk.write("song.txt", SONG + SONG)
        with pytest.raises(Failure, match=r"hunk 1 .* fits at lines 3, 23, and not at the line it names"):
            desk.do("edit", diff=DIFF.replace("@@ -3,5 +3,6", "@@ -9,5 +9,6"))
        desk.fresh("edit", diff=DIFF.replace("@@ -3,5 +3,6", "@@ -23,5 +23,6"))
        assert desk.read("song.txt") == SONG + after()

    def test_a_hunk_that_fits_nowhere_names_the_line_and_the_nearest_place(self, desk: Desk) -> None:
        with pytest.raises(Failure) as failed:
            desk.do("edit", diff=DIFF.replace(" line 6", " line six"))
        assert str(failed.value) == (
            "song.txt: hunk 1 (`@@ -3,5 +3,6 @@ where it stands`) does not fit: nearest is line 3; "
            "expected `line six` at line 6, found `line 6`"
        )
        with pytest.raises(Failure, match="they differ in white space alone"):
            desk.do("edit", diff=DIFF.replace(" line 6", "   line 6"))
        with pytest.raises(Failure, match="none of its lines is in the text, which has 20 lines"):
            desk.do("edit", diff="--- a/song.txt\n+++ b/song.txt\n@@ -1,2 +1 @@\n-x\n y\n")
        assert desk.read("song.txt") == SONG

    def test_two_hunks_the_second_of_which_fails_change_nothing(self, desk: Desk) -> None:
        with pytest.raises(Failure, match="hunk 2"):
            desk.do("edit", diff=DIFF + "@@ -18,2 +19,2 @@\n line 18\n-line 20\n+last\n")
        assert desk.read("song.txt") == SONG

    def test_files_end_their_lines_as_before(self, desk: Desk) -> None:
        desk.write("song.txt", SONG.replace("\n", "\r\n"))
        desk.do("edit", diff=DIFF)
        assert desk.read("song.txt") == after().replace("\n", "\r\n")
        assert not desk.fresh("edit", diff=DIFF)["changed"]
        desk.write("song.txt", SONG.replace("\n", "\r\n"))
        desk.fresh("edit", diff=DIFF.replace("\n", "\r\n"))
        assert desk.read("song.txt") == after().replace("\n", "\r\n")
        desk.write("song.txt", SONG)
        desk.fresh("edit", diff=DIFF.replace("\n", "\r\n"))
        assert desk.read("song.txt") == after()

    def test_mixed_line_ends_stay_where_nothing_changes(self, desk: Desk) -> None:
        mixed = "line 3\r\nline 4\r\nline 5\r\nline 6\nline 7\r\n"
        desk.write("song.txt", mixed)
        desk.do("edit", diff=DIFF)
        assert desk.read("song.txt") == "line 3\r\nline 4\r\nline five\r\nand a half\r\nline 6\nline 7\r\n"

    def test_a_diff_may_change_the_line_ends_themselves(self, desk: Desk) -> None:
        desk.write("song.txt", "a\nb\nc\n")
        desk.do("edit", diff="--- a/song.txt\n+++ b/song.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+b\r\n c\n")
        assert desk.read("song.txt") == "a\nb\r\nc\n"

    def test_the_end_of_the_last_line_is_as_the_diff_says(self, desk: Desk) -> None:
        bare = "\\ No newline at end of file\n"
        desk.write("song.txt", "a\nb")
        desk.do("edit", diff=f"--- a/song.txt\n+++ b/song.txt\n@@ -1,2 +1,2 @@\n a\n-b\n{bare}+c\n{bare}")
        assert desk.read("song.txt") == "a\nc"
        desk.fresh("edit", diff=f"--- a/song.txt\n+++ b/song.txt\n@@ -1,2 +1,2 @@\n a\n-c\n{bare}+c\n")
        assert desk.read("song.txt") == "a\nc\n"
        desk.fresh("edit", diff=f"--- a/song.txt\n+++ b/song.txt\n@@ -1,2 +1,2 @@\n a\n-c\n+d\n{bare}")
        assert desk.read("song.txt") == "a\nd"

    def test_files_are_made_removed_and_renamed(self, desk: Desk) -> None:
        desk.write("old.sh", "echo\n", 0o755)
        desk.write("gone.txt", "1\n2\n")
        diff = (
            "diff --git a/new/deep/file.txt b/new/deep/file.txt\nnew file mode 100644\n--- /dev/null\n"
            "+++ b/new/deep/file.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
            "diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n"
            "@@ -1,2 +0,0 @@\n-1\n-2\n"
            "diff --git a/old.sh b/new.sh\nsimilarity index 50%\nrename from old.sh\nrename to new.sh\n"
            "--- a/old.sh\n+++ b/new.sh\n@@ -1 +1,2 @@\n echo\n+echo 2\n"
            "diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n"
        )
        for changed in (True, False):
            assert desk.fresh("edit", diff=diff)["changed"] is changed
            assert desk.read("new/deep/file.txt") == "one\ntwo\n"
            assert desk.read("new.sh") == "echo\necho 2\n"
            assert (desk.root / "new.sh").stat().st_mode & 0o777 == 0o755
            assert desk.read("empty") == ""
            assert sorted(path.name for path in desk.root.iterdir()) == ["empty", "new", "new.sh", "song.txt"]

    def test_a_new_file_is_never_put_over_another(self, desk: Desk) -> None:
        diff = "--- /dev/null\n+++ b/song.txt\n@@ -0,0 +1 @@\n+one\n"
        with pytest.raises(Failure, match=r"song.txt is there already, with other content"):
            desk.do("edit", diff=diff)

    def test_a_file_is_removed_only_with_all_of_its_lines(self, desk: Desk) -> None:
        with pytest.raises(Failure, match=r"song.txt: the diff removes the file but not all of its lines"):
            desk.do("edit", diff="--- a/song.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-line 1\n-line 2\n")

    def test_names_in_quotes_and_times_after_names_are_understood(self, desk: Desk) -> None:
        desk.write("grüße.txt", "a\n")
        desk.do(
            "edit",
            diff='--- "a/gr\\303\\274\\303\\237e.txt"\n+++ "b/gr\\303\\274\\303\\237e.txt"\n@@ -1 +1 @@\n-a\n+b\n',
        )
        assert desk.read("grüße.txt") == "b\n"
        desk.fresh("edit", diff="--- song.txt\t2020-01-01\n+++ song.txt\t2020-01-02\n@@ -1 +1 @@\n-line 1\n+line one\n")
        assert desk.read("song.txt").startswith("line one\n")

    @pytest.mark.parametrize(
        ("diff", "why"),
        [
            ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "changes permissions"),
            ("diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+/etc/passwd\n", "sets a mode"),
            ("diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n", "sets a mode"),
            ("diff --git a/x b/x\nindex 1..2 120000\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "about a link"),
            ("diff --git a/x b/x\nnew file mode 160000\n", "sets a mode"),
            ("diff --git a/x b/y\ncopy from x\ncopy to y\n", "copies a file"),
            ("diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 3\n", "is binary"),
            ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "is binary"),
            ("--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", "outside the working directory"),
            ("--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n", "outside the working directory"),
            ("--- /dev/null\n+++ /etc/x\n@@ -0,0 +1 @@\n+x\n", "outside the working directory"),
            ("diff --git a/song.txt b/../out\nrename from song.txt\nrename to ../out\n", "outside the working directory"),
            ("--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+x\n", "plans do not write to"),
            ("--- /dev/null\n+++ b/a/.GIT/config\n@@ -0,0 +1 @@\n+x\n", "plans do not write to"),
            ("--- /dev/null\n+++ b/.planrunner/journal.db\n@@ -0,0 +1 @@\n+x\n", "plans do not write to"),
            ("--- a/link/x\n+++ b/link/x\n@@ -0,0 +1 @@\n+x\n", "which is a link"),
        ],
    )  # fmt: skip
    def test_what_an_edit_does_not_do_is_refused_by_policy(self, desk: Desk, diff: str, why: str) -> None:
        (desk.root / "link").symlink_to(desk.state.parent)
        before = desk.tree()
        with pytest.raises(Failure, match=why) as failed:
            desk.do("edit", diff=diff)
        assert failed.value.failure == "policy"
        assert desk.tree() == before

    @pytest.mark.parametrize(
        ("diff", "why"),
        [
            ("hello", "names no file"),
            ("--- a/song.txt\n+++ b/song.txt\n", "has no hunk"),
            ("--- a/song.txt\n+++ b/song.txt\n one\n", "line 3 of the diff stands under no head of a hunk: expected a"),
            ("--- a/song.txt\n+++ b/song.txt\n@@ -1 +1 @@\n", "line 3 of the diff is a hunk without lines"),
            ("--- a/song.txt\n+++ b/song.txt\n@@ -1,2 +1,2 @@\n-line 1\n+x\nline 2\n", "line 6 of the diff begins with 'l'"),
            ("--- a/song.txt\n+++ b/other.txt\n@@ -1 +1 @@\n-a\n+b\n", "names two files"),
            ("--- a/song.txt\n+++ b/song.txt\n@@@ -1 -1 +1 @@@\n--a\n++b\n", "about a merge"),
            ("--- a/song.txt\n+++ b/song.txt\n@@ -3,0 +4 @@\n+x\n", "has no context"),
            ("--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-a\n+b\n", "gone is not there"),
            ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "both sides are /dev/null"),
        ],
    )  # fmt: skip
    def test_what_is_no_diff_is_told_with_its_line(self, desk: Desk, diff: str, why: str) -> None:
        with pytest.raises(Failure, match=why) as failed:
            desk.do("edit", diff=diff)
        assert failed.value.failure == "logic"

    def test_binary_files_and_links_are_not_edited(self, desk: Desk) -> None:
        desk.write("song.txt", "line 3\0")
        with pytest.raises(Failure, match=r"song.txt is binary"):
            desk.do("edit", diff=DIFF)
        (desk.root / "song.txt").unlink()
        (desk.root / "song.txt").symlink_to("/etc/passwd")
        with pytest.raises(Failure, match=r"song.txt is a link") as failed:
            desk.do("edit", diff=DIFF)
        assert failed.value.failure == "policy"

    def test_an_addition_at_the_end_is_not_made_twice(self, desk: Desk) -> None:
        diff = "--- a/song.txt\n+++ b/song.txt\n@@ -19,2 +19,3 @@\n line 19\n line 20\n+line 21\n"
        assert desk.do("edit", diff=diff)["changed"]
        assert not desk.fresh("edit", diff=diff)["changed"]
        assert desk.read("song.txt") == SONG + "line 21\n"

    def test_neither_a_diff_nor_blocks_or_both_is_a_failure(self, desk: Desk) -> None:
        for inputs in ({}, {"diff": DIFF, "blocks": [{"path": "x", "search": "a", "replace": "b"}]}):
            with pytest.raises(Failure, match="either `diff` or `blocks`"):
                desk.do("edit", **inputs)


def block(search: str, replace: str, path: str = "song.txt", **more: object) -> dict[str, object]:
    return {"path": path, "search": search, "replace": replace, **more}


class TestBlocks:
    def test_a_text_that_stands_once_is_replaced_once(self, desk: Desk) -> None:
        blocks = [block("line 5\n", "line five\nand a half\n"), block("one\n", "two\n", "other.txt")]
        desk.write("other.txt", "one\n")
        for changed in (True, False):
            assert desk.fresh("edit", blocks=blocks)["changed"] is changed
            assert desk.read("song.txt") == after()
            assert desk.read("other.txt") == "two\n"

    def test_a_text_that_stands_twice_needs_all(self, desk: Desk) -> None:
        with pytest.raises(Failure, match=r"song.txt: block 2 stands 2 times, at lines 2, 20: give more context"):
            desk.do("edit", blocks=[block("line 20", "line 2"), block("line 2\n", "y")])
        desk.write("song.txt", "a b a")
        desk.fresh("edit", blocks=[block("a", "c", all=True)])
        assert desk.read("song.txt") == "c b c"

    @pytest.mark.parametrize("everywhere", [True, False])
    def test_a_replacement_that_holds_the_search_is_made_once(self, desk: Desk, everywhere: bool) -> None:
        blocks = [block("line 5\n", "line 5\nline 5b\n", all=everywhere)]
        assert desk.do("edit", blocks=blocks)["changed"]
        assert not desk.fresh("edit", blocks=blocks)["changed"]
        assert desk.read("song.txt").count("line 5b") == 1

    def test_blocks_that_build_on_each_other_are_recognised_together(self, desk: Desk) -> None:
        blocks = [block("line 5\n", "draft\n"), block("draft\n", "final\n")]
        assert desk.do("edit", blocks=blocks)["changed"]
        assert not desk.fresh("edit", blocks=blocks)["changed"]

    def test_a_text_that_is_not_there_names_the_nearest(self, desk: Desk) -> None:
        with pytest.raises(Failure) as failed:
            desk.do("edit", blocks=[block("line 5\nline six\n", "")])
        assert str(failed.value) == (
            "song.txt: block 1 is not there: nearest is line 5; expected `line six` at line 6, found `line 6`"
        )

    def test_files_with_crlf_are_searched_with_plain_lines(self, desk: Desk) -> None:
        desk.write("song.txt", SONG.replace("\n", "\r\n"))
        desk.do("edit", blocks=[block("line 4\nline 5\n", "line 4\nline five\nand a half\n")])
        assert desk.read("song.txt") == after().replace("\n", "\r\n")

    def test_an_empty_search_makes_a_file_and_only_that(self, desk: Desk) -> None:
        for changed in (True, False):
            assert desk.fresh("edit", blocks=[block("", "text\n", "new/file.txt")])["changed"] is changed
        assert desk.read("new/file.txt") == "text\n"
        with pytest.raises(Failure, match="searches for nothing"):
            desk.fresh("edit", blocks=[block("", "other\n", "new/file.txt")])

    def test_malformed_blocks_are_told(self, desk: Desk) -> None:
        for blocks, why in (
            ([{"path": "x", "search": "a"}], "needs `path`, `search` and `replace`"),
            ([block("a", "b", every=True)], "unknown key `every`"),
            ([block("a", "b", all="yes")], "`all` must be true or false"),
            ([block("a", "b", "../x")], "outside the working directory"),
            ([block("a", "b", "gone")], "gone is not there"),
        ):
            with pytest.raises(Failure, match=why):
                desk.do("edit", blocks=blocks)


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "-- x", "++ y", "@@ z", " d", "e\r"]), max_size=12)


def text(lines: list[str], ended: bool) -> str:
    return "\n".join(lines) + ("\n" if ended and lines else "")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("git")


@given(LINES, LINES, st.booleans(), st.booleans())
def test_what_git_diff_writes_is_applied_to_the_letter(
    scratch: Path, old: list[str], new: list[str], old_ended: bool, new_ended: bool
) -> None:
    before, wanted = text(old, old_ended), text(new, new_ended)
    if not before or not wanted:
        return
    (scratch / "old").write_bytes(before.encode())
    (scratch / "new").write_bytes(wanted.encode())
    command = ["git", "diff", "--no-index", "--no-color", "old", "new"]
    diff = subprocess.run(command, cwd=scratch, capture_output=True, check=False).stdout.decode()
    if diff:
        diff = diff.replace("+++ b/new\n", "+++ b/old\n", 1).replace("a/old b/new", "a/old b/old", 1)
        (patch,) = parse_diff(diff)
        assert apply_hunks(before, patch.hunks) == wanted


@given(st.text(alphabet="@-+ 0123456789,\nab\\/\r`", max_size=200))
def test_any_text_is_a_diff_or_a_failure(noise: str) -> None:
    for head in ("", "--- a/x\n+++ b/x\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n"):
        try:
            for patch in parse_diff(head + noise):
                apply_hunks("a\nb\n", patch.hunks)
        except (Failure, Misfit):
            continue
