"""The section `sql` of planrunner.yaml, checked with places before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrunner.safety.project import check_project


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{databases: {a: {url: 1}}}", "`url` must be text, not the number 1"),
        ("{databases: {a: {url: shop.db}}}", "`url` cannot be `shop.db`"),
        ("{databases: {a: {url_env: A B}}}", "`url_env` cannot be `A B`"),
        ("{databases: {a: {}}}", "a database needs the key `url`"),
        ("{databases: {a: {url: 'sqlite:///a', url_env: A}}}", "`url_env` and `url` exclude each other, keep one"),
        ("{databases: {a: {url: 'sqlite:///a', preview: try}}}", "`preview` must be `calls` or `rollback`, not `try`"),
        ("{database: {}}", "`sql` has no key `database`, did you mean `databases`?"),
    ],
)
def test_a_fault_is_named_at_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "planrunner.yaml").write_text(f"sql: {text}\n")
    found = check_project(str(tmp_path))
    assert found is not None
    assert [finding.message for finding in found.findings] == [message]
    assert found.findings[0].span.start >= len("sql: ")


def test_a_sound_section_has_no_findings(tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text(
        "sql:\n  databases:\n    main: {url_env: DATABASE_URL, preview: rollback}\n    book: {url: 'sqlite:///book.db'}\n"
    )
    found = check_project(str(tmp_path))
    assert found is not None
    assert found.findings == ()
