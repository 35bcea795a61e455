"""The capabilities of planrunner-checksum, called as planrunner calls them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import planrunner_checksum
import pytest
from planrunner_checksum import compute, verify

from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.plan.model import Task
from planrunner.plugins import Registry


class Log:
    def __init__(self) -> None:
        self.text = b""

    def write(self, data: bytes, stream: str = "stdout") -> None:
        self.text += data


@pytest.fixture
def context(tmp_path: Path) -> Context:
    call = Call("run", Task("task"), 1, "run:task:1", {}, "", (), {}, {}, str(tmp_path), "", None)
    return Context(call, Log(), lambda: False)


def test_digests_are_computed_and_verified(context: Context, tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("hello")
    found = compute(context, ["a b.txt"], manifest="SUMS")
    assert found.digests == {"a b.txt": hashlib.sha256(b"hello").hexdigest()}
    assert verify(context, "SUMS").checked == 1


def test_a_changed_or_missing_file_is_a_mismatch(context: Context, tmp_path: Path) -> None:
    for name in ("changed", "gone", "same"):
        (tmp_path / name).write_text(name)
    compute(context, ["changed", "gone", "same"], "sha512", "SUMS")
    (tmp_path / "changed").write_text("other")
    (tmp_path / "gone").unlink()
    with pytest.raises(Failure) as failed:
        verify(context, "SUMS", "sha512")
    assert failed.value.failure == "mismatch"
    assert failed.value.outputs == {"wrong": ["changed", "gone"]}
    assert b"gone cannot be read" in context.log.text


def test_a_cancelled_computation_stops(context: Context, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello")
    with pytest.raises(Failure, match="stopped while reading a"):
        compute(context._replace(cancelled=lambda: True), ["a"])


def test_planrunner_learns_everything_from_the_signatures() -> None:
    registry = Registry(plugins=False)
    registry.add(planrunner_checksum, "planrunner-checksum", "checksum")
    found = registry["checksum.compute"]
    assert [field.name for field in found.inputs] == ["paths", "algorithm", "manifest"]
    assert found.inputs[1].schema == {"enum": ["sha256", "sha512", "blake2b"]}
    assert [field.name for field in found.outputs] == ["digests", "manifest"]
    assert registry.problems() == ()
