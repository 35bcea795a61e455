from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.tree import show
from planrunner.plan.expressions.values import ExpressionError


def test_an_expression_knows_its_text_its_place_and_the_names_it_reads() -> None:
    text = 'tasks.sign-off.outputs.n > len(params.hosts[attempt]) and artifacts.my-report["size"] < 5MB and tasks.sign-off.outputs.n'
    found = parse(text, 40)
    assert (found.text, found.span) == (text, (40, 40 + len(text)))
    assert found.paths == (
        ("tasks", "sign-off", "outputs", "n"),
        ("params", "hosts"),
        ("attempt",),
        ("artifacts", "my-report", "size"),
    )


def test_an_artifact_of_another_task_may_have_hyphens_in_its_name() -> None:
    text = "tasks.make-it . artifacts.hello-art-2.size - 1 > tasks.b.artifacts.c"
    found = parse(text)
    assert found.paths == (("tasks", "make-it", "artifacts", "hello-art-2", "size"), ("tasks", "b", "artifacts", "c"))
    name = found.tree[4][4][3]
    assert [text[node[1] : node[2]] for node in (name, name[3], name[3][3])] == [
        "tasks.make-it . artifacts.hello-art-2",
        "tasks.make-it . artifacts",
        "tasks.make-it",
    ]


def test_places_in_the_tree_count_from_the_start_of_the_text() -> None:
    text = "a == (b + 10m)"
    _, start, end, _, left, right = parse(text, 99).tree
    assert [text[node[1] : node[2]] for node in (left, right, right[4], right[5])] == ["a", "(b + 10m)", "b", "10m"]
    assert (start, end) == (0, len(text))


@rows(
    ("text", "message", "marked", "way_out"),
    [
        ("", "empty", "", ""),
        ("   ", "empty", "   ", ""),
        ("a && b", "`&&` is not an operator", "&&", "`and`"),
        ("a || b", "`||` is not an operator", "||", "`or`"),
        ("a = 1", "`=` is not an operator", "=", "`==`"),
        ("a === 1", "`===` is not an operator", "===", "`==`"),
        ("a =~ 'x'", "`=~` is not an operator", "=~", "`matches`"),
        ("a <> 1", "`<>` is not an operator", "<>", "`!=`"),
        ("!a", "`!` is not an operator", "!", "`not`"),
        ("a ** 2", "`**` is not an operator", "**", ""),
        ("a == ", "missing after `==`", "==", ""),
        ("a and", "missing after `and`", "and", ""),
        ("(a or b", "`(` is never closed", "(", ""),
        ("len(a, [1", "`[` is never closed", "[", ""),
        ("a)", "`)` is not expected", ")", "nothing is open"),
        ("(a or )", "`)` is not expected", ")", "a value is missing"),
        ("a b", "`b` is not expected", "b", "operator is missing"),
        ("a 'b'", "quoted text is not expected", "'b'", "operator is missing"),
        ("a == 'b", "has no end", "'b", "close it"),
        ("a > 10 minutes", "`minutes` is not expected", "minutes", "a unit stands right behind its number: `10m`"),
        ("a > 10min", "`10min` is neither a number nor a quantity", "10min", "`10m`"),
        ("a > 5 10m", "`10m` is not expected", "10m", "operator is missing"),
        ("a > 30m1h", "is not a quantity", "30m1h", "larger units first"),
        ("1 < a < 5", "cannot be chained", "1 < a < 5", "`and`"),
        ("a is a must", "`must` is not a type", "must", "text, number"),
        ("a == and", "`and` is not expected", "and", ""),
        ("{{ a }}", "`{` is not expected", "{", "without {{ }}"),
        ("a ? b : c", "`?` is not expected", "?", ""),
        ("a @ b", "`@` is not expected", "@", ""),
        ("9" * 40, "more than 30 characters", "9" * 40, ""),
    ],
)
def test_errors_say_what_is_wrong_where_and_how_to_mend_it(text: str, message: str, marked: str, way_out: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    assert text[error.start : error.end] == marked
    assert way_out in error.help
    assert error.code == "PLAN207"


@pytest.mark.slow
@rows(
    "text",
    [
        *(
            "(" * 100_000,
            "[" * 100_000,
            "not " * 100_000,
            "-" * 100_000,
            "a." * 100_000,
            "a[" * 100_000,
            "{a:" * 50_000,
        ),
        *("(" * 8_000, "not " * 2_000 + "a", "-" * 8_000 + "1", "a+" * 4_000 + "a", "[" * 4_000 + "]" * 4_000),
        *("a" + ".b" * 4_000, "a" + "[0]" * 2_000, "1 if a else " * 600 + "1", "(not " * 100 + "a" + ")" * 100),
    ],
)
def test_deep_and_long_texts_are_refused_without_a_crash(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ExpressionError):
        parse(text)
    assert time.process_time() - began < 3


def test_long_chains_of_and_are_not_deep() -> None:
    assert len(parse(" and ".join(["a.b"] * 1000)).tree[3]) == 1000


@settings(max_examples=500, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            "a b.c 1 10m 'x' ( ) [ ] { } : , and or not in is empty == < + - * / % if else tasks. $2".split()
        )
    ).map(" ".join)
)
def test_any_text_is_an_expression_or_refused_with_a_place(text: str) -> None:
    try:
        found = parse(text)
    except ExpressionError as error:
        assert 0 <= error.start <= error.end <= len(text)
        assert error.message
        return
    assert parse(show(found.tree, 100_000)).paths == found.paths
