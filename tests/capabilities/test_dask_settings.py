"""The section `dask` of planrunner.yaml, checked with places before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrunner.safety.project import check_project


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{scheduler: 'http://a:1'}", "`scheduler` cannot be `http://a:1`"),
        ("{schedular: 'tcp://a:1'}", "`dask` has no key `schedular`, did you mean `scheduler`?"),
    ],
)
def test_a_fault_is_named_at_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "planrunner.yaml").write_text(f"dask: {text}\n")
    found = check_project(str(tmp_path))
    assert found is not None
    assert [finding.message for finding in found.findings] == [message]
    assert found.findings[0].span.start >= len("dask: ")
