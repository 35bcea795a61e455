"""SQL as text: strings, comments, statements, and the places of values."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import rows

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.sql.statements import bound, first_word, pieces, single, statements

STRINGS = [
    ("sqlite", "SELECT ':no;' , \";:no\", `;:no`, [;:no] -- ;:no"),
    ("postgresql", "SELECT ':no;', \";:no\", $$;:no$$, $a$ $$ ;:no $a$, E'\\';:no' /* ;/* :no */ ; */ -- ;:no"),
    ("postgresql", "SELECT 1::int, a[1:2], '12:30'"),
]


@rows(("dialect", "text"), STRINGS)
def test_what_stands_in_strings_and_comments_is_neither_a_value_nor_an_end(dialect: str, text: str) -> None:
    assert statements(text, dialect) == [text]
    assert bound(text, dialect, {}).text == text


@given(
    st.text(st.sampled_from(list("ab'\"`[]$;:-/*% \n\\eE1")), max_size=40), st.sampled_from(["sqlite", "postgresql"])
)
def test_every_text_is_the_sum_of_its_pieces_or_refused(text: str, dialect: str) -> None:
    try:
        assert "".join(piece.text for piece in pieces(text, dialect)) == text
    except Failure as failure:
        assert "never ends" in str(failure)


def test_a_script_falls_into_its_statements() -> None:
    text = "-- first\nCREATE TABLE a (x);;\n\nINSERT INTO a VALUES (';'); -- done\n"
    assert statements(text, "postgresql") == ["-- first\nCREATE TABLE a (x)", "INSERT INTO a VALUES (';')"]


def test_the_body_of_a_trigger_is_part_of_its_statement() -> None:
    text = "CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE a SET x = 1; DELETE FROM a; END; SELECT 1;"
    assert len(statements(text, "sqlite")) == 2
    function = "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END; $$; SELECT f()"
    assert len(statements(function, "postgresql")) == 2
    atomic = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END; SELECT ';'"
    assert [len(each) for each in statements(atomic, "postgresql")] == [92, 10]


@pytest.mark.parametrize("text", ["SELECT 'open", 'SELECT "open', "SELECT 1 /* open", "SELECT $a$ open $b$ '"])
def test_a_string_or_comment_without_end_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="never ends"):
        statements(text, "postgresql")


@rows(
    "text",
    [
        "COMMIT",
        "/* x */ commit",
        "-- x\nEnd",
        "ROLLBACK TO a",
        "begin",
        "SAVEPOINT a",
        "ATTACH 'x' AS y",
        "( (abort",
        "PREPARE /* x */ transaction 'x'",
    ],
)
def test_a_statement_about_the_transaction_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="is not allowed") as refused:
        single(text, "sqlite")
    assert refused.value.failure == "policy"


def test_several_statements_or_none_are_refused_where_one_is_wanted() -> None:
    with pytest.raises(Failure, match="takes one statement, not 2"):
        single("SELECT 1; SELECT 2", "sqlite")
    with pytest.raises(Failure, match="the text has no statement"):
        single(" ; -- nothing", "sqlite")
    assert single("SELECT 1;", "sqlite") == "SELECT 1"
    assert first_word("  -- x\n (select 1)", "sqlite") == "SELECT"


class TestBinding:
    def test_names_become_those_of_the_driver(self) -> None:
        text = "SELECT :a, ':a', :a::text, 5 % 2 WHERE x LIKE '%y'"
        assert bound(text, "postgresql", {"a": 1}) == (
            "SELECT %(a)s, ':a', %(a)s::text, 5 %% 2 WHERE x LIKE '%%y'", {"a": 1},
        )  # fmt: skip
        assert bound("SELECT :a, '%'", "sqlite", {"a": 1}) == ("SELECT :a, '%'", {"a": 1})

    def test_a_list_after_in_becomes_one_value_each(self) -> None:
        assert bound("x IN :l", "sqlite", {"l": [1, 2]}) == ("x IN (:l__0, :l__1)", {"l__0": 1, "l__1": 2})
        assert bound("x in :l", "sqlite", {"l": []}) == ("x in ()", {})
        taken = bound("x IN :l AND y = :l__0", "sqlite", {"l": [1], "l__0": 2})
        assert taken == ("x IN (:l__0_) AND y = :l__0", {"l__0_": 1, "l__0": 2})
        assert bound("x NOT IN :l", "postgresql", {"l": []}) == ("x <> ALL (%(l)s)", {"l": "{}"})
        assert bound("x = ANY(:l)", "postgresql", {"l": [1]}) == ("x = ANY(%(l)s)", {"l": [1]})
        with pytest.raises(Failure, match="`:l` is a list, which SQLite takes after IN alone"):
            bound("x = :l", "sqlite", {"l": [1]})

    def test_values_and_names_have_to_match(self) -> None:
        with pytest.raises(Failure, match="the statement has no value for `:b`, `:c`"):
            bound("SELECT :a, :b, :c", "sqlite", {"a": 1})
        with pytest.raises(Failure, match="the statement does not use `:b`"):
            bound("SELECT :a, ':b'", "sqlite", {"a": 1, "b": 2})

    @given(st.text(max_size=30), st.lists(st.text(max_size=10), max_size=3))
    def test_no_value_is_ever_read_as_sql(self, text: str, several: list[str]) -> None:
        values: dict[str, Any] = {"a": text, "l": several}
        call = bound("SELECT :a, :a IN :l, ':a'", "sqlite", values)
        row = sqlite3.connect(":memory:").execute(call.text, call.values).fetchone()
        assert row == (text, int(text in several), ":a")
