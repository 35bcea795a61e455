"""The first push into an empty repository, whose branch most servers do not delete again."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_workbench import Bench, git, repository

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.git.remote import push

FILES = {"git": {"name": "Ana", "email": "ana@example.org", "protocols": ["file"]}}


@pytest.fixture
def far(tmp_path: Path) -> Path:
    made = tmp_path / "far.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(made))
    return made


@pytest.fixture
def bench(far: Path, tmp_path: Path) -> Bench:
    work = repository(tmp_path / "work")
    git(work, "remote", "add", "origin", str(far))
    return Bench(work, tmp_path / "state", FILES)


def test_the_preview_says_that_it_may_stay(bench: Bench, far: Path) -> None:
    said = "it is the first branch there"
    assert said in bench.preview(push).summary
    bench.do(push)
    for inputs in ({"to": "topic"}, {}):
        assert said not in bench.preview(push, **inputs).summary


def test_a_default_branch_that_the_server_keeps_is_told_with_the_way_out(bench: Bench, far: Path) -> None:
    done = bench.act(push)
    for seen in (True, False):
        with pytest.raises(Failure, match=r"does not delete `main`, its default branch, .* roll back again") as caught:
            done.undo(seen)
        assert caught.value.failure == "rejected"
    assert git(far, "rev-parse", "main") == done.outputs.new
    git(far, "config", "receive.denyDeleteCurrent", "ignore")
    assert done.undo() == {"changed": True}
    assert git(far, "for-each-ref") == "" and git(bench.folder, "for-each-ref", "refs/remotes") == ""


def test_a_branch_that_is_refused_for_another_reason_is_not_called_the_default(bench: Bench, far: Path) -> None:
    done = bench.act(push, to="topic")
    git(far, "config", "receive.denyDeletes", "true")
    with pytest.raises(Failure) as caught:
        done.undo()
    assert caught.value.failure == "rejected" and "default" not in str(caught.value)


def test_a_first_branch_that_is_not_the_default_is_taken_back(bench: Bench, far: Path) -> None:
    assert bench.act(push, to="topic").undo() == {"changed": True}
    assert git(far, "for-each-ref") == ""
