"""What a function of a plugin gives, held to the type that it declares; records in it become maps, as declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.capabilities.arguments import plain_class
from planrunner.capabilities.contract import Json
from planrunner.capabilities.jsonschema import faults
from planrunner.capabilities.signature import annotations_of, outputs_of
from planrunner.capabilities.soundness import failed
from planrunner.machine.events import Outcome
from planrunner.plan.model import Field

_returns: dict[int, tuple[Callable[..., Any], tuple[Field, ...]]] = {}


def held(function: Callable[..., Any], name: str, outcome: Outcome) -> Outcome:
    """The outcome of the capability ``name`` that went well, or a logic failure with the same outputs that names what
    is not as declared."""
    raw = getattr(function, "__annotations__", {}).get("return")
    given = outcome.outputs
    if raw is None or (len(given) == 1 and type(given.get("value", ...)) is plain_class(raw)):
        return outcome
    known = _returns.get(id(function))
    if known is None:
        known = _returns[id(function)] = (function, _declared(function))
    if not known[1]:
        return outcome
    outcome = outcome._replace(outputs=_data(given))
    if why := _misfit(known[1], outcome.outputs):
        return failed(f"what `{name}` gave is not what it declares: {why}", outcome)
    return outcome


def _declared(function: Callable[..., Any]) -> tuple[Field, ...]:
    try:
        return outputs_of(annotations_of(function).get("return"))
    except TypeError:  # annotations that cannot be read promise nothing
        return ()


def _data(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _data(item) for name, item in value.items()}
    if hasattr(value, "_asdict"):
        return _data(value._asdict())
    return [_data(item) for item in value] if isinstance(value, (list, tuple)) else value


def _misfit(declared: tuple[Field, ...], given: dict[str, Json]) -> str:
    for field in declared:
        if field.name not in given:
            if field.required and (field.name != "value" or faults(field.schema, None)):
                return f"the declared output `{field.name}` is missing"
        elif problems := faults(field.schema, given[field.name]):
            return f"the output `{field.name}` does not fit its type {field.type}: {problems[0].removeprefix('/: ')}"
    return ""
