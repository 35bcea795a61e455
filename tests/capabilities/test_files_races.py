"""Twenty races: while a capability acts, another process swaps what it acts on. Nothing outside is read or written.

CI gives each race a moment either way paths are walked, ``PLANRUNNER_RACE_SECONDS`` more: 5 in the nightly proofs.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from files_desk import Desk, hasty, tree  # noqa: F401 (is used by being there)
from test_files_undo import missing

from planrunner.capabilities.contract import Failure
from planrunner.files import beneath

SECONDS = float(os.environ.get("PLANRUNNER_RACE_SECONDS", "0.15"))
SECRET = "the secret outside\n"
DIFF = "--- a/{0}\n+++ b/{0}\n@@ -1,2 +1,2 @@\n one\n-{1}\n+{2}\n"


class Arena(Desk):
    """A working directory, and beside it a folder that looks just like a part of it and must stay as it is."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.outside = folder / "outside"
        for top in (self.root / "sub", self.root / "spare", self.outside):
            (top / "deep").mkdir(parents=True)
            for name in ("file", "deep/file"):
                (top / name).write_text(SECRET if top == self.outside else "one\ntwo\n")
        (self.root / "aim").symlink_to("../outside")
        (self.root / "aimfile").symlink_to("../outside/file")
        (self.root / "absolute").symlink_to(self.outside)


Act = Callable[[Arena, int], Any]
Swap = tuple[str, str]


def flip(number: int) -> tuple[str, str]:
    return ("two", "zwei") if number % 2 == 0 else ("zwei", "two")


def edited(path: str) -> Act:
    def act(arena: Arena, number: int) -> None:
        with suppress(Failure):
            arena.fresh("edit", diff=DIFF.format(path, *flip(number)))
        arena.fresh("edit", diff=DIFF.format(path, *flip(number + 1)))

    return act


def undone(verb: str, **inputs: Any) -> Act:
    """Capture, act, undo: the whole life of a task."""

    def act(arena: Arena, number: int) -> None:
        arena.visit += 1
        noted = arena.capture(verb, **inputs)
        try:
            arena.do(verb, **inputs)
        finally:
            arena.undo(verb, noted)

    return act


def snapshot_and_restore(arena: Arena, number: int) -> None:
    if not hasattr(snapshot_and_restore, "kept") or number == 0:
        arena.visit += 1
        snapshot_and_restore.kept = arena.do("snapshot", path="sub")["snapshot"]  # type: ignore[attr-defined]
    with suppress(Failure):
        arena.fresh("write", path="sub/deep/file", content=f"{number}\n")
    arena.fresh("restore", path="sub", snapshot=snapshot_and_restore.kept)  # type: ignore[attr-defined]


def reads(path: str) -> Act:
    def act(arena: Arena, number: int) -> None:
        assert "secret" not in arena.do("read", path=path)["content"]

    return act


def copied(path: str) -> Act:
    def act(arena: Arena, number: int) -> None:
        shutil.rmtree(arena.root / "copied", ignore_errors=True)
        arena.fresh("copy", path=path, to="copied")
        held = [entry[2] for entry in tree(arena.root / "copied").values() if entry[0] == "file"]
        assert SECRET.encode() not in held

    return act


def found(arena: Arena, number: int) -> None:
    told = arena.do("glob", patterns="sub/**", sha256=True)
    assert all(len(SECRET) != each["size"] for each in told["files"])


def write(path: str, **more: Any) -> Act:
    return lambda arena, number: arena.fresh("write", path=path, content=f"{number}\n", **more)


RACES: dict[str, tuple[Swap, Act]] = {
    "write, its folder a link": (("sub", "aim"), write("sub/file")),
    "write, its folder an absolute link": (("sub", "absolute"), write("sub/file")),
    "write, a folder on the way a link": (("sub", "aim"), write("sub/deep/file")),
    "write, the file a link": (("sub/file", "aimfile"), write("sub/file")),
    "write with new folders": (("sub", "aim"), lambda arena, n: arena.fresh("write", path=f"sub/{n}/x", content="x", parents=True)),
    "write and undo": (("sub", "aim"), undone("write", path="sub/file", content="x")),
    "append, its folder a link": (("sub", "aim"), lambda arena, n: arena.fresh("append", path="sub/file", content="x\n")),
    "edit, its folder a link": (("sub", "aim"), edited("sub/file")),
    "edit, the file a link": (("sub/file", "aimfile"), edited("sub/file")),
    "edit and undo": (("sub/deep", "aim"), undone("edit", diff=DIFF.format("sub/deep/file", "two", "zwei"))),
    "delete a tree, its folder a link": (("sub", "aim"), undone("delete", path="sub/deep", recursive=True)),
    "delete a tree, a folder in it a link": (("sub/deep", "aim"), undone("delete", path="sub", recursive=True)),
    "copy a tree, its folder a link": (("sub", "aim"), copied("sub/deep")),
    "copy a tree, a folder in it a link": (("sub/deep", "aim"), copied("sub")),
    "move, the new folder a link": (("sub", "aim"), undone("move", path="spare/file", to="sub/new")),
    "move, the old folder a link": (("sub", "aim"), undone("move", path="sub/file", to="spare/new")),
    "mkdir, its folder a link": (("sub", "aim"), undone("mkdir", path="sub/new/deep", parents=True)),
    "restore, its folder a link": (("sub/deep", "aim"), snapshot_and_restore),
    "read, its folder a link": (("sub", "aim"), reads("sub/file")),
    "read, the file a link": (("sub/file", "aimfile"), reads("sub/file")),
    "glob, its folder a link": (("sub/deep", "aim"), found),
}  # fmt: skip


@contextmanager
def swapping(root: Path, names: Swap) -> Iterator[None]:
    """Another process swaps two names in one moment, again and again."""
    pid = os.fork()
    if pid == 0:
        try:
            _swap_for_ever(*(os.fsencode(root / name) for name in names))
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _swap_for_ever(one: bytes, other: bytes) -> None:
    """For a short while the link is there, for a longer one what belongs there: most acts begin well and are hit on
    their way."""
    libc = ctypes.CDLL(None)
    here = -100
    pause = 1
    while True:
        pause = (pause * 7 + 3) % 101
        for wait in (pause * 1e-6, pause * 60e-6):
            libc.renameat2(here, one, here, other, 2)
            end = time.perf_counter() + wait
            while time.perf_counter() < end:
                pass


@pytest.mark.limit(300 + 4 * SECONDS)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("way", ["openat2", "one step after the other"])
def test_no_race_leads_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, race: str, way: str) -> None:
    if way != "openat2":
        monkeypatch.setattr(beneath, "_syscall", missing)
        monkeypatch.setattr(beneath, "_missing", set())
    arena = Arena(tmp_path)
    (swap, act), before = RACES[race], tree(arena.outside)
    done = refused = 0
    with swapping(arena.root, swap):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or done + refused < 5:
            try:
                act(arena, done + refused)
                done += 1
            except Failure:
                refused += 1
            assert tree(arena.outside) == before
    print(f"{race}, {way}: {done} done, {refused} refused")


def test_checking_a_path_before_opening_it_loses_the_same_race(tmp_path: Path) -> None:
    """The race is real: what looks first and opens afterwards is led outside."""
    arena = Arena(tmp_path)
    escaped = 0
    with swapping(arena.root, ("sub", "aim")):
        end = time.monotonic() + 240
        while not escaped and time.monotonic() < end:
            path = arena.root / "sub/file"
            with suppress(OSError):
                if os.path.realpath(path) == str(path):
                    escaped += path.read_text() == SECRET
    assert escaped
