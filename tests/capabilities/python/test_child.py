"""Arguments as annotations want them, and results as JSON data."""

from __future__ import annotations

import datetime as dt
import enum
from collections import namedtuple
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.capabilities.python.child import Unfit, arguments, fitted, outputs_of


@dataclass
class Item:
    name: str
    price: Decimal = Decimal(1)
    labels: list[str] = field(default_factory=list)


class Point(NamedTuple):
    x: int
    y: int = 0


class Row(TypedDict):
    id: int
    note: NotRequired[str]


class Colour(enum.Enum):
    RED = "red"


FITS: list[tuple[Any, Any, Any]] = [
    (3, int, 3), (3, float, 3.0), ("x", str, "x"), (True, bool, True), (None, type(None), None),
    ([1, 2], list[int], [1, 2]), ([1, 2], tuple[int, int], (1, 2)), ([1, 2], tuple[int, ...], (1, 2)),
    ({"a": 1}, dict[str, int], {"a": 1}), (None, int | None, None), ("a", int | str, "a"),
    ("eur", Literal["eur", "usd"], "eur"), (5, Annotated[int, "euros"], 5),
    ({"name": "x", "price": "2.50"}, Item, Item("x", Decimal("2.50"))), ({"x": 1}, Point, Point(1, 0)),
    ({"id": 1}, Row, {"id": 1}), ([{"x": 1}], list[Point], [Point(1)]),
    ("2026-01-02", dt.date, dt.date(2026, 1, 2)), ("2026-01-02T03:04:05+00:00", dt.datetime, dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
    ("a/b", Path, Path("a/b")), ("red", Colour, Colour.RED), ({"any": [1]}, Any, {"any": [1]}),
]  # fmt: skip

UNFIT: list[tuple[Any, Any, str]] = [
    (True, int, "`a` has to be a whole number, found true"),
    (1.5, int, "`a` has to be a whole number, found 1.5"),
    ("1", float, '`a` has to be a number, found "1"'),
    (1, str, "`a` has to be text, found 1"),
    (0, bool, "`a` has to be true or false, found 0"),
    ([1, "x"], list[int], '`a[1]` has to be a whole number, found "x"'),
    ([1], tuple[int, int], "`a` has to be a list of 2, found [1]"),
    ({"k": "v"}, dict[str, int], '`a.k` has to be a whole number, found "v"'),
    ("x", int | None, '`a` has to be a whole number or nothing, found "x"'),
    (True, Literal[1, 2], "`a` is true, and may be 1 or 2"),
    ({"nam": "x"}, Item, "`a` does not know `nam` and needs `name`"),
    ({"name": "x", "labels": [1]}, Item, "`a.labels[0]` has to be text, found 1"),
    ({"id": "x"}, Row, '`a.id` has to be a whole number, found "x"'),
    ([], Row, "`a` has to be a map, found []"),
    ("soon", dt.date, '`a` has to be a date, found "soon"'),
    ("blue", Colour, '`a` has to be a Colour, found "blue"'),
]


@rows(("value", "hint", "wanted"), FITS)
def test_a_value_that_fits_its_annotation_arrives_as_that_type(value: Any, hint: Any, wanted: Any) -> None:
    found = fitted(value, hint, "a")
    assert found == wanted
    assert type(found) is type(wanted)


@rows(("value", "hint", "message"), UNFIT)
def test_a_value_that_does_not_fit_is_refused_with_its_place(value: Any, hint: Any, message: str) -> None:
    with pytest.raises(Unfit) as refused:
        fitted(value, hint, "a")
    assert str(refused.value) == message


def test_missing_and_unknown_arguments_are_named() -> None:
    def total(items: list[int], *, rate: float = 1.0) -> None: ...

    with pytest.raises(Unfit, match="the function has no parameter `item` and needs `items`"):
        arguments(total, {"item": [1]})
    assert arguments(total, {"items": [1], "rate": 2}) == {"items": [1], "rate": 2.0}


def test_a_function_that_takes_any_name_gets_any_name() -> None:
    def keep(**values: int) -> None: ...

    assert arguments(keep, {"a": "x"}) == {"a": "x"}


class TestResults:
    def test_a_mapping_or_a_record_gives_outputs_by_name_and_anything_else_one_value(self) -> None:
        assert outputs_of({"a": 1}) == {"a": 1}
        assert outputs_of(Item("x")) == {"name": "x", "price": "1", "labels": []}
        assert outputs_of(namedtuple("Pair", "a b")(1, 2)) == {"a": 1, "b": 2}
        assert outputs_of([(1, 2)]) == {"value": [[1, 2]]}
        assert outputs_of(dt.date(2026, 1, 2)) == {"value": "2026-01-02"}
        assert outputs_of(None) == {}

    @pytest.mark.parametrize(
        ("result", "message"),
        [
            (float("nan"), "the result is nan, which JSON cannot hold"),
            ({"a": [1, float("inf")]}, r"the result\.a\[1\] is inf"),
            ({1: 2}, "the result has the key 1, which is not text"),
            ({"a": {1, 2}}, r"the result\.a is a set, which is not JSON data"),
            (b"x", "is a bytes"),
            ("\ud800", "text that is not Unicode"),
        ],
    )
    def test_what_json_cannot_hold_is_refused_with_its_place(self, result: Any, message: str) -> None:
        with pytest.raises(Unfit, match=message):
            outputs_of(result)

    def test_data_that_goes_around_in_a_circle_is_refused(self) -> None:
        ring: list[Any] = []
        ring.append(ring)
        with pytest.raises(Unfit, match="around in a circle"):
            outputs_of(ring)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=40)
@given(st.dictionaries(st.text("abc"), PLAIN))
def test_json_data_comes_out_as_it_went_in(data: dict[str, Any]) -> None:
    assert outputs_of(data) == data
