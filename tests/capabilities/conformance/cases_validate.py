"""The checks of code, tests and data, with real tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case

JUNIT = '<testsuite><testcase name="a" time="1"/><testcase name="b"><failure message="no"/></testcase></testsuite>'


def _project(**inputs: Any) -> Any:
    def setup(directory: Path) -> dict[str, Any]:
        (directory / "pytest.ini").write_text("[pytest]\n")
        (directory / "ruff.toml").write_text("[lint]\nselect = ['F']\n")
        (directory / "shop.py").write_text(
            "import os\n\n\ndef half(cents: int) -> str:\n    return cents // 2\n\n\neval('1')\n"
        )
        (directory / "test_shop.py").write_text(
            "def test_one():\n    assert True\n\n\ndef test_two():\n    assert 1 == 2\n"
        )
        (directory / "test_slow.py").write_text("import time\n\n\ndef test_slow():\n    time.sleep(30)\n")
        (directory / "junit.xml").write_text(JUNIT)
        (directory / "slow_plugin.py").write_text("import time\ntime.sleep(30)\n")
        return inputs

    return setup


TOOL = {"python": sys.executable}

CASES = [
    Case("validate.pytest", _project(paths="test_shop.py", fail=False, **TOOL), volatile=["duration"]),
    Case(
        "validate.pytest", _project(paths="test_shop.py", **TOOL), name="failing", fails="tests", volatile=["duration"]
    ),
    Case("validate.pytest", _project(paths="test_slow.py", **TOOL), name="long", waits=True),
    Case("validate.ruff", _project(paths="shop.py", layout=True, fail=False, **TOOL)),
    Case("validate.ruff", _project(paths="shop.py", **TOOL), name="failing", fails="findings"),
    Case("validate.mypy", _project(paths="shop.py", strict=True, fail=False, **TOOL)),
    Case("validate.bandit", _project(paths="shop.py", fail=False, **TOOL)),
    Case("validate.json_schema", lambda _: {"data": {"a": 1}, "schema": {"required": ["b"]}, "fail": False}),
    Case("validate.json_schema", lambda _: {"data": 1, "schema": {"type": "string"}}, name="failing", fails="findings"),
    Case("validate.junit", _project(files="*.xml", fail=False)),
]
