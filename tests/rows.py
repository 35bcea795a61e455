"""Tests of many rows of data: one case for pytest, which reports each row that fails."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def rows(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """``pytest.mark.parametrize`` for rows that need no fixture anew: each row is a subtest, at a fifth of the price of a
    case. A row fails, is skipped and is named by itself."""
    table = list(values)
    assert table, "there are no rows"
    parts = names.replace(" ", "").split(",") if isinstance(names, str) else names

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def with_all_rows(subtests: pytest.Subtests, **others: Any) -> None:
            if "subtests" in parameters:
                others["subtests"] = subtests
            for row in table:
                given = dict(zip(parts, row if len(parts) > 1 else (row,), strict=True))
                with subtests.test(**given):
                    test(**given, **others)

        parameters = inspect.signature(test).parameters
        kept = [one for name, one in parameters.items() if name not in parts and name != "subtests"]
        own = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
        with_all_rows.__signature__ = inspect.Signature([*kept, own])  # type: ignore[attr-defined]
        return with_all_rows

    return decorate
