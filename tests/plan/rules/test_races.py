"""Lint finds tasks without an order between them that write one file, or of which one writes what the other reads."""

from __future__ import annotations

from typing import Any

import pytest
from rows import rows
from workbench import loaded

Json = Any


def races(*tasks: dict[str, Json], **keys: Json) -> list[str]:
    found = loaded(*tasks, **{"defaults": {"timeout": "1m"}, **keys}).findings
    return [finding.message for finding in found if finding.code == "PLAN510"]


def writes(name: str, path: str = "x.txt", **keys: Json) -> dict[str, Json]:
    return {"id": name, "uses": "files.write", "with": {"path": path, "content": name}, **keys}


def runs(name: str, script: str, **keys: Json) -> dict[str, Json]:
    return {"id": name, "run": script, **keys}


BOTH = "`a` and `b` both write `x.txt`, and neither waits for the other"
READ = "`b` reads `x.txt` while `a` may write it, and neither waits for the other"


@rows(
    ("one", "other", "said"),
    [
        (writes("a"), writes("b"), BOTH),
        (writes("a"), writes("b", "./sub/../x.txt"), BOTH),
        (runs("a", "echo a > x.txt"), runs("b", "make && echo b >x.txt"), BOTH),
        (runs("a", "echo a > x.txt"), runs("b", "echo b >> 'x.txt'"), BOTH),
        (runs("a", "make | tee x.txt"), writes("b"), BOTH),
        (runs("a", "cp y x.txt"), runs("b", "mv z x.txt"), BOTH),
        (runs("a", "make 2> x.txt"), runs("b", "echo x > ../x.txt", cwd="sub"), BOTH),
        (writes("a"), {"id": "b", "uses": "files.read", "with": {"path": "x.txt"}}, READ),
        (writes("a"), runs("b", "sort < x.txt"), READ),
        (writes("a"), runs("b", "cat x.txt"), READ),
        (writes("a"), {"id": "b", "uses": "files.copy", "with": {"path": "x.txt", "to": "y.txt"}}, READ),
        (writes("a"), runs("b", "true", artifacts=["x.txt"]), READ),
        (
            {"id": "a", "uses": "files.delete", "with": {"path": "out"}},
            writes("b", "out/x.txt"),
            "`a` writes `out` and `b` writes `out/x.txt`, and neither waits for the other",
        ),
        (
            {"id": "a", "subplan": [writes("in")]},
            {"id": "b", "loop": {"max": 2, "tasks": [runs("in", "echo > x.txt")]}},
            "`a/in` and `b/in` both write `x.txt`, and neither waits for the other",
        ),
    ],
)
def test_tasks_without_an_order_that_touch_one_file_are_found(one: Json, other: Json, said: str) -> None:
    assert races(one, other) == [said]
    assert not races(one, {**other, "needs": ["a"]})
    assert not races(one, {"id": "m", "uses": "noop", "needs": ["a"]}, {**other, "needs": ["m"]})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(writes("a"), writes("b", "y.txt"), id="other files"),
        pytest.param(runs("a", "echo >> log"), runs("b", "echo >> log"), id="lines that are appended"),
        pytest.param(runs("a", "cat x"), runs("b", "sort < x"), id="readers"),
        pytest.param(runs("a", "make > /dev/null"), runs("b", "echo > /dev/null"), id="devices"),
        pytest.param(runs("a", "cd sub; echo > x"), runs("b", "echo > x"), id="a script that goes elsewhere"),
        pytest.param(runs("a", 'echo > "$X"'), runs("b", 'echo > "$X"'), id="a variable"),
        pytest.param(runs("a", "echo > x{1,2}"), runs("b", "echo > x{1,2}"), id="a pattern"),
        pytest.param(runs("a", "echo > x", cwd="one"), runs("b", "echo > x", cwd="two"), id="other folders"),
        pytest.param(runs("a", "echo '> x'"), runs("b", "echo '> x'"), id="quoted"),
        pytest.param(runs("a", "make 2>&1"), runs("b", "make 2>&1"), id="a number of a stream"),
        pytest.param(
            {"id": "a", "uses": "files.mkdir", "with": {"path": "out"}},
            writes("b", "out/x"),
            id="a folder that is made",
        ),
        pytest.param(writes("a", when="params.f"), writes("b", when="not params.f"), id="opposite conditions"),
        pytest.param(writes("a", labels=["one"]), writes("b", labels=["one"]), id="one at a time"),
    ],
)
def test_what_cannot_collide_or_is_not_known_is_not_found(one: Json, other: Json) -> None:
    keys: Json = {"params": {"f": {"type": "bool", "default": True}}}
    if one.get("labels"):
        keys["limits"] = {"one": 1}
    assert not races(one, other, **keys)


def test_branches_of_which_one_is_taken_do_not_collide() -> None:
    options = [{"id": "l", "to": "a"}, {"id": "r", "to": "b"}]
    choice = {"id": "g", "gate": "decision", "ask": "which?", "options": options}
    assert not races(choice, writes("a"), writes("b"))
    assert not races(choice, {"id": "a", "uses": "noop"}, writes("c", needs=["a"]), writes("b"))
    build = runs("s", "make", on_success="a", on_failure="b")
    assert not races(build, writes("a"), writes("b"))
    assert not races(runs("s", "make", on_failure="b"), writes("a", needs=["s"]), writes("b"))
    assert not races(runs("s", "make"), writes("a", needs=["s"]), writes("b", needs=["s"], join="one_failed"))
    assert races(runs("s", "make", on_success=["a", "b"]), writes("a"), writes("b")) == [BOTH]
    assert races(runs("s", "make", on_failure="b"), writes("a"), writes("b")) == [BOTH]


def test_what_is_under_finally_follows() -> None:
    assert not races(writes("a"), **{"finally": [writes("b")]})
    assert races(**{"finally": [writes("a"), writes("b")]}, tasks=[{"id": "n", "uses": "noop"}]) == [BOTH]


def test_items_that_write_one_file_are_found_where_several_may_run_at_once() -> None:
    said = ["the items of `a` may run at once and each writes `x.txt`"]
    assert races(writes("a", foreach=[1, 2])) == said
    assert races({"id": "a", "foreach": [1, 2], "subplan": [runs("w", "echo > x.txt")]}) == said
    assert not races(writes("a", "x-{{ item }}.txt", foreach=[1, 2]))
    assert not races(writes("a", foreach=[1, 2], max_parallel=1))
    assert not races(writes("a", foreach=[1]))
    assert not races(runs("a", "echo {{ item }} >> log", foreach=[1, 2]))
    assert not races(runs("a", "echo > x", foreach=[1, 2], cwd="{{ item }}"))
    assert not races(writes("a", foreach=[1, 2]), max_parallel=1)


def test_a_linked_plan_counts_as_its_task() -> None:
    sub = {"tasks": [writes("in")]}
    linked = {"id": "a", "subplan": "s"}
    assert races(linked, writes("b"), subplans={"s": sub}) == [
        "`a/in` and `b` both write `x.txt`, and neither waits for the other"
    ]


def test_many_tasks_that_write_one_file_are_found_in_no_time() -> None:
    assert len(races(*(writes(f"t{n}") for n in range(300)))) == 299
