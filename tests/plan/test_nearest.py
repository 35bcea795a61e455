from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import rows

from planrunner.plan.nearest import nearest

KEYS = ["needs", "when", "retry", "timeout", "outputs", "artifacts", "expect", "on_failure", "id", "run"]


@rows(
    ("word", "meant"),
    [
        *(
            ("need", "needs"),
            ("retrys", "retry"),
            ("tiemout", "timeout"),
            ("TIMEOUT", "timeout"),
            ("artefacts", "artifacts"),
        ),
        *(("onfailure", "on_failure"), ("rnu", "run"), ("wehn", "when"), ("x", None), ("colour", None), ("", None)),
    ],
)
def test_the_word_somebody_meant_is_found(word: str, meant: str | None) -> None:
    assert nearest(word, KEYS) == meant


def test_the_closest_wins_and_of_equals_the_first() -> None:
    assert nearest("test-12", ["test-123", "test-1", "test-12"]) == "test-12"
    assert nearest("tesd", ["test", "tess"]) == "test"


@given(st.text("abc-", min_size=4, max_size=12), st.integers(0, 10), st.sampled_from(["swap", "drop", "add", "change"]))
def test_one_slip_of_the_fingers_is_always_found(word: str, at: int, slip: str) -> None:
    at %= len(word) - 1
    changed = {
        "swap": word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        "drop": word[:at] + word[at + 1 :],
        "add": word[:at] + "z" + word[at:],
        "change": word[:at] + "z" + word[at + 1 :],
    }[slip]
    assert nearest(changed, ["zzzzzzzzzzzzzzzzzzzzzzzz", word]) == word


@pytest.mark.slow
def test_ten_thousand_candidates_take_less_than_a_second() -> None:
    for candidates in (
        [f"task-number-{number}" for number in range(10_000)],
        [f"{n:x}-{n * 7919:x}" for n in range(10_000)],
    ):
        began = time.process_time()
        nearest("taks-number-5001x", candidates)
        assert time.process_time() - began < 1
