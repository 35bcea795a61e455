"""The annotations of a plugin: inputs converted to what they want and held to them, outputs held to what they declare.

Text is made where text is wanted, a number of an amount such as ``30s``, an int of ``3.0``; inside lists, maps and
records as well. The capabilities that come with planrunner check their inputs themselves. A first call reads the
annotations.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NotRequired, Required, Union, Unpack, get_args, get_origin, is_typeddict

from planrunner.capabilities.contract import Failure, Json, money, seconds, size
from planrunner.capabilities.signature import annotations_of, closed, doc_of, outputs_of, schema_of, unpacked
from planrunner.capabilities.soundness import failed
from planrunner.jsontext import shown
from planrunner.machine.events import Outcome
from planrunner.plan.expressions.values import text_of
from planrunner.plan.model import Field

Convert = Callable[[Json], Json]

_AMOUNTS: dict[str, tuple[Callable[[object], float], str]] = {
    "duration": (seconds, "seconds"),
    "size": (size, "bytes"),
    "money": (money, "dollars"),
}
_NOTHING = type(None)
_CLASSES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (_NOTHING,),
}


class Input(NamedTuple):
    """How a value of one input is taken: converted, where there is anything to convert, and held to the schema."""

    convert: Convert | None
    schema: Json


def inputs_of(function: Callable[..., Any]) -> dict[str, Input]:
    """How to take each input of a function that has a type. Raises TypeError for annotations that cannot be read."""
    hints: dict[str, Any] = {}
    for name, hint in annotations_of(function).items():
        if get_origin(hint) is Unpack:
            hints.update((member, wanted) for member, wanted, _ in unpacked(hint))
        elif name not in ("return", "context"):
            hints[name.removesuffix("_")] = hint
    inputs = {name: Input(conversion(hint), closed(schema_of(hint)[1])) for name, hint in hints.items()}
    return {name: one for name, one in inputs.items() if one.convert is not None or one.schema}


def conversion(annotation: Any) -> Convert | None:
    """What makes of a value one that the annotation wants; None where there is nothing to convert."""
    doc = doc_of(annotation)
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if doc is not None and doc.quantity in _AMOUNTS:
        return _amount(doc.quantity, annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in (str, int):
        return _text if annotation is str else _whole
    if hasattr(annotation, "__supertype__"):
        return conversion(annotation.__supertype__)
    if origin in (Required, NotRequired):
        return conversion(arguments[0])
    if origin in (Union, types.UnionType):
        alternatives = [(_classes(schema_of(member)[1]), conversion(member)) for member in arguments]
        if all(convert is None for _, convert in alternatives):
            return None

        def convert(value: Json) -> Json:
            for classes, convert in alternatives:
                if classes is None or type(value) in classes:
                    return value if convert is None else convert(value)
            made = (convert(value) for _, convert in alternatives if convert is not None)
            return next((one for one in made if type(one) is not type(value)), value)

        return convert
    if is_typeddict(annotation) or hasattr(annotation, "_fields"):
        return _entries({name: conversion(hint) for name, hint in annotations_of(annotation).items()}, None)
    if origin is dict and len(arguments) == 2:
        return _entries({}, conversion(arguments[1]))
    if origin in (list, tuple) and arguments:
        if origin is list or arguments[-1] is Ellipsis:
            return _items((), conversion(arguments[0]))
        return _items([conversion(one) for one in arguments], None)
    return None


def _text(value: Json) -> Json:
    if not isinstance(value, (bool, int, float)):
        return value
    return text_of(value)


def _whole(value: Json) -> Json:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _amount(quantity: str, annotation: Any) -> Convert | None:
    """Text stays text where the annotation takes it; the number is in seconds, bytes or dollars."""
    kinds = {*(get_args(annotation) or (annotation,))} - {_NOTHING}
    if not kinds or not kinds <= {int, float}:
        return None
    parse, unit = _AMOUNTS[quantity]

    def convert(value: Json) -> Json:
        if value is None:
            return None
        amount = parse(value)
        if int not in kinds:
            return float(amount)
        if amount == int(amount):
            return int(amount)
        if float in kinds:
            return amount
        raise ValueError(f"expected a whole number of {unit}, found {shown(value)}")

    return convert


def _classes(schema: Json) -> tuple[type, ...] | None:
    """The classes of the values that a schema takes; None for all."""
    if "enum" in schema:
        return tuple(type(member) for member in schema["enum"])
    names = schema.get("type")
    if names is None:
        return None
    return tuple(kind for name in ([names] if isinstance(names, str) else names) for kind in _CLASSES[name])


def _entries(named: Mapping[str, Convert | None], other: Convert | None) -> Convert | None:
    if other is None and not any(named.values()):
        return None

    def convert(value: Json) -> Json:
        if not isinstance(value, dict):
            return value
        return {name: _with(named.get(name, other), item) for name, item in value.items()}

    return convert


def _items(first: Sequence[Convert | None], other: Convert | None) -> Convert | None:
    if not any((*first, other)):
        return None

    def convert(value: Json) -> Json:
        if not isinstance(value, list):
            return value
        return [_with(first[at] if at < len(first) else other, item) for at, item in enumerate(value)]

    return convert


def _with(convert: Convert | None, value: Json) -> Json:
    return value if convert is None else convert(value)


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
        try:
            inputs: Mapping[str, Input] = inputs_of(function)
        except TypeError:  # annotations that cannot be read promise nothing
            inputs = {}
        wanted = _parameters[id(function)] = (function, inputs)
    return {name: _taken(name, value, wanted[1].get(name)) for name, value in given.items()}


def plain_class(raw: Any) -> type | None:
    """The class whose values an annotation takes as they are, as far as that shows without evaluating it."""
    if isinstance(raw, str):
        kind, _, more = raw.removeprefix("Annotated[").partition(",")
        return None if "quantity" in more else _PLAIN.get(kind.strip())
    kind = getattr(raw, "__origin__", raw)
    if kind not in _PLAIN.values() or any(getattr(one, "quantity", "") for one in getattr(raw, "__metadata__", ())):
        return None
    plain: type = kind
    return plain


def _taken(name: str, value: Json, wanted: Input | None) -> Json:
    if wanted is None or value is None:
        return value
    try:
        made = value if wanted.convert is None else wanted.convert(value)
    except ValueError as error:
        raise Failure(f"the input `{name}`: {error}") from None
    if problems := _faults(wanted.schema, made):
        raise Failure(f"the input `{name}` does not fit its type: {problems[0].removeprefix('/: ')}")
    return made


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
        try:
            declared = outputs_of(annotations_of(function).get("return"))
        except TypeError:  # annotations that cannot be read promise nothing
            declared = ()
        known = _returns[id(function)] = (function, declared)
    if not known[1]:
        return outcome
    outcome = outcome._replace(outputs=_data(given))
    if why := _misfit(known[1], outcome.outputs):
        return failed(f"what `{name}` gave is not what it declares: {why}", outcome)
    return outcome


def _data(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _data(item) for name, item in value.items()}
    if hasattr(value, "_asdict"):
        return _data(value._asdict())
    return [_data(item) for item in value] if isinstance(value, (list, tuple)) else value


def _misfit(declared: tuple[Field, ...], given: dict[str, Json]) -> str:
    for field in declared:
        if field.name not in given:
            if field.required and (field.name != "value" or _faults(field.schema, None)):
                return f"the declared output `{field.name}` is missing"
        elif problems := _faults(field.schema, given[field.name]):
            return f"the output `{field.name}` does not fit its type {field.type}: {problems[0].removeprefix('/: ')}"
    return ""


def _faults(schema: Json, data: Json) -> list[str]:
    """Most values show by their class that they fit, and a run of such tasks does without the validator."""
    from planrunner.capabilities.jsonschema import faults

    return faults(schema, data)
