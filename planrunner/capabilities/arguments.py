"""What a plan gives a function of a plugin, as the annotations of its inputs have it: text where text is wanted,
numbers for amounts. Planrunner's own capabilities look at what they are given themselves.

A first call reads the annotations; until a value needs that, nothing is loaded for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planrunner.capabilities.contract import Failure, Json
from planrunner.capabilities.conversions import Input, inputs_of
from planrunner.capabilities.jsonschema import faults

_PLAIN = {"str": str, "int": int, "bool": bool, "float": float}

_parameters: dict[int, tuple[Callable[..., Any], Mapping[str, Input]]] = {}


def fitted(function: Callable[..., Any], given: dict[str, Json]) -> dict[str, Json]:
    """The inputs as the annotations of ``function`` want them. Raises Failure (logic) that names the first one that
    does not fit; null stands for what is not given and always fits."""
    raw = getattr(function, "__annotations__", {})
    if all(value is None or type(value) is plain_class(raw.get(name)) for name, value in given.items()):
        return given
    wanted = _parameters.get(id(function))
    if wanted is None:
        wanted = _parameters[id(function)] = (function, _read(function))
    return {name: _taken(name, value, wanted[1].get(name)) for name, value in given.items()}


def plain_class(raw: Any) -> type | None:
    """The class whose values an annotation takes as they are, as far as that shows without evaluating it."""
    if isinstance(raw, str):
        kind, _, more = raw.removeprefix("Annotated[").partition(",")
        return None if "quantity" in more else _PLAIN.get(kind.strip())
    kind = getattr(raw, "__origin__", raw)
    if kind not in _PLAIN.values() or any(getattr(one, "quantity", "") for one in getattr(raw, "__metadata__", ())):
        return None
    found: type = kind
    return found


def _read(function: Callable[..., Any]) -> Mapping[str, Input]:
    try:
        return inputs_of(function)
    except TypeError:  # annotations that cannot be read promise nothing
        return {}


def _taken(name: str, value: Json, wanted: Input | None) -> Json:
    if wanted is None or value is None:
        return value
    try:
        made = value if wanted.convert is None else wanted.convert(value)
    except ValueError as error:
        raise Failure(f"the input `{name}`: {error}") from None
    if problems := faults(wanted.schema, made):
        raise Failure(f"the input `{name}` does not fit its type: {problems[0].removeprefix('/: ')}")
    return made
