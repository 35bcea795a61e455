"""Lessons: the same error in other words of the day is the same, solutions are counted, and the best comes first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rows import rows

from planrunner.knowledge.memory.entries import Entry, Source
from planrunner.knowledge.memory.layers import THRESHOLD, Layer, open_layer
from planrunner.knowledge.memory.lessons import Lesson, advise, key_of, learn, signature
from planrunner.knowledge.memory.places import Place
from planrunner.knowledge.vectors import hashed


@pytest.fixture
def layer(tmp_path: Path) -> Iterator[Layer]:
    with open_layer("project", {}, Place(str(tmp_path)), "lessons") as opened:
        yield opened


SAME = [
    ("connection to 10.0.0.7:5432 refused after 30.5 s", "connection to 192.168.1.20:6432 refused after 3 s"),
    ("No such file: '/tmp/run-8a1f/config.yaml'", "No such file: '/srv/app/releases/20/config.yaml'"),
    ("2026-11-26T08:01:02.123Z worker 7 died", "2025-01-02 23:59:59 worker 12 died"),
    ("<Lock object at 0x7f3a2b> is held", "<Lock object at 0x1> is held"),
    ("GET https://api.example.com/v1/users/17?x=1 answered 502", "GET http://localhost:8080/v2/items answered 503"),
    ("request 3f2504e0-4f89-41d3-9a0c-0305e82c3301 failed", "request 9b2d7a3e-0000-4c1d-8e2f-5a6b7c8d9e0f failed"),
    ("commit 9fceb02d0ae5 not found", "commit  0a1b2c3d4e5f   not found"),
    ("\x1b[31merror\x1b[0m: 12 tests failed", "error: 3 tests failed"),
]


@rows(("one", "other"), SAME)
def test_what_differs_each_time_is_not_part_of_a_signature(one: str, other: str) -> None:
    assert signature(one) == signature(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no module named yaml", "no module named lxml"),
        ("cannot open config.yaml", "cannot open journal.db"),
        ("permission denied: /etc/hosts", "permission denied: /etc/passwd"),
    ],
)
def test_what_an_error_is_about_is_part_of_it(one: str, other: str) -> None:
    assert signature(one) != signature(other)


def test_a_lesson_is_counted_and_recalled_for_a_similar_error(layer: Layer) -> None:
    error = "psycopg.OperationalError: connection to server at 10.0.0.7, port 5432 failed: timeout expired"
    for number, worked in enumerate((True, True, False)):
        learn(
            layer, Lesson("failure", error, "wait for the database", worked), Source("task", "mend", "R"), f"m{number}"
        )
    learn(layer, Lesson("failure", error, "wait for the database", worked=True), Source(), "m2")
    similar = "psycopg.OperationalError: connection to server at 10.9.9.9, port 6432 failed: timeout expired after 30 s"
    [advice] = advise(layer, similar, "failure", THRESHOLD)
    assert (advice.solution, advice.uses, advice.success_rate) == ("wait for the database", 3, 0.6667)
    assert advice.similarity > THRESHOLD
    assert advise(layer, "SyntaxError: invalid syntax in main.py", "failure", THRESHOLD) == []
    assert advise(layer, similar, "pattern", THRESHOLD) == [] and advise(layer, "", "failure", THRESHOLD) == []


NEVER_USED = {"problem": "disk full", "solution": "s", "signature": "disk full", "uses": 0, "worked": 0}


@pytest.mark.parametrize("value", ["no lesson", {"signature": "disk full"}, NEVER_USED])
def test_what_a_person_put_beside_the_lessons_is_no_advice(layer: Layer, value: Any) -> None:
    key = key_of("failure", "disk full", "s")
    layer.put(Entry(key, value, ("failure",), vector=hashed("disk full")), "m1")
    assert advise(layer, "disk full", "failure", THRESHOLD) == []
    learn(layer, Lesson("failure", "disk full", "s", worked=True), Source(), "m2")
    assert [advice.uses for advice in advise(layer, "disk full", "failure", THRESHOLD)] == [1]


def test_the_solution_that_mostly_worked_comes_first(layer: Layer) -> None:
    error = "disk quota exceeded while writing chunk 17"
    for number in range(6):
        learn(layer, Lesson("failure", error, "retry", worked=number == 0), Source(), f"r{number}")
        learn(layer, Lesson("failure", error, "clean the cache", worked=number != 0), Source(), f"c{number}")
    learn(layer, Lesson("failure", error, "buy a disk", worked=True), Source(), "b")
    advices = advise(layer, "disk quota exceeded while writing chunk 99", "failure", THRESHOLD)
    assert [advice.solution for advice in advices] == ["clean the cache", "buy a disk", "retry"]


def test_a_count_is_taken_back_and_with_the_first_the_lesson(layer: Layer) -> None:
    learn(layer, Lesson("pattern", "parse a date", {"template": "fromisoformat"}, worked=True), Source(), "m1")
    learn(layer, Lesson("pattern", "parse a date", {"template": "fromisoformat"}, worked=False), Source(), "m2")
    assert layer.revert("m2")
    assert [advice.uses for advice in advise(layer, "parse a date", "pattern", THRESHOLD)] == [1]
    assert layer.revert("m1") and layer.page()[1] == 0
