"""``files.read`` and ``files.write``: whole files, inside the working directory."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.files.text import Written, read, write
from planrunner.plan.model import Task


class NoLog:
    def write(self, data: bytes, stream: str = "stdout") -> None:
        raise AssertionError("nothing to log")


def context(folder: Path, key: str = "run:task:1") -> Context:
    call = Call("run", Task("task"), 1, key, {}, "", (), {}, {}, str(folder), "", None)
    return Context(call, NoLog(), lambda: False)


class TestRead:
    def test_content_size_and_digest_come_back(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("grüße\n", encoding="utf-8")
        found = read(context(tmp_path), "a.txt")
        assert found == ("grüße\n", 8, hashlib.sha256("grüße\n".encode()).hexdigest())

    def test_another_encoding_may_be_named(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_bytes("grüße".encode("latin-1"))
        assert read(context(tmp_path), "a.txt", encoding="latin-1").content == "grüße"
        with pytest.raises(Failure, match=r"a.txt is not utf-8 text: byte 2 does not fit"):
            read(context(tmp_path), "a.txt")
        with pytest.raises(Failure, match="`klingon` is not a known encoding"):
            read(context(tmp_path), "a.txt", encoding="klingon")

    def test_what_cannot_be_read_is_a_failure(self, tmp_path: Path) -> None:
        (tmp_path / "big").write_text("x" * 11)
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(Failure, match="gone cannot be read: No such file"):
            read(context(tmp_path), "gone")
        with pytest.raises(Failure, match="big is larger than 10 bytes"):
            read(context(tmp_path), "big", max_bytes=10)
        assert read(context(tmp_path), "big", max_bytes="11B").size == 11
        with pytest.raises(Failure, match="pipe is not a regular file"):
            read(context(tmp_path), "pipe")
        with pytest.raises(Failure, match='`max_bytes`: expected a size such as 50MB, found "lots"'):
            read(context(tmp_path), "big", max_bytes="lots")


class TestWrite:
    def test_a_new_file_has_the_content_and_nothing_is_left_beside_it(self, tmp_path: Path) -> None:
        written = write(context(tmp_path), "a.txt", "grüße")
        assert written == Written("a.txt", True, 7, hashlib.sha256("grüße".encode()).hexdigest())
        assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "grüße"
        assert os.listdir(tmp_path) == ["a.txt"]
        assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644

    def test_the_same_content_is_left_alone(self, tmp_path: Path) -> None:
        write(context(tmp_path), "a.txt", "hi")
        before = (tmp_path / "a.txt").stat()
        assert not write(context(tmp_path), "a.txt", "hi").changed
        assert (tmp_path / "a.txt").stat().st_ino == before.st_ino
        assert write(context(tmp_path), "a.txt", "ho").changed
        assert (tmp_path / "a.txt").stat().st_ino != before.st_ino, "readers of the old file keep the old file"

    def test_permissions_are_kept_or_set(self, tmp_path: Path) -> None:
        write(context(tmp_path), "run.sh", "echo", mode="0755")
        assert (tmp_path / "run.sh").stat().st_mode & 0o777 == 0o755
        write(context(tmp_path), "run.sh", "echo 2")
        assert (tmp_path / "run.sh").stat().st_mode & 0o777 == 0o755
        assert write(context(tmp_path), "run.sh", "echo 2", mode="600").changed
        assert (tmp_path / "run.sh").stat().st_mode & 0o777 == 0o600
        with pytest.raises(Failure, match="`mode` must be octal permissions"):
            write(context(tmp_path), "run.sh", "x", mode="rwx")

    def test_missing_folders_are_made_when_asked_for(self, tmp_path: Path) -> None:
        with pytest.raises(Failure, match=r"folder `a/b` does not exist for a/b/c.txt; `parents: true` makes it"):
            write(context(tmp_path), "a/b/c.txt", "hi")
        assert write(context(tmp_path), "a/b/c.txt", "hi", parents=True).changed
        assert (tmp_path / "a/b/c.txt").read_text() == "hi"

    def test_an_absolute_path_inside_is_fine(self, tmp_path: Path) -> None:
        write(context(tmp_path), str(tmp_path / "a.txt"), "hi")
        assert (tmp_path / "a.txt").read_text() == "hi"

    @pytest.mark.parametrize(
        "path",
        ["../escape", "a/../../escape", "/etc/escape", "link/file", "deep/link/file", "filelink", "loop", "dangling"],
    )
    def test_no_way_leads_out_of_the_working_directory(self, tmp_path: Path, path: str) -> None:
        outside, inside = tmp_path / "outside", tmp_path / "inside"
        outside.mkdir()
        (inside / "deep").mkdir(parents=True)
        (outside / "file").write_text("old")
        (inside / "link").symlink_to(outside)
        (inside / "deep/link").symlink_to(outside)
        (inside / "filelink").symlink_to(outside / "file")
        (inside / "loop").symlink_to(inside / "loop")
        (inside / "dangling").symlink_to(outside / "new")
        with pytest.raises(Failure) as failed:
            write(context(inside), path, "new", parents=True)
        assert failed.value.failure == "policy"
        assert (outside / "file").read_text() == "old"
        assert sorted(os.listdir(outside)) == ["file"]
        assert not (tmp_path / "escape").exists()

    @pytest.mark.parametrize("path", ["", "a\0b", ".", "folder", "folder/"])
    def test_what_is_no_file_is_refused(self, tmp_path: Path, path: str) -> None:
        (tmp_path / "folder").mkdir()
        with pytest.raises(Failure):
            write(context(tmp_path), path, "x")
        assert os.listdir(tmp_path) == ["folder"]

    def test_a_folder_swapped_for_a_link_on_the_way_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "work").mkdir()
        (tmp_path / "work/folder").symlink_to("../outside")
        with pytest.raises(Failure, match="leads through `folder`"):
            write(context(tmp_path / "work"), "folder/x", "x")

    def test_a_full_disk_leaves_the_old_file(self, tmp_path: Path) -> None:
        import resource

        write(context(tmp_path), "a.txt", "old")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            with pytest.raises(Failure, match=r"a.txt cannot be written: File too large"):
                write(context(tmp_path), "a.txt", "x" * 5000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (tmp_path / "a.txt").read_text() == "old"
        assert os.listdir(tmp_path) == ["a.txt"]

    @pytest.mark.slow
    def test_a_kill_at_any_moment_leaves_the_old_content_or_the_new(self, tmp_path: Path) -> None:
        program = (
            "import sys; sys.path[:0] = sys.argv[2:]\n"
            "from test_files_whole import context\n"
            "from planrunner.capabilities.files.text import write\n"
            "from pathlib import Path\n"
            "folder, number = Path(sys.argv[1]), 0\n"
            "print('ready', flush=True)\n"
            "while True:\n"
            "    number += 1\n"
            "    write(context(folder), 'a.txt', str(number % 10) * 300_000)\n"
        )
        whole = {str(digit) * 300_000 for digit in range(10)}
        for delay in (0.0, 0.003, 0.007, 0.011, 0.02):
            process = subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path), str(Path(__file__).parent), *sys.path],
                stdout=subprocess.PIPE,
            )
            assert process.stdout is not None
            process.stdout.readline()
            while not (tmp_path / "a.txt").exists():
                time.sleep(0.001)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            assert (tmp_path / "a.txt").read_text() in whole
        write(context(tmp_path), "a.txt", "the end")
        assert os.listdir(tmp_path) == ["a.txt"], "the next start of the attempt takes what a kill left over"
