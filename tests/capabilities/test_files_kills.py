"""Killed with SIGKILL before or after any call that writes: issued again an act comes to the same end, undone it leaves
the tree as it was, and nothing lies about either way.

CI takes a sample of the calls; ``PLANRUNNER_FAULTS=all`` takes every one.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from files_desk import Desk, hasty, tree  # noqa: F401 (is used by being there)
from simulator.crashes import in_child
from test_files_undo import ACTS, missing, prepared

from planrunner.files import beneath

EVERY = 1 if os.environ.get("PLANRUNNER_FAULTS") == "all" else 61
WRITES = "mkdir rename unlink rmdir link symlink write fsync fchmod chmod".split()


def deadly(call: int, after: bool, told: Callable[[int], Any] = lambda count: None) -> None:
    """From now on this process dies at its ``call``-th call that writes. Only for a child."""
    count = 0

    def hooked(original: Callable[..., Any], counts: Callable[..., bool] = lambda *_: True) -> Callable[..., Any]:
        def act(*arguments: Any, **more: Any) -> Any:
            nonlocal count
            if not counts(*arguments):
                return original(*arguments, **more)
            count += 1
            told(count)
            if count == call and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            mine = count
            try:
                return original(*arguments, **more)
            finally:
                if mine == call:
                    os.kill(os.getpid(), signal.SIGKILL)

        return act

    opened = os.open
    for name in WRITES:
        setattr(os, name, hooked(getattr(os, name)))
    os.open = hooked(opened, lambda _, flags, *rest: bool(flags & os.O_CREAT))  # type: ignore[assignment]
    beneath.renameat2 = hooked(beneath.renameat2)


def calls_of(work: Callable[[], Any]) -> int:
    """How many calls that write the work makes."""
    inlet, outlet = os.pipe()

    def counted() -> int:
        plain_write = os.write
        deadly(0, False, lambda count: plain_write(outlet, b"."))
        work()
        return 0

    assert in_child(counted) == 0
    os.close(outlet)
    with os.fdopen(inlet, "rb") as told:
        return len(told.read())


def killed(work: Callable[[], Any], call: int, after: bool) -> None:
    def dying() -> int:
        deadly(call, after)
        work()
        return 0

    assert in_child(dying) == -signal.SIGKILL


def places(total: int, name: str) -> Iterator[tuple[int, bool]]:
    every = [(call, after) for call in range(1, total + 1) for after in (False, True)]
    return iter(every[sum(map(ord, name)) % min(EVERY, len(every)) :: EVERY])


class Case:
    """One act on a tree that can be set up again and again."""

    def __init__(self, folder: Path, act: str) -> None:
        self.folder = folder
        self.desk, self.verb, self.inputs = prepared(folder, act)
        self.noted = self.desk.capture(self.verb, **self.inputs)
        self.before = self.desk.tree()
        shutil.copytree(folder, folder.parent / "kept", symlinks=True)

    def again(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.folder.parent / "kept", self.folder, symlinks=True)

    def do(self) -> Any:
        return self.desk.do(self.verb, **self.inputs)

    def undo(self) -> None:
        self.desk.undo(self.verb, self.noted)


WAYS = ("with the calls of the kernel", "without them")
PAIRS = [(act, way) for number, act in enumerate(ACTS) for way in WAYS if EVERY == 1 or WAYS[number % 2] == way]
"""Each act either way; in CI the one way or the other."""


@pytest.fixture
def kernel(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "without them":
        monkeypatch.setattr(beneath, "_syscall", missing)
        monkeypatch.setattr(beneath, "_missing", set())


@pytest.mark.parametrize(("act", "way"), PAIRS)
def test_killed_at_any_moment_an_act_is_finished_or_undone(tmp_path: Path, act: str, kernel: None) -> None:
    folder = tmp_path / "desk"
    folder.mkdir()
    case = Case(folder, act)
    outputs = case.do()
    after = case.desk.tree()
    case.again()
    total = calls_of(case.do)
    assert total >= 3
    for call, later in places(total, act):
        case.again()
        killed(case.do, call, later)
        shutil.copytree(folder, tmp_path / "cut", symlinks=True, dirs_exist_ok=True)
        assert case.do() == outputs, (call, later)
        assert case.desk.tree() == after, (call, later)
        case.undo()
        assert case.desk.tree() == case.before, (call, later)
        shutil.rmtree(folder)
        (tmp_path / "cut").rename(folder)
        case.undo()
        assert case.desk.tree() == case.before, (call, later, "undone at once")


@pytest.mark.parametrize(("act", "way"), PAIRS)
def test_killed_at_any_moment_an_undo_is_finished(tmp_path: Path, act: str, kernel: None) -> None:
    folder = tmp_path / "desk"
    folder.mkdir()
    case = Case(folder, act)
    case.do()
    shutil.rmtree(tmp_path / "kept")
    shutil.copytree(folder, tmp_path / "kept", symlinks=True)
    total = calls_of(case.undo)
    for call, later in places(total, act):
        case.again()
        killed(case.undo, call, later)
        case.undo()
        assert case.desk.tree() == case.before, (call, later)


def test_what_a_kill_left_of_a_file_is_never_seen_as_the_file(tmp_path: Path) -> None:
    """Readers see every file of an edit as it was or as it becomes, at each call."""
    folder = tmp_path / "desk"
    folder.mkdir()
    case = Case(folder, "edit by diff")
    case.do()
    whole = {
        path: {case.before.get(path), case.desk.tree().get(path)}
        for path in ("docs/a.txt", "src/b.txt", "new/deep/c.txt")
    }
    case.again()
    for call in range(1, calls_of(case.do) + 1):
        case.again()
        killed(case.do, call, True)
        found = tree(case.desk.root)
        assert all(found.get(path) in states for path, states in whole.items())


def test_a_desk_can_be_copied(tmp_path: Path) -> None:
    folder = tmp_path / "desk"
    folder.mkdir()
    case = Case(folder, "delete a tree")
    assert Desk(folder).tree() == case.before
    case.again()
    assert case.desk.tree() == case.before
