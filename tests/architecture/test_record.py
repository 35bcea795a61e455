"""Our ``NamedTuple`` behaves like the one of ``typing``."""

from __future__ import annotations

import ast
import copy
import importlib
import pickle
import typing
from pathlib import Path
from typing import NamedTuple

import pytest


class Ours(NamedTuple):
    """A record."""

    a: int
    b: str = "x"
    c: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return self.a * 2


class Theirs(typing.NamedTuple):
    a: int
    b: str = "x"
    c: tuple[int, ...] = ()


class One(NamedTuple):
    only: int


class Empty(NamedTuple):
    pass


@pytest.mark.parametrize(
    "make",
    [
        lambda kind: kind(1),
        lambda kind: kind(1, "y"),
        lambda kind: kind(a=1, c=(2,)),
        lambda kind: kind(1)._replace(b="z"),
        lambda kind: kind._make([1, "q", ()]),
    ],
)
def test_values_are_made_alike(make: typing.Any) -> None:
    assert tuple(make(Ours)) == tuple(make(Theirs))
    assert make(Ours)._asdict() == make(Theirs)._asdict()
    assert repr(make(Ours)) == repr(make(Theirs)).replace("Theirs", "Ours")


@pytest.mark.parametrize(
    "make", [lambda kind: kind(), lambda kind: kind(1, 2, 3, 4), lambda kind: kind(1, d=2), lambda kind: kind(1, a=2)]
)
def test_wrong_arguments_are_refused_alike(make: typing.Any) -> None:
    for kind in (Ours, Theirs, Ours):
        with pytest.raises(TypeError):
            make(kind)


def test_fields_defaults_and_annotations_are_told_alike() -> None:
    assert Ours._fields == Theirs._fields
    assert Ours._field_defaults == Theirs._field_defaults
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert Ours.__doc__ == "A record."
    assert Ours(2).double == 4


def test_values_are_frozen_hashable_and_survive_copying() -> None:
    value = Ours(1, "y", (3,))
    with pytest.raises(AttributeError):
        value.a = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        value.other = 2  # type: ignore[attr-defined]
    assert hash(value) == hash(Ours(1, "y", (3,)))
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    assert type(copy.copy(value)) is Ours


def test_values_match_by_position() -> None:
    match Ours(1, "y"):
        case Ours(a, b, c):
            assert (a, b, c) == (1, "y", ())


def test_one_field_and_no_field_work() -> None:
    assert One(3).only == 3
    assert tuple(One(3)) == (3,)
    assert Empty() == ()


@pytest.mark.parametrize("count", [13, 14, 40])
def test_records_of_any_length_take_their_fields_by_place_and_by_name(count: int) -> None:
    fields = [f"field{number}" for number in range(count)]
    made: dict[str, typing.Any] = {"NamedTuple": NamedTuple, "__name__": "x"}
    exec("class Long(NamedTuple):\n" + "".join(f"    {field}: int\n" for field in fields), made)
    named = made["Long"](**{field: number for number, field in enumerate(fields)})
    assert named == made["Long"](*range(count)) == tuple(range(count))
    with pytest.raises(TypeError, match=fields[-1]):
        made["Long"](*range(count - 1))


def test_a_field_without_a_default_may_not_follow_one_with_a_default() -> None:
    with pytest.raises(TypeError):
        exec("class Bad(NamedTuple):\n    a: int = 1\n    b: int\n", {"NamedTuple": NamedTuple, "__name__": "x"})


def test_unknown_fields_are_refused_when_replacing() -> None:
    with pytest.raises(ValueError, match="no field d"):
        Ours(1)._replace(d=1)  # type: ignore[call-arg]


def _made_as_tuples() -> typing.Iterator[tuple[str, str, ast.Call]]:
    """Every ``_new(Record, (…))``: module, name of the record, the call."""
    root = Path(__file__).resolve().parents[2]
    for path in sorted((root / "planrunner").rglob("*.py")):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_new":
                kind = node.args[0]
                if isinstance(kind, ast.Name) and kind.id != "_cls":
                    yield module, kind.id, node


def test_records_made_without_their_constructor_are_given_every_field() -> None:
    found = list(_made_as_tuples())
    assert found, "nobody makes records that way: this test and `_new` can go"
    for module, name, call in found:
        values = call.args[1]
        where = f"{module}:{call.lineno}"
        assert isinstance(values, ast.Tuple), f"{where}: the fields of {name} stand in the call itself"
        assert not any(isinstance(value, ast.Starred) for value in values.elts), where
        record = getattr(importlib.import_module(module), name)
        assert len(values.elts) == len(record._fields), f"{where}: {name} has the fields {', '.join(record._fields)}"
