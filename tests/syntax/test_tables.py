from __future__ import annotations

from typing import Any

import pytest

from planrunner.fileio import read_data
from planrunner.syntax import lalr
from planrunner.syntax.lalr import Unexpected, grammar, parse


class Whole:
    """Makes of each rule what it was handed."""

    def __getattr__(self, name: str) -> Any:
        return lambda children: (name, *children)


def test_a_grammar_that_was_changed_is_read_by_lark(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(folder: str, file: str) -> str:
        return read_data(folder, file).replace("SIGN: /[+-]/", "SIGN: /[+!-]/")

    with pytest.raises(Unexpected):
        parse("a ! b", grammar("expr"), Whole())
    monkeypatch.setattr(lalr, "read_data", changed)
    assert parse("a ! b", grammar.__wrapped__("expr"), Whole())
