from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import rows

from planrunner.plan.expressions import quantities as q
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.quantities import Quantity
from planrunner.plan.expressions.values import ExpressionError


@rows(
    ("text", "seconds"),
    [
        *(("500ms", 0.5), ("10s", 10), ("5m", 300), ("2h", 7200), ("1d", 86400), ("1h30m", 5400), ("1.5h", 5400)),
        *(("1m500ms", 60.5), (" 10s ", 10), ("0s", 0)),
        *(
            (text, None)
            for text in ("10", "", "m", "30m1h", "1h 30m", "10 s", "-5s", "10min", "1e3s", "10S", "٣s", "1h1h")
        ),
    ],
)
def test_durations_need_a_unit_and_go_from_large_to_small(text: str, seconds: float | None) -> None:
    assert q.parse_duration(text) == seconds


@rows(
    ("text", "size"),
    [
        *(
            ("10B", 10),
            ("5KB", 5000),
            ("5kB", 5000),
            ("50MB", 50_000_000),
            ("2GiB", 2**31),
            ("1.5KB", 1500),
            ("1TB", 10**12),
        ),
        *((text, None) for text in ("10", "50mb", "MB", "5 MB", "-1B", "1KiB2B")),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert q.parse_size(text) == size


@rows(
    ("parser", "text", "value"),
    [
        *(
            (q.parse_money, "$2", 2),
            (q.parse_money, "$0.50", 0.5),
            (q.parse_money, "$3k", 3000),
            (q.parse_money, "2", None),
        ),
        *((q.parse_count, "200", 200), (q.parse_count, "200k", 200_000), (q.parse_count, "1.5M", 1_500_000)),
        *((q.parse_count, "1.5", None), (q.parse_count, "2MB", None), (q.parse_count, "0.0001k", None)),
        *((q.parse_percent, "80%", 0.8), (q.parse_percent, "80", None), (q.parse_percent, "%", None)),
        (q.parse_quantity, "10m", Quantity(600, "time")),
        (q.parse_quantity, "200k", None),
    ],
)
def test_money_counts_and_percentages(parser: object, text: str, value: object) -> None:
    assert callable(parser)
    assert parser(text) == value


@rows(
    ("quantity", "text"),
    [
        *((Quantity(600, "time"), "10m"), (Quantity(5400, "time"), "1h30m"), (Quantity(0.5, "time"), "500ms")),
        *((Quantity(0, "time"), "0s"), (Quantity(-90, "time"), "-1m30s"), (Quantity(12.3456, "time"), "12.346s")),
        *(
            (Quantity(50_000_000, "size"), "50MB"),
            (Quantity(2**31, "size"), "2GiB"),
            (Quantity(1_234_567, "size"), "1234567B"),
        ),
        *((Quantity(2, "money"), "$2"), (Quantity(0.5, "money"), "$0.50"), (Quantity(0.00031, "money"), "$0.00031")),
        *(
            (Quantity(0.8, "percent"), "80%"),
            (Quantity(0.123, "percent"), "12.3%"),
            (Quantity(-0.05, "percent"), "-5%"),
        ),
        (Quantity(float("inf"), "time"), "inf (time)"),
    ],
)
def test_quantities_read_as_people_write_them(quantity: Quantity, text: str) -> None:
    assert str(quantity) == text


@given(st.integers(0, 10**12))
def test_what_is_written_is_read_back_exactly(amount: int) -> None:
    assert q.parse_duration(q.format_duration(amount / 1000)) == pytest.approx(amount / 1000)
    assert q.parse_size(q.format_size(amount)) == amount
    assert q.parse_money(q.format_money(amount / 100)) == pytest.approx(amount / 100)
    assert q.parse_percent(q.format_percent(amount / 1000)) == pytest.approx(amount / 1000)


@rows(
    ("text", "near"),
    [
        ("10 minutes", "10m"), ("1min", "1m"), ("1.5 Hours", "1.5h"), ("200msec", "200ms"), ("1mb", "1MB"),
        ("2 gib", "2GiB"), ("10 bytes", "10B"), ("80 percent", "80%"), ("80 %", "80%"), ("10 m", "10m"),
        ("10m", None), ("1MB", None), ("5 EUR", None), ("soon", None), ("5", None),
    ],
)  # fmt: skip
def test_a_quantity_with_another_word_for_its_unit_is_named_as_it_is_written(text: str, near: str | None) -> None:
    assert q.meant_quantity(text) == near


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("outputs.size > 10 bytes", "a unit stands right behind its number: `10B`"),
        ("duration < 10 min and outputs.ok", "a unit stands right behind its number: `10m`"),
        ("outputs.size < 1mb", "`1mb` is neither a number nor a quantity, did you mean `1MB`?"),
        ("outputs.size < 10 apples", "an operator is missing before `apples`; write text in quotes"),
    ],
)
def test_an_expression_with_another_word_for_a_unit_names_the_unit(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert said in f"{caught.value.message} {caught.value.help}"
