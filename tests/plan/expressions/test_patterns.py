from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.plan.expressions.evaluate import evaluate
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.patterns import search, spans
from planrunner.plan.expressions.values import EvaluationError, Names

ATOMS = st.sampled_from(
    ["a", "b", "A", ".", r"\d", r"\w", r"\s", "[ab]", "[^a]", "[a-c0-9]", r"\.", "^", "$", r"\b", r"\B", "é", "-"]
)
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,3}", "*?", "+?"])


def _joined(parts: list[tuple[str, str]]) -> str:
    return "".join(atom + ("" if atom in ("^", "$", r"\b", r"\B") else repeat) for atom, repeat in parts)


SEQUENCES = st.lists(st.tuples(ATOMS, REPEATS), max_size=4).map(_joined)
PATTERNS = st.recursive(
    SEQUENCES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, REPEATS).map(lambda pair: f"({pair[0]}){pair[1]}"),
        st.tuples(inner, inner).map("".join),
        inner.map(lambda pattern: f"(?:{pattern})"),
    ),
    max_leaves=6,
)
TEXTS = st.text(st.sampled_from("abAB01 .-\né_"), max_size=12)


@settings(max_examples=600, deadline=None)
@given(PATTERNS, TEXTS, st.sampled_from(["", "(?i)", "(?m)", "(?s)"]))
def test_a_pattern_finds_what_the_standard_library_finds(pattern: str, text: str, flags: str) -> None:
    assume(text or "\\B" not in pattern)  # the library itself changed its mind about an empty text
    assert search(flags + pattern, text) == bool(re.search(flags + pattern, text))


@pytest.mark.slow
@rows(
    ("pattern", "text"),
    [
        (r"(a+)+$", "a" * 200_000 + "b"),
        (r"(a|aa)+$", "a" * 200_000 + "b"),
        (r"(.*)*x", "a" * 200_000),
        (r"\s+$", " " * 200_000 + "x"),
        (r"(a?){50}a{50}c", "a" * 200_000),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 200_000),
    ],
)
def test_patterns_that_explode_elsewhere_take_linear_time(pattern: str, text: str) -> None:
    began = time.process_time()
    assert not search(pattern, text)
    assert time.process_time() - began < 2


@rows("pattern", [r"(a)\1", "(?=a)", "(?<!a)b", "(", ")", "[a", "*", "a**", "a{5,2}", "\\", "[b-a]", "(?x)a"])
def test_what_patterns_do_not_have_is_refused_with_words(pattern: str) -> None:
    with pytest.raises(EvaluationError, match="pattern"):
        search(pattern, "aab")


@pytest.mark.parametrize(
    "pattern", ["a{999}{999}", "(a{900}){900}", "a" * 5000, "(" * 500 + ")" * 500, "((a{30}){30}){30}"]
)
def test_patterns_that_grow_too_large_are_refused(pattern: str) -> None:
    with pytest.raises(EvaluationError):
        search(pattern, "a")


@pytest.mark.slow
def test_a_pattern_with_endlessly_many_states_ends() -> None:
    text = "".join("ab"[(i * i // 7) % 2] for i in range(300_000))
    began = time.process_time()
    try:
        search("(a|b)*a" + "(a|b)" * 60 + "c", text)
    except EvaluationError as error:
        assert "too long" in error.message
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    ("pattern", "text", "found"), [("ok$", "all ok\n", True), (r"ok\Z", "all ok\n", False), ("[[&|~]", "x|", True)]
)
def test_the_end_of_a_text_may_be_before_its_last_line_ending(pattern: str, text: str, found: bool) -> None:
    assert search(pattern, text) is found


def by_trying(pattern: str, text: str) -> list[tuple[int, int]]:
    """Leftmost, longest and not empty: each end of each start is tried by the standard library."""
    found, at = [], 0
    judge = re.compile(pattern)
    while at < len(text):
        ends = [end for end in range(len(text), at, -1) if _fits(judge, text, at, end)]
        if ends:
            found.append((at, ends[0]))
        at = ends[0] if ends else at + 1
    return found


def _fits(judge: re.Pattern[str], text: str, start: int, end: int) -> bool:
    """Whether exactly this part matches, with the text around it in sight."""
    marked = re.compile(rf"(?s)(?<=\A.{{{start}}})(?:{judge.pattern})(?=.{{{len(text) - end}}}\Z)")
    return any(match.span() == (start, end) for match in [marked.match(text, start)] if match)


@settings(max_examples=400, deadline=None)
@given(PATTERNS.filter(lambda pattern: "$" not in pattern), st.text(st.sampled_from("abA01 .-"), max_size=8))
def test_matches_are_the_leftmost_and_longest(pattern: str, text: str) -> None:
    assert spans(pattern, text) == by_trying(pattern, text)


@rows(
    ("text", "value"),
    [
        ("split_pattern('a, b ;c', '\\s*[,;]\\s*')", ["a", "b", "c"]),
        ("split_pattern(',a', ',')", ["", "a"]),
        ("split_pattern('abc', 'x*')", ["abc"]),
        ("replace_pattern('v1.20.3', '\\d+', 'N')", "vN.N.N"),
        ("replace_pattern('abcd cd', 'c|abcd', '-')", "- -d"),
        ("replace_pattern('a\\nb\\n', '(?m)$\\n', ';')", "a;b;"),
        ("replace_pattern('one two', '\\bt', 'T') | split_pattern('T')", ["one ", "wo"]),
    ],
)
def test_texts_are_split_and_replaced_by_pattern(text: str, value: object) -> None:
    assert evaluate(parse(text).tree, Names({})) == value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "text", "count"),
    [
        (r"[a-z]+x", "a" * 200_000, 0),
        (r"(a|aa)+", "a" * 200_000, 1),
        (r"\s+", "word " * 30_000, 30_000),
        (r".*x", "a" * 100_000 + "x" + "a" * 100_000, 1),
    ],
)
def test_all_matches_of_a_long_text_are_found_in_linear_time(pattern: str, text: str, count: int) -> None:
    began = time.process_time()
    assert len(spans(pattern, text)) == count
    assert time.process_time() - began < 3


def test_a_search_that_takes_too_long_says_so() -> None:
    with pytest.raises(EvaluationError, match="too long"):
        spans(r"a.*b|a", "a" * 20_000)
