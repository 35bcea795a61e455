"""Every promise of the documentation that counts as kept names tests, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "promises.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_the_test_that_holds_a_promise_exists(file: str, name: str) -> None:
    assert re.search(rf"def {name}\(", (ROOT / file).read_text(encoding="utf-8"))


def test_every_promise_is_kept_by_a_test_or_says_that_it_is_not_built() -> None:
    rows = re.findall(r"^\| (P\d+) \| .* \| (.*) \| (.*)\|$", PAGE, re.MULTILINE)
    assert [row[0] for row in rows] == [f"P{number}" for number in range(1, 19)]
    for promise, state, tests in rows:
        assert ("tests/" in tests) != state.startswith("not built yet"), promise
