from __future__ import annotations

from typing import Any

import pytest

from planrunner.syntax.lalr import Unexpected, grammar, parse


class Shape:
    """Shows what each rule is handed."""

    def __getattr__(self, name: str) -> Any:
        return lambda children: (name, *[child if isinstance(child, tuple) else str(child) for child in children])


def test_a_rule_is_called_with_what_its_symbols_became() -> None:
    built = parse("a + f(1, [x for x in y])", grammar("expr"), Shape())
    call = (
        "call",
        "f",
        "(",
        ("number", "1"),
        ("comprehension", "[", ("name", "x"), ("targets", "x"), ("name", "y"), "]"),
    )
    assert built == ("start", ("binary", ("name", "a"), "+", (*call, ")")))


@pytest.mark.parametrize(
    ("text", "at", "ended", "fits"),
    [("a b", 2, False, "SIGN"), ("a + ^", 4, False, "NAME"), ("(a", 0, True, "RPAR"), ("a )", 2, False, "$END")],
)
def test_what_fits_nowhere_is_told_with_what_would(text: str, at: int, ended: bool, fits: str) -> None:
    with pytest.raises(Unexpected) as raised:
        parse(text, grammar("expr"), Shape())
    error = raised.value
    assert (error.at, error.ended, fits in error.expected) == (at, ended, True)
