from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.plan.expressions.evaluate import evaluate, explain, truth
from planrunner.plan.expressions.functions import FUNCTIONS
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.quantities import Quantity
from planrunner.plan.expressions.tree import show
from planrunner.plan.expressions.values import EvaluationError, MissingName, Names

SCOPE = Names(
    {
        "exit_code": 0,
        "duration": Quantity(90, "time"),
        "memory": {"has_space": Quantity(80_000_000, "size")},
        "cost": Quantity(1.5, "money"),
        "coverage": Quantity(0.85, "percent"),
        "stdout": "v12 ok\n",
        "none": None,
        "flag": True,
        "word": "false",
        "numbers": [3, 1, 2],
        "names": ["b", "a", "b"],
        "data": {"a": {"b": [10, {"c": "deep"}]}, "my-name": 5},
        "tasks": Names({"sign-off": {"ok": True, "outputs": {"n": 5, "contains": 1}}}),
        "sign-off": {"ok": True},
    }
)

VALUES: list[tuple[str, object]] = [
    ("exit_code == 0", True),
    ("exit_code is 0", True),
    ("exit_code is not 0", False),
    ("exit_code in [0, 2]", True),
    ("exit_code not in [0, 2]", False),
    ("exit_code is in [1]", False),
    ("duration < 10m and exit_code == 0", True),
    ("duration == 1m30s", True),
    ("memory.has_space >= 50MB", True),
    ("memory.has_space < 50MiB", False),
    ("cost <= $2", True),
    ("coverage >= 80%", True),
    ("coverage > 0.9", False),
    ("0.5 == 50%", True),
    ("not flag or exit_code == 1", False),
    ("none is empty", True),
    ("none is null", True),
    ("none == null", True),
    ("stdout is not empty", True),
    ("0 is empty", False),
    ("[] is empty and {} is empty and '' is empty", True),
    ("exit_code is a number", True),
    ("stdout is text", None),
    ("stdout is a text", True),
    ("duration is a duration", True),
    ("flag is not a number", True),
    ("stdout contains 'ok'", True),
    ("stdout not contains 'ok'", False),
    ("numbers contains 3", True),
    ("data contains 'my-name'", True),
    ("'a' in names", True),
    ("stdout matches '^v\\d+ ok$'", True),
    ("stdout not matches '^x'", True),
    ("1 == true", False),
    ("[1] == [true]", False),
    ("{a: [1, 2]} == {'a': [1, 2.0]}", True),
    ("'1' == 1", False),
    ("tasks.sign-off.outputs.n - 1", 4),
    ("tasks.sign-off.outputs.n-1", 4),
    ("tasks['sign-off'].outputs.contains", 1),
    ("sign-off.ok", True),
    ("data.a.b[1].c", "deep"),
    ("data.a['b'][-2]", 10),
    ("data['my-name']", 5),
    ("1 + 2 * 3 - 4 / 2", 5),
    ("(1 + 2) * 3", 9),
    ("7 / 2", 3.5),
    ("6 / 2", 3),
    ("7 % 3", 1),
    ("-3 + +2", -1),
    ("200k + 2M", 2_200_000),
    ("1.5e3", 1500.0),
    ("'a' + 'b'", "ab"),
    ("[1] + [2]", [1, 2]),
    ("duration * 2", Quantity(180, "time")),
    ("2 * duration", Quantity(180, "time")),
    ("50% * 10m", Quantity(300, "time")),
    ("10m / 1s", 600),
    ("1h - 30m", Quantity(1800, "time")),
    ("10 * 50%", 5),
    ("'yes' if flag else 1 / 0", "yes"),
    ("1 if not flag else 2 if exit_code == 1 else 3", 3),
    ("len(stdout)", 7),
    ("len(numbers) + len(data)", 5),
    ("min(3, 1, 2)", 1),
    ("max(numbers)", 3),
    ("max(1m, 90s)", Quantity(90, "time")),
    ("sum(numbers)", 6),
    ("sum([1s, 2m])", Quantity(121, "time")),
    ("sum([])", 0),
    ("abs(-2)", 2),
    ("round(2.567, 2)", 2.57),
    ("round(2.5)", 2),
    ("lower('AB') + upper('c') + trim('  d ')", "abCd"),
    ("split('a,b', ',')", ["a", "b"]),
    ("split(' a  b ')", ["a", "b"]),
    ("join([1, 'x', 2m, true], '-')", "1-x-2m-true"),
    ("starts_with(stdout, 'v') and ends_with(trim(stdout), 'ok')", True),
    ("replace('aXbX', 'X', '--')", "a--b--"),
    ("default(nope, 5)", 5),
    ("default(data.nope.deeper, 'x')", "x"),
    ("default(none, 7)", 7),
    ("default(first([]), 8)", 8),
    ("exists(data.a) and not exists(data.z) and not exists(none)", True),
    ("keys(data)", ["a", "my-name"]),
    ("values({a: 1, b: 2})", [1, 2]),
    ("merge({a: 1, b: 2}, {b: 3}, {c: 4})", {"a": 1, "b": 3, "c": 4}),
    ("range(3)", [0, 1, 2]),
    ("range(2, 4)", [2, 3]),
    ("range(4, 2)", []),
    ("batch(numbers, 2)", [[3, 1], [2]]),
    ("zip(numbers, names)", [[3, "b"], [1, "a"], [2, "b"]]),
    ("parse_json('{\"a\": [1, 2.5, null]}').a", [1, 2.5, None]),
    ("base64('grün')", "Z3LDvG4="),
    ("sha256('abc')", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ("unique(names)", ["b", "a"]),
    ("flatten([[1, [2]], null, [], ['a']])", [1, [2], "a"]),
    ("unique([1, 1.0, true, '1', [1], [1]])", [1, True, "1", [1]]),
    ("sort(numbers)", [1, 2, 3]),
    ("first(numbers) + last(numbers)", 5),
    ("any([false, true]) and not all([false, true]) and all([])", True),
    ("int('12') + int(3.9) + int(2m)", 135),
    ("float('1.5')", 1.5),
    ("str(10m) + str(5) + str(null)", "10m5null"),
    ("json({a: [1, 'x', 50MB]})", '{"a": [1, "x", "50MB"]}'),
    ("duration('1h30m') == 90m", True),
    ("duration(60) == 1m", True),
    ("size('2GiB') > size(5)", True),
]


@rows(("text", "expected"), VALUES)
def test_expressions_have_the_documented_values(text: str, expected: object) -> None:
    if expected is None:
        with pytest.raises(EvaluationError):
            evaluate(parse(text).tree, SCOPE)
        return
    tree = parse(text).tree
    value = evaluate(tree, SCOPE)
    assert value == expected
    assert isinstance(value, bool) == isinstance(expected, bool)
    assert evaluate(json.loads(json.dumps(tree)), SCOPE) == expected, "trees survive JSON"
    assert evaluate(parse(show(tree, 10_000)).tree, SCOPE) == expected, "what is shown means the same"


@rows(
    ("text", "words"),
    [
        ("nope", "`nope` is not defined"),
        ("data.nope", r"`data` has no `nope` \(it has `a`, `my-name`\)"),
        ("tasks.nope.ok", "`tasks` has no `nope`"),
        ("none.x", "`null` is null"),
        ("stdout.x", "`stdout` is text"),
        ("numbers[7]", "has 3 items"),
        ("numbers['a']", "is a list"),
        ("numbers[0.5]", "fraction"),
        ("tasks", "a group of names"),
        ("duration < 10%", "write a unit, such as `10s`"),
        ("duration == 90%", "write a unit"),
        ("duration < 5MB", "cannot be compared"),
        ("stdout < 5", "text cannot be compared with a number"),
        ("flag < true", "no order"),
        ("word and flag", "compare it"),
        ("not numbers", "is not empty"),
        ("1 / 0", "division by zero"),
        ("5 % 0", "division by zero"),
        ("'a' * 1000", "does not take"),
        ("1 + 'a'", r"write `str\(…\)` around a number"),
        ("1m + 1%", "does not take"),
        ("-stdout", "does not take text"),
        ("9223372036854775807 * 2", "too large"),
        ("1e308 * 10", "too large"),
        ("len(5)", "`len` takes text"),
        ("nofunc(5)", "unknown function `nofunc`"),
        ("len()", "does not take 0 arguments"),
        ("default(1)", "does not take 1 arguments"),
        ("int('x')", "cannot read"),
        ("duration('soon')", "write `10m`"),
        ("sort([1, 'a'])", "cannot be compared"),
        ("any([1])", "true and false"),
        ("split('a', '')", "not empty"),
        ("merge(data, 2)", "`merge` takes a map, not a number"),
        ("range(100001)", "more than 100,000 items"),
        ("range(1.5)", "whole numbers"),
        (
            "[" + ", ".join(["range(100000)"] * 9) + "]",
            "too many steps",
        ),
        ("batch(numbers, 0)", "at least 1"),
        ("zip([1], [])", "of 1 and 0 items"),
        ("parse_json('{')", "cannot read .* as JSON: Expecting"),
        ("parse_json('NaN')", "cannot read .* as JSON"),
        ("parse_json('1e999')", "too large"),
        ("sha256(5)", "`sha256` takes text"),
        ("stdout matches '('", "never closed"),
        ("first([])", "empty list"),
    ],
)
def test_what_has_no_value_says_why(text: str, words: str) -> None:
    with pytest.raises(EvaluationError, match=words):
        evaluate(parse(text).tree, SCOPE)


def test_only_true_and_false_are_conditions() -> None:
    assert truth(parse("exit_code == 0").tree, SCOPE) is True
    for text in ("word", "exit_code", "none", "numbers"):
        with pytest.raises(EvaluationError, match="not true or false"):
            truth(parse(text).tree, SCOPE)


def test_a_missing_name_is_told_from_other_errors() -> None:
    with pytest.raises(MissingName):
        evaluate(parse("data.nope.deeper").tree, SCOPE)
    with pytest.raises(EvaluationError) as caught:
        evaluate(parse("default(1 / 0, 5)").tree, SCOPE)
    assert not isinstance(caught.value, MissingName), "default does not hide errors"


@rows(
    ("text", "sentence"),
    [
        ("exit_code == 3", "`exit_code == 3` is false: exit_code is 0"),
        ("exit_code == 0 and duration < 1m", "`duration < 1m` is false: duration is 1m30s"),
        (
            "exit_code == 1 or duration < 1m",
            "`exit_code == 1` is false: exit_code is 0; `duration < 1m` is false: duration is 1m30s",
        ),
        ("len(numbers) >= 5", "`len(numbers) >= 5` is false: len(numbers) is 3, numbers is [3, 1, 2]"),
        ("not (exit_code == 0)", "`not exit_code == 0` is false: exit_code is 0"),
        ("nope == 1", "`nope == 1` cannot be decided: `nope` is not defined here"),
        ("false", "`false` is false"),
        ("exit_code == 0", "`exit_code == 0` is true: exit_code is 0"),
        ("default(nope, 1) == 2", "`default(nope, 1) == 2` is false: default(nope, 1) is 1, nope is missing"),
    ],
)
def test_a_false_condition_is_explained_by_the_values_it_read(text: str, sentence: str) -> None:
    assert explain(parse(text).tree, SCOPE) == sentence


@pytest.mark.slow
@rows(
    "text",
    [
        "join([" + ", ".join(["stdout"] * 500) + "], big)",
        "json([" + ", ".join(["big"] * 900) + "])",
        " + ".join(["big"] * 50),
        "replace(big, 'a', big)",
        "sort(long) == sort(long) and " * 20 + "true",
        "big matches '(a|b)*a(a|b){900}c'",
    ],
)
def test_no_expression_takes_much_time_or_memory(text: str) -> None:
    scope = Names(
        {"stdout": "x" * 10_000, "big": "ab" * 200_000 + "aabbab" * 90_000, "long": list(range(90_000, 0, -1))}
    )
    began = time.process_time()
    with pytest.raises(EvaluationError):
        evaluate(parse(text).tree, scope)
    assert time.process_time() - began < 5


def test_steps_are_counted() -> None:
    with pytest.raises(EvaluationError, match="too many steps"):
        evaluate(parse("1 + 2 + 3 + 4").tree, SCOPE, limit=5)


ATOMS: Any = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.builds(Quantity, st.floats(), st.sampled_from(["time", "size", "money", "percent"])),
)
DATA: Any = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
OPERATORS = ["==", "!=", "<", ">=", "in", "contains", "not matches", "matches", "+", "-", "*", "/", "%", "??"]


def _nodes(inner: Any) -> Any:
    offset = st.just(0)
    return st.one_of(
        st.tuples(st.sampled_from(["attr"]), offset, offset, inner, st.sampled_from(["a", "b"])),
        st.tuples(st.sampled_from(["index", "empty"]), offset, offset, inner, inner),
        st.tuples(st.sampled_from(["not", "sign", "kind"]), offset, offset, inner, inner),
        st.tuples(st.sampled_from(["and", "or", "list"]), offset, offset, st.lists(inner, max_size=3)),
        st.tuples(st.sampled_from(["compare", "binary"]), offset, offset, st.sampled_from(OPERATORS), inner, inner),
        st.tuples(st.just("if"), offset, offset, inner, inner, inner),
        st.tuples(
            st.just("call"),
            offset,
            offset,
            st.sampled_from([*FUNCTIONS, "default", "exists"]),
            st.lists(inner, max_size=3),
        ),
        st.lists(inner, max_size=4),
    )


LEAVES: Any = st.one_of(
    st.tuples(st.just("const"), st.just(0), st.just(0), DATA),
    st.tuples(st.just("name"), st.just(0), st.just(0), st.sampled_from(["a", "b", "c"])),
    st.tuples(st.just("quantity"), st.just(0), st.just(0), st.floats(), st.sampled_from(["time", "size", "x"])),
    DATA,
)
TREES: Any = st.recursive(LEAVES, _nodes, max_leaves=12)


@settings(max_examples=500, deadline=None)
@given(TREES, DATA, DATA)
def test_whatever_the_tree_and_the_values_the_only_exception_is_ours(tree: Any, one: Any, other: Any) -> None:
    scope = Names({"a": one, "b": Names({"a": other})})
    for function in (evaluate, truth):
        try:
            function(tree, scope)
        except EvaluationError as error:
            assert error.message


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(DATA, min_size=1, max_size=3))
def test_functions_take_any_value(name: str, values: list[Any]) -> None:
    tree = ("call", 0, 0, name, [("const", 0, 0, value) for value in values])
    try:
        evaluate(tree, Names({}))
    except EvaluationError as error:
        assert error.message


def test_deep_trees_and_deep_data_are_refused() -> None:
    tree: Any = ("const", 0, 0, True)
    for _ in range(100_000):
        tree = ("not", 0, 0, tree)
    with pytest.raises(EvaluationError):
        evaluate(tree, SCOPE)
    data: Any = []
    for _ in range(100_000):
        data = [data]
    for text in ("x == x", "json(x)", "unique([x, x])", "str(x)"):
        with pytest.raises(EvaluationError):
            evaluate(parse(text).tree, Names({"x": data}))
    while data:
        data = data[0]
