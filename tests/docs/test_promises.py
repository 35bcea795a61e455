"""Every promise of the documentation that counts as kept names tests, and they exist; so does what it says of security."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "promises.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE + SECURITY)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_the_test_that_holds_a_promise_exists(file: str, name: str) -> None:
    assert re.search(rf"def {name}\(", (ROOT / file).read_text(encoding="utf-8"))


def test_every_promise_is_kept_by_a_test_or_says_that_it_is_not_built() -> None:
    rows = re.findall(r"^\| (P\d+) \| .* \| (.*) \| (.*)\|$", PAGE, re.MULTILINE)
    assert [row[0] for row in rows] == [f"P{number}" for number in range(1, 20)]
    for promise, state, tests in rows:
        assert ("tests/" in tests) != state.startswith("not built yet"), promise


def test_whatever_is_said_to_be_enforced_names_its_test() -> None:
    tables = re.findall(r"^\| enforced \| by \| held by \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", SECURITY, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(tables) >= 7 and len(rows) >= 30
    for row in rows:
        held = row.rpartition(" | ")[2]
        paths = re.findall(r"`(tests/[\w/]+\.py)", held)
        assert paths and all((ROOT / path).exists() for path in paths), row
