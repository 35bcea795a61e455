"""Expressions and templates are one language: each function is in both, by a call and by a filter, with one result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.plan.expressions.evaluate import evaluate
from planrunner.plan.expressions.functions import FUNCTIONS
from planrunner.plan.expressions.grammar import ALIASES
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.quantities import Quantity
from planrunner.plan.expressions.values import EvaluationError, Names, TemplateError, plain
from planrunner.plan.templates import render

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 50)
    | st.floats(-3, 3)
    | st.text('abc 1.{"', max_size=8)
    | st.builds(Quantity, st.integers(0, 90), st.sampled_from(["time", "size", "money", "percent"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)
COMPARED = ["==", "!=", "<", ">=", "in", "contains", "+", "-", "*", "/", "//", "%", "~"]


def result(way: Any, *arguments: Any) -> tuple[str, Any]:
    try:
        return "value", plain(way(*arguments))
    except (EvaluationError, TemplateError) as error:
        return "failure", error.message.partition(", in `")[0]


def expressed(text: str, scope: Names) -> tuple[str, Any]:
    return result(lambda: evaluate(parse(text).tree, scope))


@pytest.mark.parametrize("name", [*FUNCTIONS, *ALIASES])
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_function_gives_the_same_by_call_and_by_filter_in_expressions_and_templates(name: str, data: Any) -> None:
    known = FUNCTIONS.get(ALIASES.get(name, name))
    least, most = (2, 3) if known is None else (known.least, known.most or known.least + 1)
    given_ = [data.draw(VALUES) for _ in range(data.draw(st.integers(least, most)))]
    scope = Names({f"v{number}": value for number, value in enumerate(given_)})
    first, *rest = [f"v{number}" for number in range(len(given_))]
    call = f"{name}({', '.join([first, *rest])})"
    piped = f"{first} | {name}" + (f"({', '.join(rest)})" if rest else "")
    expected = expressed(call, scope)
    assert expressed(piped, scope) == expected
    for text in (call, piped):
        assert result(render, f"{{{{ {text} }}}}", scope) == expected


@settings(max_examples=400, deadline=None)
@given(VALUES, VALUES, st.sampled_from(COMPARED))
def test_an_operator_means_the_same_in_expressions_and_templates(left: Any, right: Any, operator: str) -> None:
    scope = Names({"left": left, "right": right})
    text = f"left {operator} right"
    assert result(render, f"{{{{ {text} }}}}", scope) == expressed(text, scope)


@rows(
    ("text", "value"),
    [
        ("1 == true", False),
        ("[x.n for x in rows if x.ok]", [1]),
        ("rows | selectattr('ok') | map(attribute='n') | list", [1]),
        ("[key ~ '=' ~ value for key, value in one.items()]", ["n=2"]),
        ("default(absent.x, 'y')", "y"),
        ("absent is not defined and nothing is none", True),
        ("'abc'[1:]", "bc"),
        ("rows | sort(attribute='n', reverse=true) | first", {"n": 2, "ok": False}),
        ("7 // 2", 3),
    ],
)
def test_what_either_notation_once_had_alone_is_in_both(text: str, value: Any) -> None:
    rows = [{"n": 1, "ok": True}, {"n": 2, "ok": False}]
    scope = Names({"rows": rows, "one": {"n": 2}, "nothing": None})
    assert expressed(text, scope) == ("value", value)
    assert render(f"{{{{ {text} }}}}", scope) == value
