"""Plugins read, write and remove single files of the working directory, and reach nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from planrunner.api import Context, capability, read_inside, remove_inside, write_inside
from planrunner.machine.events import Outcome
from planrunner.testing.capability import call_capability


def _asked(directory: Path, act: Any) -> Outcome:
    @capability("tried.it")
    def it(context: Context) -> Any:
        return act(context)

    return call_capability(it, directory=str(directory))


def _write(directory: Path, path: str) -> Outcome:
    return _asked(directory, lambda context: write_inside(context, path, b"new"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "outside.txt").write_text("mine")
    (tmp_path / "outside").mkdir()
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "link.txt").symlink_to("../outside.txt")
    (work / "way").symlink_to("../outside")
    return work


@pytest.mark.parametrize(
    "path",
    ["../outside.txt", "sub/../../outside.txt", "link.txt", "way/new.txt", "planrunner.yaml", ".git/config", "."],
)
def test_what_leads_out_or_rules_over_the_plan_is_neither_written_nor_removed(path: str, work: Path) -> None:
    for ended in (_write(work, path), _asked(work, lambda context: remove_inside(context, path))):
        assert ended.failure == "policy", ended
    assert (work.parent / "outside.txt").read_text() == "mine"
    assert (work / "link.txt").is_symlink()
    assert os.listdir(work.parent / "outside") == []


def test_an_absolute_path_counts_where_it_lies_inside(work: Path) -> None:
    assert _write(work, str(work / "a.txt")).failure == ""
    assert (work / "a.txt").read_text() == "new"
    assert _write(work, str(work.parent / "outside.txt")).failure == "policy"


def test_a_file_is_replaced_at_once_and_keeps_its_permissions(work: Path) -> None:
    (work / "sub" / "a.sh").write_text("old")
    (work / "sub" / "a.sh").chmod(0o750)
    key = _asked(work, lambda context: context.call.key).outputs["value"]
    (work / "sub" / f".planrunner-a.sh-{crc32(key.encode()):08x}.part").write_text("of this call, cut off")
    assert _write(work, "sub/a.sh").failure == ""
    assert (work / "sub" / "a.sh").read_text() == "new"
    assert (work / "sub" / "a.sh").stat().st_mode & 0o777 == 0o750
    assert os.listdir(work / "sub") == ["a.sh"]


def test_what_is_there_is_read_and_what_is_not_is_none(work: Path) -> None:
    (work / "a.txt").write_text("text")
    (work / "inner.txt").symlink_to("a.txt")

    def read(path: str, *limit: int) -> Outcome:
        return _asked(work, lambda context: {"data": (read_inside(context, path, *limit) or b"nothing").decode()})

    assert read("a.txt").outputs == {"data": "text"}
    assert read("inner.txt").outputs == {"data": "text"}
    assert read("no/such.txt").outputs == {"data": "nothing"}
    assert read("link.txt").failure == "policy"
    assert read("../outside.txt").failure == "policy"
    assert "larger than 3 bytes" in read("a.txt", 3).message
    assert "not a regular file" in read("sub").message


def test_removing_is_no_trouble_where_nothing_is(work: Path) -> None:
    (work / "a.txt").write_text("text")
    for _ in range(2):
        assert _asked(work, lambda context: remove_inside(context, "a.txt")).failure == ""
    assert not (work / "a.txt").exists()
    assert "not a regular file" in _asked(work, lambda context: remove_inside(context, "sub")).message
    assert "cannot be written" in _write(work, "none/a.txt").message
