"""Contents that nothing refers to are removed, and never one that somebody keeps or refers to meanwhile."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest
from workbench import ROOT

from planrunner.errors import StorageFailed, UsageError
from planrunner.knowledge.archives import unpack
from planrunner.knowledge.artifacts import ArtifactStore, Kept, collect, is_over


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    (tmp_path / "artifacts").mkdir()
    return ArtifactStore(str(tmp_path))


def kept(store: ArtifactStore, data: bytes, age: float = 0.0) -> str:
    sha256 = str(store.keep_bytes(data)["sha256"])
    if age:
        os.utime(store.path_of(sha256), (time.time() - age, time.time() - age))
    return sha256


def test_what_is_old_and_not_referred_to_goes(store: ArtifactStore) -> None:
    old, live, young = kept(store, b"old", 100), kept(store, b"live", 100), kept(store, b"young")
    before = time.time() - 50
    told = collect(store, {live}, before, dry=True)
    assert (told.removed, told.kept, told.young) == ((old,), 2, 1)
    assert sorted(store) == sorted([old, live, young])
    assert collect(store, {live}, before).removed == (old,)
    assert sorted(store) == sorted([live, young])
    assert collect(store, {live}, before).removed == ()


def test_keeping_or_holding_what_is_there_makes_its_age_begin_anew(store: ArtifactStore) -> None:
    again, held, gone = kept(store, b"again", 100), kept(store, b"held", 100), kept(store, b"gone", 100)
    kept(store, b"again")
    assert store.hold(held) and not store.hold("0" * 64)
    assert collect(store, (), time.time() - 50).removed == (gone,)
    assert sorted(store) == sorted([again, held])


def test_a_store_that_keeps_nothing_yet_holds_nothing(tmp_path: Path) -> None:
    assert not ArtifactStore(str(tmp_path / "none")).hold("0" * 64)


def test_half_copied_files_of_killed_writers_go_too(store: ArtifactStore, tmp_path: Path) -> None:
    kept(store, b"x")
    rest = tmp_path / "artifacts" / "tmp" / "1-abc"
    rest.write_bytes(b"half")
    os.utime(rest, (1, 1))
    collect(store, (), time.time() - 50, dry=True)
    assert rest.exists()
    collect(store, (), time.time() - 50)
    assert not rest.exists()


def test_nothing_goes_while_somebody_keeps(store: ArtifactStore) -> None:
    kept(store, b"old", 100)
    lock = store.guard()
    ended: list[int] = []
    collector = threading.Thread(target=lambda: ended.append(len(collect(store, (), time.time() - 50).removed)))
    collector.start()
    time.sleep(0.1)
    assert not ended
    os.close(lock)
    collector.join(240)
    assert ended == [1]


KEEP = """
import contextlib, itertools, os, sys, time
from planrunner.knowledge.artifacts import ArtifactStore

class Late(ArtifactStore):
    aged = None

    def guard(self, alone=False):
        if self.aged is not None:
            with contextlib.suppress(FileNotFoundError):
                os.utime(self.path_of(self.aged), (1, 1))
        return super().guard(alone)

store = Late(sys.argv[1])
for turn in itertools.count():
    if turn >= 300 and os.path.exists(sys.argv[2]):
        break
    store.aged = store.keep_bytes(b"content %d" % (turn % 5))["sha256"]
    store.keep_bytes(b"content %d" % (turn % 5))
    time.sleep(turn % 3 / 1000)
    if not store.is_whole(store.aged):
        sys.exit(f"lost {store.aged} in turn {turn}")
print("ok")
"""


def test_a_content_just_kept_is_there_however_often_others_collect(store: ArtifactStore, tmp_path: Path) -> None:
    """Each content is made old in the moment before the keeper waits for the lock: only its own touch protects it. The
    keeper goes on until the collector has met one."""
    stop = threading.Event()
    removed: list[str] = []

    def collecting() -> None:
        while not stop.is_set():
            removed.extend(collect(store, (), time.time() - 600).removed)
            if removed:
                (tmp_path / "met").touch()

    thread = threading.Thread(target=collecting)
    thread.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", KEEP, str(tmp_path), str(tmp_path / "met")],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    finally:
        stop.set()
        thread.join(240)
    assert done.stdout == "ok\n", done.stderr


COLLECT = """
import sys, time
from planrunner.knowledge.artifacts import ArtifactStore
from planrunner.knowledge.artifacts import collect
print("begun", flush=True)
live = {line.strip() for line in open(sys.argv[2])}
while True:
    collect(ArtifactStore(sys.argv[1]), live, time.time() - 50)
"""


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.005, 0.01, 0.02])
def test_a_collector_that_is_killed_leaves_each_content_whole_or_gone(
    store: ArtifactStore, tmp_path: Path, delay: float
) -> None:
    live = {kept(store, b"live %d" % number, 100) for number in range(40)}
    for number in range(400):
        kept(store, b"old %d" % number, 100)
    (tmp_path / "live").write_text("\n".join(live))
    collector = subprocess.Popen(
        [sys.executable, "-c", COLLECT, str(tmp_path), str(tmp_path / "live")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    assert collector.stdout is not None
    collector.stdout.readline()
    time.sleep(delay)
    collector.send_signal(signal.SIGKILL)
    collector.wait(240)
    collector.stdout.close()
    assert live <= set(store)
    assert all(store.is_whole(sha256) for sha256 in store)
    kept(store, b"the lock is free")
    collect(store, live, time.time() - 50)
    assert len(list(store)) == 41


@pytest.mark.parametrize(
    ("retention", "version", "over"),
    [
        ("forever", Kept(0, True, 9), False),
        ("plan", Kept(0, True, 9), False),
        ("", Kept(0, True, 9), False),
        ("nonsense", Kept(0, True, 9), False),
        ("run", Kept(1000, True, 0), True),
        ("run", Kept(0, False, 0), False),
        ("7d", Kept(0, True, 0), False),
        ("10m", Kept(0, True, 0), True),
        ("10m", Kept(0, False, 0), False),
        ("2 versions", Kept(0, True, 1), False),
        ("2 versions", Kept(0, True, 2), True),
        ("1 version", Kept(0, True, 1), True),
    ],
)
def test_a_retention_is_over_by_time_by_versions_or_with_the_run(retention: str, version: Kept, over: bool) -> None:
    assert is_over(retention, version, 1000.0) is over


def archive(*members: tuple[str, bytes, str]) -> io.BytesIO:
    """A tar archive of (name, type, content or aim of the link)."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as opened:
        for name, kind, content in members:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                entry.linkname = content
                opened.addfile(entry)
            else:
                entry.size = len(content)
                opened.addfile(entry, io.BytesIO(content.encode()))
    made.seek(0)
    return made


FILE, LINK, FOLDER = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE


def test_a_kept_folder_comes_back_as_it_was(store: ArtifactStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a" / "b").mkdir(parents=True)
    (source / "empty").mkdir()
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "a" / "b" / "x").write_bytes(b"\0\xff")
    (source / "a" / "link").symlink_to("../run.sh")
    record = store.keep(str(source))
    with store.open(str(record["sha256"])) as kept_archive:
        unpack(kept_archive, str(tmp_path / "target"))
    assert store.keep(str(tmp_path / "target")) == record


@pytest.mark.parametrize(
    "members",
    [
        [("../out", FILE, "x")],
        [("/etc/out", FILE, "x")],
        [("a/../../out", FILE, "x")],
        [("link", LINK, "/etc"), ("link/out", FILE, "x")],
        [("link", LINK, "..")],
        [("d", FOLDER, ""), ("d/up", LINK, "../../out")],
        [("here", LINK, "."), ("there", LINK, "here/here/../../..")],
        [("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [("pipe", tarfile.FIFOTYPE, "")],
        [("twice", FILE, "x"), ("twice", FILE, "y")],
        [("file", FILE, "x"), ("file/inner", FILE, "y")],
    ],
)
def test_an_archive_that_leads_out_is_refused_and_leaves_nothing(
    tmp_path: Path, members: list[tuple[str, bytes, str]]
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(UsageError):
        unpack(archive(*members), str(inside / "target"))
    assert list(inside.iterdir()) == [] and not (tmp_path / "out").exists()


def test_a_link_never_leads_a_file_elsewhere(tmp_path: Path) -> None:
    """Links are made last, so a file of the same path collides with none and follows none."""
    with pytest.raises(UsageError):
        unpack(archive(("d", LINK, "e"), ("d/x", FILE, "x")), str(tmp_path / "target"))
    assert not (tmp_path / "target").exists()


def test_a_target_that_is_there_is_left_alone_and_damage_is_told(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        unpack(archive(("x", FILE, "x")), str(tmp_path / "target"))
    with pytest.raises(StorageFailed, match="damaged"):
        unpack(io.BytesIO(b"no archive at all" * 100), str(tmp_path / "other"))
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
