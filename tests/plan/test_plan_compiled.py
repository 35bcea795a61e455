"""Compiled plans: everything survives, nothing else is needed to load them, damage is noticed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from plan_loading import corpus, loaded

from planrunner.plan import compiled, model
from planrunner.plan.identity import digest
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
    "a > 1", ("compare", 0, 5, ">", ("name", 0, 1, "a"), ("const", 4, 5, 1)), (("a",),), Span(1, 6)
)
FULL: dict[str, Any] = {
    "str": "word",
    "int": 7,
    "bool": True,
    "float": 2.5,
    "Expression": EXPRESSION,
    "Span": Span(3, 9),
}


def filled(kind: Any, depth: int = 0) -> Any:
    """A record in which no field has its default."""
    values: dict[str, Any] = {}
    for name, declared in kind.__annotations__.items():
        values[name] = _value(declared.__forward_arg__, depth)
    return kind(**values)


def _value(declared: str, depth: int) -> Any:
    if "tuple[tuple[str, ...], ...]" in declared:
        return (("a", "b"),)
    if "tuple[tuple[str, str], ...]" in declared:
        return (("A", "b"),)
    if "tuple[tuple[str, int], ...]" in declared:
        return (("label", 2),)
    if "tuple[tuple[str, Gate], ...]" in declared:
        return (("prod", filled(model.Gate, depth)),)
    if "tuple[tuple[str, Span], ...]" in declared:
        return (("uses", Span(4, 8)), ("run", Span(9, 12)))
    name = re.match(r"(?:tuple\[)?(\w+)", declared)
    kind = name[1] if name else ""
    if kind in FULL and kind[0].isupper():
        return (FULL[kind],) if declared.startswith("tuple") else FULL[kind]
    if hasattr(getattr(model, kind, None), "_fields"):
        if kind in ("Task", "Plan") and depth > 1:
            return () if declared.startswith("tuple") else model.Plan("inner")
        one = filled(getattr(model, kind), depth + (kind == "Task"))
        return (one,) if declared.startswith("tuple") else one
    if declared.startswith("str | tuple"):
        return ("echo", "two words")
    if declared.startswith("tuple[str"):
        return ("one", "two")
    if declared.startswith("tuple[Json"):
        return ("words", {"id": "x"})
    if declared == "Json":
        return {"a": [1, True, None, 2.5, "x"]}
    return next((value for name, value in FULL.items() if declared.startswith(name)), "word")


def test_every_field_of_every_record_survives() -> None:
    plan = filled(model.Plan)
    assert [name for name, value in zip(plan._fields, plan, strict=True) if value in (None, (), "", 0)] == []
    assert same(compiled.load(compiled.dump(plan)), plan)


def test_a_true_that_stands_where_a_one_is_the_default_survives() -> None:
    plan = model.Plan("p", tasks=(model.Task("a", inputs=False, priority=0, notes=0),))
    assert same(compiled.load(compiled.dump(plan)), plan)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "[1]", "[4,[],[],[0]]", "[4,[],[],[0,0,1]]", "[4,[],[],[99,1]]", "[3,[],[],[]]"),
        *("[4,[],[],3]", "[4,[[1]],[],[]]", "[4,[],[[1]],[]]", "[4,[],[]]"),
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


def test_equal_expressions_share_one_entry() -> None:
    body = "".join(f"  - {{id: t{number}, run: ls, expect: ['exit_code == 0']}}\n" for number in range(20))
    plan = loaded(f"plan: p\ntasks:\n{body}").plan
    assert plan is not None and compiled.dump(plan).count("exit_code == 0") == 21
