"""The capabilities of planrunner-checksum, called as planrunner calls them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planrunner_checksum import compute, verify

from planrunner.testing.conformance import Case, Check, checks

HELLO = hashlib.sha256(b"hello").hexdigest()

Outcomes = Callable[..., Any]


def _file(directory: Path) -> dict[str, Any]:
    (directory / "a b.txt").write_text("hello")
    return {"paths": ["a b.txt"]}


def _with_manifest(directory: Path) -> dict[str, Any]:
    return {**_file(directory), "manifest": "SUMS"}


def _over_a_manifest(directory: Path) -> dict[str, Any]:
    (directory / "SUMS").write_text("what stood there\n")
    return _with_manifest(directory)


def _huge(directory: Path) -> dict[str, Any]:
    with open(directory / "huge", "w") as file:
        file.truncate(64 << 30)  # takes no room on the disk, and many seconds to read
    return {"paths": ["huge"]}


def _checked(directory: Path) -> dict[str, Any]:
    _file(directory)
    (directory / "SUMS").write_text(f"{HELLO}  a b.txt\n")
    return {"manifest": "SUMS"}


def _wrong(directory: Path) -> dict[str, Any]:
    _file(directory)
    (directory / "SUMS").write_text(f"{HELLO}  a b.txt\n{HELLO}  gone\n")
    return {"manifest": "SUMS"}


CASES = [
    Case(compute, _file),
    Case(compute, _with_manifest, name="with a manifest"),
    Case(compute, _over_a_manifest, name="over a manifest"),
    Case(compute, lambda directory: {"paths": ["gone"]}, name="of a missing file", fails="logic"),
    Case(compute, _huge, name="of a huge file", waits=True),
    Case(verify, _checked),
    Case(verify, _wrong, name="of a changed file", fails="mismatch"),
]


@pytest.mark.parametrize("check", checks(CASES), ids=str)
def test_what_planrunner_asks_of_every_capability(check: Check, tmp_path: Path) -> None:
    check(tmp_path)


def test_digests_are_computed_and_verified(cap: Outcomes, tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("hello")
    found = cap(compute, {"paths": ["a b.txt"], "manifest": "SUMS"})
    assert found.outputs == {"digests": {"a b.txt": HELLO}, "manifest": "SUMS"}
    assert cap(verify, {"manifest": "SUMS"}).outputs == {"checked": 1}


def test_a_changed_or_missing_file_fails_as_mismatch_with_its_name(cap: Outcomes, tmp_path: Path) -> None:
    outcome = cap(verify, _wrong(tmp_path))
    assert outcome.failure == "mismatch"
    assert outcome.outputs == {"wrong": ["gone"]}


def test_a_plan_routes_a_mismatch(plan_runner: Callable[..., Any], tmp_path: Path) -> None:
    _wrong(tmp_path)
    plan = """
plan: check
tasks:
  - id: verify
    uses: checksum.verify
    with: {manifest: SUMS}
    timeout: 10s
    next: [{on: mismatch, to: quarantine}]
  - {id: quarantine, uses: noop}
"""
    ran = plan_runner(plan, compute, verify)
    assert ran.state.tasks[ran.state.index["quarantine"]].status == "completed"


def test_a_run_is_replayed_without_reading_a_file(recording: Any, tmp_path: Path) -> None:
    _file(tmp_path)
    plan = "plan: sums\ntasks: [{id: sums, uses: checksum.compute, with: {paths: [a b.txt]}, timeout: 10s}]\n"
    ran = recording.run(plan, compute)
    (tmp_path / "a b.txt").unlink()
    assert recording.replay(ran.run_id).replayed.difference is None
