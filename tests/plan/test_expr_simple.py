from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planrunner.plan.expressions.grammar import parse_by_grammar
from planrunner.plan.expressions.parse import classify, is_wording, parse_simple
from planrunner.plan.expressions.values import ExpressionError

SIMPLE = [
    "exit_code == 0",
    "  duration <10m\n",
    "duration<4m and exit_code!=1",
    "tasks.sign-off.outputs.total > 1 and tasks.a-b-.ok or not artifacts.my-report.size <= 5MB",
    "params.full",
    "not params.full",
    "not  x in y",
    "a not  in b.c and d not\tcontains 'x'",
    "stderr matches '\\d+\\'\\n\\u0041'",
    '"timeout" in stderr',
    'params.stage == "prod"',
    "true",
    "a == null or b == false",
    "cost < $2 and cost < $0.50 and tokens < 200k and share >= 80%",
    "time < 1h30m and size > 2GiB and n == 1.5e3 and m == 007",
    "a.in.and.not == 1",
    "tasks.not == 1",
    "tasks == artifacts",
    "a or b and c or d",
    "2M == 2.5M",
]
FOR_THE_GRAMMAR = [
    "",
    "a b",
    "a and",
    "and",
    "a < b < c",
    "a == not b",
    "not not a",
    "(a)",
    "a[0]",
    "len(a)",
    "a (b)",
    "a-b",
    "a - b",
    "a .b",
    "sign-off.ok",
    "a is empty",
    "a is not b",
    "x is a and y",
    "-1",
    "[1]",
    "a == 10 minutes",
    "a == 30m1h",
    "a == 10min",
    "a == 1.",
    "a == 'open",
    "a = 1",
    "a === 1",
    "a =~ 'x'",
    "tasks.1",
    "tasks.a-(",
    "10%3",
    f"a == {'1' * 31}",
    "a == 1e999",
    "a if b else c",
    "$",
    "nota.b c",
    "true.x",
    "'x'.y",
]
WORDS = """a b tasks artifacts tasks.x-y artifacts.r . .x .in and or not in is if else contains matches not_in true false null
0 10 1.5 1e5 10m 1h30m 30m1h 5MB 2GiB $2 $0.50 80% 200k 1.5k 12x == != <= >= < > = === - + % ( ) [ ] , 'x' "y\\"z" '\\u0041'
'open empty an number sign-off sign-off.ok é""".split()
TEXTS = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(["", " ", " ", " ", "\n  "])), max_size=9).map(
    lambda parts: "".join(word + gap for word, gap in parts)
)
OPERANDS = st.sampled_from(["a", "a.b", "tasks.x-y.ok", "true", "10", "1.50", "10m", "5MB", "$2", "80%", "3k", "'x'"])
CHAINS = st.lists(
    st.tuples(OPERANDS, st.sampled_from([" == ", "<", " in ", " not in ", " and ", " or ", " and not ", " matches "])),
    min_size=1,
    max_size=8,
).map(lambda parts: "".join(operand + joint for operand, joint in parts) + "z")


def by_grammar(text: str) -> object:
    try:
        return parse_by_grammar(text)
    except ExpressionError as error:
        return error


@pytest.mark.parametrize("text", SIMPLE)
def test_a_simple_expression_has_the_tree_that_the_grammar_gives_it(text: str) -> None:
    found = parse_simple(text)
    assert found is not None
    assert repr(found) == repr(parse_by_grammar(text))


@pytest.mark.parametrize("text", FOR_THE_GRAMMAR)
def test_what_is_not_simple_is_left_to_the_grammar(text: str) -> None:
    assert parse_simple(text) is None


@settings(deadline=None, max_examples=600)
@given(TEXTS | CHAINS | st.text(max_size=12))
def test_both_ways_of_parsing_agree_on_every_text(text: str) -> None:
    found = parse_simple(text)
    if found is not None:
        assert repr(found) == repr(by_grammar(text))


@settings(deadline=None, max_examples=600)
@given(TEXTS | CHAINS)
def test_a_text_that_begins_with_two_words_never_parses(text: str) -> None:
    if is_wording(text):
        assert isinstance(by_grammar(text), ExpressionError)


def test_plain_words_are_told_apart_from_expressions_without_the_grammar() -> None:
    known = frozenset({"exit_code"})
    assert is_wording("backwards compatible with version 1")
    assert classify("backwards compatible with version 1", known) == "backwards compatible with version 1"
    assert isinstance(classify("exit_code equals 0", known), ExpressionError)


def test_simple_expressions_do_not_load_the_grammar() -> None:
    code = (
        "import sys; from planrunner.plan.expressions.parse import classify; from planrunner.plan.expressions.parse "
        "import parse; parse('exit_code == 0 and duration < 10m'); classify('reads well', frozenset()); "
        "sys.exit('lark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=240).returncode == 0
