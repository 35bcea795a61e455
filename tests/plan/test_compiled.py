"""Compiled plans: everything survives, nothing else is needed to load them, damage is noticed."""

from __future__ import annotations

from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from plan_loading import corpus, loaded
from rows import rows

from planrunner.plan import compiled, model
from planrunner.plan.identity import digest
from planrunner.records import fields
from planrunner.source import Span


def same(one: Any, other: Any) -> bool:
    """Equality that tells records, tuples, lists, truth and numbers apart, all the way down."""
    if one.__class__ is not other.__class__:
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


@pytest.mark.parametrize("path", [*corpus("ok"), *corpus("pairs")], ids=lambda path: path.name)
def test_a_plan_comes_back_as_it_was_with_all_its_places(path: Path) -> None:
    plan = loaded(path.read_text(), path.name).plan
    assert plan is not None
    again = compiled.load(compiled.dump(plan))
    assert same(again, plan)
    assert digest(again) == digest(plan)


EXPRESSION = model.Expression(
    "a > 1", model.Tree(("compare", 0, 5, ">", ("name", 0, 1, "a"), ("const", 4, 5, 1))), (("a",),), Span(1, 6)
)
FULL: dict[Any, Any] = {
    str: "word",
    int: 7,
    bool: True,
    float: 2.5,
    model.Expression: EXPRESSION,
    Span: Span(3, 9),
    Any: {"a": [1, True, None, 2.5, "x"]},
}


def filled(kind: Any, depth: int = 0) -> Any:
    """A record in which no field has its default."""
    return kind(**{name: _value(hint, depth) for name, hint in get_type_hints(kind).items()})


def _value(hint: Any, depth: int) -> Any:
    if hint in FULL:
        return FULL[hint]
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return inside[-1]
    if origin in (Union, UnionType):
        return _value(next(each for each in inside if each is not NoneType), depth)
    if origin is tuple:
        if inside[0] is model.Task and depth > 1:
            return ()
        return tuple(_value(each, depth) for each in inside if each is not ...)
    if origin is dict:
        return {"a": _value(inside[1], depth)}
    if hint is model.Plan and depth > 1:
        return model.Plan("inner")
    return filled(hint, depth + (hint is model.Task))


def test_every_field_of_every_record_survives() -> None:
    plan = filled(model.Plan)
    assert [name for name in fields(plan) if getattr(plan, name) in (None, (), "", 0)] == []
    assert same(compiled.load(compiled.dump(plan)), plan)


def test_a_true_that_stands_where_a_one_is_the_default_survives() -> None:
    plan = model.Plan("p", tasks=(model.Task("a", inputs=False, priority=0, notes=0),))
    assert same(compiled.load(compiled.dump(plan)), plan)


@rows(
    "text",
    [
        *(
            "",
            "{}",
            "[]",
            "[1]",
            "[8,[],[]]",
            "[8,[],{}]",
            '[7,[],{"id":"p"}]',
            '[8,[[1]],{"id":"p"}]',
            '[8,[],{"id":1}]',
        ),
        *('[8,[],{"id":"p","colour":1}]', '[8,[],{"id":"p"}', '[8,[],{"id":"p","tasks":[1]}]'),
    ],
)
def test_damaged_text_is_refused_with_one_kind_of_error(text: str) -> None:
    with pytest.raises(ValueError):
        compiled.load(text)


def test_a_cut_text_is_refused() -> None:
    text = compiled.dump(model.Plan("p", tasks=(model.Task("a", uses="noop", span=Span(1, 2)),)))
    for end in range(len(text)):
        with pytest.raises(ValueError):
            compiled.load(text[:end])
