"""Records: no default is shared that an instance could change."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import types
from collections.abc import Callable, Iterator
from copy import deepcopy
from enum import Enum
from functools import cache
from pickle import dumps, loads
from typing import Any

import pytest
from rows import rows

import planrunner
from planrunner.capabilities.contract import Pause
from planrunner.errors import Hint
from planrunner.frozen import EMPTY, Frozen
from planrunner.journal.codec import encode
from planrunner.jsontext import write_json
from planrunner.machine.events import EVENTS, Outcome
from planrunner.records import Struct, defaults, fields

FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
COPIED_BY_THEIR_LIBRARY = ("model_config", "_fields_")
"""What pydantic and ctypes read from the body of a class once."""
DECLARED = ("planrunner.capabilities.files.", "planrunner.service.api.")
"""The inputs of capabilities and of addresses: their defaults are shown in schemas, and FastAPI copies its own."""

FIXED = (type(None), bool, int, float, str, bytes, type, Enum, re.Pattern, Hint, *FUNCTIONS)

OF_ITS_OWN = type(Outcome.__struct_defaults__[2])
"""The default of a field of which each record gets one of its own."""


@cache
def _modules() -> tuple[types.ModuleType, ...]:
    names = [each.name for each in pkgutil.walk_packages(planrunner.__path__, "planrunner.")]
    return tuple(importlib.import_module(name) for name in names if not name.endswith("__main__"))


def _inside(place: Any) -> Iterator[Any]:
    """The classes and functions that stand in a module or class, those inside its classes too."""
    module = place.__name__ if isinstance(place, types.ModuleType) else place.__module__
    for each in list(vars(place).values()):
        one = getattr(each, "__func__", getattr(each, "fget", each))
        if getattr(one, "__module__", None) != module:
            continue
        if isinstance(one, types.FunctionType):
            yield one
        elif inspect.isclass(one) and one is not place:
            yield one
            yield from _inside(one)


def _changes(value: object) -> bool:
    """Whether a value, or what it consists of, can be changed."""
    if isinstance(value, Frozen):
        return any(map(_changes, value.values()))
    if isinstance(value, Struct):
        return any(_changes(getattr(value, name)) for name in fields(value))
    if isinstance(value, (tuple, frozenset)):
        return any(map(_changes, value))
    return not isinstance(value, FIXED) and type(value) is not object and value is not os.environ


def _class_defaults(kind: type) -> Iterator[tuple[str, object]]:
    if hasattr(kind, "_field_defaults"):
        yield from kind._field_defaults.items()
        return
    if issubclass(kind, Struct):
        shared = zip(kind.__struct_fields__[::-1], kind.__struct_defaults__[::-1])
        yield from ((name, value) for name, value in shared if not isinstance(value, OF_ITS_OWN))
        return
    fields = inspect.get_annotations(kind).keys() & vars(kind).keys() - {*COPIED_BY_THEIR_LIBRARY}
    yield from ((name, vars(kind)[name]) for name in fields if not inspect.isdatadescriptor(vars(kind)[name]))


def _defaults() -> Iterator[tuple[str, object]]:
    for module in _modules():
        for each in _inside(module):
            place = f"{each.__module__}.{each.__qualname__}"
            if inspect.isclass(each):
                yield from ((f"{place}.{name}", value) for name, value in _class_defaults(each))
            elif not place.startswith(DECLARED):
                given = (*(each.__defaults__ or ()), *(each.__kwdefaults__ or {}).values())
                yield from ((f"{place}()", value) for value in given)


@pytest.mark.slow
def test_no_default_of_a_field_or_a_parameter_can_be_changed() -> None:
    found = list(_defaults())
    assert ("planrunner.capabilities.contract.Call.reserved", EMPTY) in found
    assert len(found) > 2000
    assert not [name for name, value in found if _changes(value)]


def test_each_outcome_has_mappings_of_its_own() -> None:
    one, other = Outcome(), Outcome("logic", outputs={"a": 1})
    for name in ("outputs", "usage", "retry"):
        getattr(one, name)["token"] = "A"
    assert (other.outputs, other.usage, other.retry) == ({"a": 1}, {}, {})
    assert Outcome() == Outcome("", "", {}, None, 0.0, "", "", (), {}, "", (), True, False, None, {})


CHANGES: tuple[Callable[[dict[str, int]], object], ...] = (
    lambda mapping: mapping.__setitem__("a", 1),
    lambda mapping: mapping.__delitem__("a"),
    lambda mapping: mapping.__ior__({"a": 1}),
    lambda mapping: mapping.update(a=1),
    lambda mapping: mapping.setdefault("a", 1),
    lambda mapping: mapping.pop("a", None),
    lambda mapping: mapping.popitem(),
    lambda mapping: mapping.clear(),
)


@rows("change", CHANGES)
def test_a_shared_mapping_refuses_each_change(change: Callable[[dict[str, int]], object]) -> None:
    with pytest.raises(TypeError, match="give one of your own"):
        change(EMPTY)
    with pytest.raises(TypeError, match="give one of your own"):
        change(Pause(1.0).outcome.outputs)
    assert EMPTY == {}


def test_a_shared_mapping_is_a_dict_for_everything_else() -> None:
    amounts = Frozen({"cost": 1})
    assert write_json([EMPTY, amounts]) == '[{},{"cost":1}]'
    assert type(amounts | {"calls": 2}) is type(amounts.copy()) is dict
    assert loads(dumps(amounts)) == deepcopy(amounts) == {"cost": 1}


def test_a_body_that_was_stored_with_the_defaults_is_the_shortest() -> None:
    for kind in EVENTS:
        if len(defaults(kind)) == len(fields(kind)):
            assert encode(kind())[2] == "{}", kind
