"""What YAML makes of an input that was meant as text: a number, a list, a map."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from files_desk import Desk, hasty  # noqa: F401 - a fixture

from planrunner.capabilities.contract import Failure


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("written", "mode"),
    [("0644", 0o644), (644, 0o644), (755, 0o755), (600, 0o600), (777, 0o777), ("400", 0o400), ("0o640", 0o640)],
)
def test_permissions_may_be_a_number_where_it_can_mean_one_thing_alone(desk: Desk, written: Any, mode: int) -> None:
    desk.fresh("write", path="a", content="x", mode=written)
    assert (desk.root / "a").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("written", [420, 493, 400, 0, -644, 888, 1777, True, None, ["0644"], 6.44, "rw"])
def test_other_numbers_are_no_permissions(desk: Desk, written: Any) -> None:
    for verb, more in (("write", {"content": "x"}), ("mkdir", {}), ("template", {"text": "x"})):
        with pytest.raises(Failure, match='`mode` must be octal permissions in quotes, such as "0644", found'):
            desk.fresh(verb, path="a", mode=written, **more)


@pytest.mark.parametrize(
    ("verb", "inputs", "message"),
    [
        ("write", {"path": "a", "content": 5}, '`content` must be text, found the number 5; .*content: "5"'),
        ("write", {"path": "a", "content": ["x"]}, "`content` must be text, found a list"),
        ("write", {"path": 5, "content": "x"}, "`path` must be text, found the number 5"),
        ("write", {"path": "a", "content": "x", "parents": "yes"}, "`parents` must be true or false, found str"),
        ("write", {"path": "a", "content": "x", "encoding": None}, "`encoding` must be text, found null"),
        ("append", {"path": "a", "content": {"a": 1}}, "`content` must be text, found a map"),
        ("template", {"path": "a", "text": "x", "values": ["a"]}, "`values` must be a map, found a list"),
        ("template", {"path": "a", "text": True}, "`text` must be text, found true"),
        ("copy", {"path": 1, "to": "b"}, "`path` must be text"),
        ("move", {"path": "a", "to": ["b"]}, "`to` must be text"),
        ("delete", {"path": "a", "recursive": 1}, "`recursive` must be true or false, found the number 1"),
        ("mkdir", {"path": {}}, "`path` must be text"),
        ("edit", {"diff": 5}, "`diff` must be text"),
        ("edit", {"blocks": ["a"]}, "`blocks` must be a list of maps"),
        ("edit", {"blocks": {"path": "a"}}, "`blocks` must be a list of maps"),
        ("restore", {"snapshot": 5}, "`snapshot` must be text"),
        ("snapshot", {"path": 5}, "`path` must be text"),
        ("snapshot", {"patterns": [5]}, "`patterns` must be text"),
        ("glob", {"patterns": 5}, "`patterns` must be text"),
        ("glob", {"patterns": "*", "limit": "9"}, "`limit` must be a number"),
        ("read", {"path": 5}, "`path` must be text"),
        ("read", {"path": "a", "encoding": 8}, "`encoding` must be text"),
    ],
)
def test_an_input_of_another_kind_is_named(desk: Desk, verb: str, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(Failure, match=message) as refused:
        desk.fresh(verb, **inputs)
    assert refused.value.failure == "logic"


def test_a_missing_folder_is_named_with_the_way_to_make_it(desk: Desk) -> None:
    with pytest.raises(Failure, match="folder `a/b` does not exist for a/b/c; `parents: true` makes it"):
        desk.fresh("write", path="a/b/c", content="x")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_is_read_only_is_told_by_the_file_that_was_meant(desk: Desk) -> None:
    (desk.root / "shut").mkdir(mode=0o555)
    with pytest.raises(Failure, match=r"^shut/a cannot be written: Permission denied"):
        desk.fresh("write", path="shut/a", content="x")


def test_a_file_of_any_name_can_be_changed_and_put_back(desk: Desk) -> None:
    for name in (" odd\nname\\", "..."):
        (desk.root / name).write_text("old")
        desk.visit += 1
        noted = desk.capture("write", path=name, content="new")
        ended = desk.fresh("write", path=name, content="new")
        desk.undo("write", noted, ended)
        assert (desk.root / name).read_text() == "old"
