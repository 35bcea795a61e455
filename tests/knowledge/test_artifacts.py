"""Files kept by content."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from workbench import ROOT

from planrunner.errors import NotFound, StorageFailed
from planrunner.knowledge.artifacts import ArtifactRefused, ArtifactStore


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    state = tmp_path / "state"
    (state / "artifacts").mkdir(parents=True)
    return ArtifactStore(str(state))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def stored_files(store: ArtifactStore) -> list[str]:
    found = [os.path.join(folder, name) for folder, _, names in os.walk(store._root) for name in names]
    return [path for path in found if os.path.basename(path) != "lock"]


@pytest.mark.parametrize("data", [b"", b"report\n", os.urandom(3 << 20)], ids=["empty", "short", "three-mebibytes"])
def test_a_kept_file_is_read_back_by_its_digest(store: ArtifactStore, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "report.txt"
    path.write_bytes(data)
    kept = store.keep(str(path), "report", "text")
    assert kept == {"name": "report", "sha256": digest(data), "size": len(data), "type": "text"}
    assert store.read(digest(data)) == data
    with store.open(digest(data)) as file:
        assert file.read() == data
    assert store.is_whole(digest(data))
    assert list(store) == [digest(data)]


def test_a_kept_file_stays_when_the_original_changes_or_goes(store: ArtifactStore, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    store.keep(str(path))
    path.write_bytes(b"two")
    store.keep(str(path))
    path.unlink()
    assert {store.read(digest(b"one")), store.read(digest(b"two"))} == {b"one", b"two"}


def test_equal_content_is_kept_once_under_any_name(store: ArtifactStore, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"same")
    first, second = store.keep(str(tmp_path / "a")), store.keep(str(tmp_path / "b"), name="other")
    assert second == {**first, "name": "other"}
    assert sorted(first) == ["sha256", "size"], "what the caller did not say is not made up"
    assert len(stored_files(store)) == 1


def test_a_stored_file_is_read_only_and_lies_under_its_digest(store: ArtifactStore) -> None:
    kept = store.keep_bytes(b"data", "a")
    path = Path(store.path_of(str(kept["sha256"])))
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert path.parent.name + path.name == kept["sha256"]
    assert path.parent.parent.name == "sha256"


def test_a_damaged_artifact_is_noticed_and_mended_by_keeping_it_again(store: ArtifactStore) -> None:
    name = digest(b"data")
    store.keep_bytes(b"data", "a")
    os.chmod(store.path_of(name), 0o644)
    Path(store.path_of(name)).write_bytes(b"da")
    assert not store.is_whole(name)
    with pytest.raises(StorageFailed, match="is damaged"):
        store.read(name)
    store.keep_bytes(b"data", "a")
    assert store.read(name) == b"data"


def test_what_is_not_there_is_not_found(store: ArtifactStore) -> None:
    assert not store.has(digest(b"x"))
    assert not store.is_whole(digest(b"x"))
    with pytest.raises(NotFound, match="no artifact"):
        store.read(digest(b"x"))
    assert list(store) == []


@pytest.mark.parametrize("name", ["", "abc", "../" * 21 + "x", "A" * 64, "/" + "a" * 63])
def test_what_is_no_digest_names_no_file(store: ArtifactStore, name: str) -> None:
    with pytest.raises(NotFound, match="not the digest"):
        store.path_of(name)


def test_a_symbolic_link_is_refused_and_leaves_nothing(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "report").symlink_to("secret")
    with pytest.raises(ArtifactRefused, match="symbolic link"):
        store.keep(str(tmp_path / "report"))
    assert stored_files(store) == []


def test_a_missing_file_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    with pytest.raises(ArtifactRefused, match=r"missing.*No such file"):
        store.keep(str(tmp_path / "missing"))


def test_a_pipe_a_socket_and_a_device_are_refused_without_waiting(store: ArtifactStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
    for path in (tmp_path / "pipe", tmp_path / "socket", Path("/dev/null")):
        with pytest.raises(ArtifactRefused, match="cannot be kept"):
            store.keep(str(path))


def folder(path: Path, names: list[str]) -> Path:
    path.mkdir()
    (path / "sub").mkdir()
    for name in names:
        (path / name).write_text(f"content of {name}")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o755)
    (path / "latest").symlink_to("a")
    return path


def test_a_directory_is_kept_as_an_archive_that_depends_on_its_content_alone(
    store: ArtifactStore, tmp_path: Path
) -> None:
    one = folder(tmp_path / "one", ["a", "b", "sub/c"])
    two = folder(tmp_path / "two", ["sub/c", "b", "a"])
    os.utime(two / "a", (1, 1))
    (two / "b").chmod(0o600)
    first, second = store.keep(str(one) + "/"), store.keep(str(two))
    assert (first["type"], first["sha256"]) == ("directory", second["sha256"])
    with store.open(str(first["sha256"])) as file, tarfile.open(fileobj=file) as archive:
        assert archive.getnames() == ["a", "b", "latest", "run.sh", "sub", "sub/c"]
        assert archive.extractfile("sub/c").read() == b"content of sub/c"  # type: ignore[union-attr]
        modes = {member.name: member.mode for member in archive.getmembers()}
        assert (modes["a"], modes["run.sh"], modes["sub"]) == (0o644, 0o755, 0o755)
    (two / "a").write_text("changed")
    assert store.keep(str(two))["sha256"] != first["sha256"]


def test_a_link_inside_a_directory_is_kept_as_a_link(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("top secret")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "leak").symlink_to("../secret")
    (tmp_path / "docs" / "up").symlink_to("..")
    kept = store.keep(str(tmp_path / "docs"))
    assert b"top secret" not in store.read(str(kept["sha256"]))
    with store.open(str(kept["sha256"])) as file, tarfile.open(fileobj=file) as archive:
        assert [(member.name, member.linkname) for member in archive] == [("leak", "../secret"), ("up", "..")]


def test_a_pipe_inside_a_directory_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    os.mkfifo(tmp_path / "docs" / "pipe")
    with pytest.raises(ArtifactRefused, match="pipe"):
        store.keep(str(tmp_path / "docs"))
    assert stored_files(store) == []


def test_a_directory_too_deep_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    os.makedirs(tmp_path / "docs" / "/".join(["d"] * 80))
    with pytest.raises(ArtifactRefused, match="64 directories deep"):
        store.keep(str(tmp_path / "docs"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_keeps_nothing_by_halves(small_disk: Path, tmp_path: Path) -> None:
    store = ArtifactStore(str(small_disk))
    (tmp_path / "docs").mkdir()
    for path in (tmp_path / "big", tmp_path / "docs" / "big"):
        path.write_bytes(bytes(1 << 20))
    for path in (tmp_path / "big", tmp_path / "docs"):
        with pytest.raises(StorageFailed, match="cannot be written: No space") as caught:
            store.keep(str(path))
        assert "free some space" in caught.value.hint
        assert stored_files(store) == []
    assert store.read(str(store.keep_bytes(b"fits", "a")["sha256"])) == b"fits"


@pytest.mark.parametrize("link", ["artifacts", "artifacts/tmp", "artifacts/sha256"])
def test_a_linked_folder_of_the_store_is_not_followed(tmp_path: Path, link: str) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"
    (state / link).parent.mkdir(parents=True)
    outside.mkdir()
    (state / link).symlink_to(outside)
    with pytest.raises(StorageFailed):
        ArtifactStore(str(state)).keep_bytes(b"data", "a")
    assert os.listdir(outside) == []


def test_a_writer_killed_half_way_leaves_no_artifact_and_its_rest_is_swept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "artifacts").mkdir(parents=True)
    (tmp_path / "big").write_bytes(os.urandom(1 << 20) * 40)
    code = "import sys; from planrunner.knowledge import artifacts as a; a.ArtifactStore(sys.argv[1]).keep(sys.argv[2])"
    store = ArtifactStore(str(state))
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(state), str(tmp_path / "big")], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    while process.poll() is None and not any(os.stat(path).st_size for path in stored_files(store)):
        pass
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=240)
    assert all(store.is_whole(name) for name in store)
    leftovers = os.listdir(state / "artifacts" / "tmp")
    store.sweep(before=0.0)
    assert os.listdir(state / "artifacts" / "tmp") == leftovers, "what may still be written to is left alone"
    for name in leftovers:
        os.utime(state / "artifacts" / "tmp" / name, (1, 1))
    store.sweep(before=2.0)
    assert os.listdir(state / "artifacts" / "tmp") == []


def test_two_processes_may_keep_the_same_file_at_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (state / "artifacts").mkdir(parents=True)
    (tmp_path / "a").write_bytes(os.urandom(200_000))
    code = (
        "import sys, shutil; from planrunner.knowledge.artifacts import ArtifactStore; s = ArtifactStore(sys.argv[1])\n"
        "for _ in range(30): print(s.keep(sys.argv[2])['sha256'])"
    )
    command = [sys.executable, "-c", code, str(state), str(tmp_path / "a")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = {line for process in processes for line in process.communicate(timeout=240)[0].split()}
    assert [process.returncode for process in processes] == [0, 0]
    store = ArtifactStore(str(state))
    assert list(store) == sorted(outputs)
    assert len(outputs) == 1
    assert store.is_whole(outputs.pop())
    assert os.listdir(state / "artifacts" / "tmp") == []
    shutil.rmtree(state)


def test_files_whose_places_are_made_durable_together_are_all_there(tmp_path):
    store = ArtifactStore(str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    later = set()
    kept = []
    for number in range(5):
        path = tmp_path / str(number)
        path.write_text(str(number))
        kept.append(store.keep(str(path), later=later)["sha256"])
    assert later == {os.path.dirname(store.path_of(sha256)) for sha256 in kept}
    store.settle(later)
    assert [store.read(sha256) for sha256 in kept] == [b"0", b"1", b"2", b"3", b"4"]
    with pytest.raises(StorageFailed, match="cannot be written"):
        store.settle({str(tmp_path / "gone")})
