"""Fields of a form: parameters of a plan and what an answer to a gate fills in, each with its control and its hint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from planrunner.jsontext import as_text
from planrunner.plan.expressions.quantities import format_duration, format_money, format_percent, format_size
from planrunner.plan.model import Param
from planrunner.plan.params import takes
from planrunner.records import Struct
from planrunner.views.page.figures import sentence

Json = Any

_LONG = frozenset({"map", "any", "list"})
_NUMBERS = frozenset({"int", "number"})


class Field(Struct):
    """A control of a form. ``control`` is input, area or choice; ``name`` is what the form sends, ``id`` ties label and
    hint to it. ``problem`` says what is wrong with the ``value`` that was sent."""

    name: str
    label: str
    id: str
    control: str
    value: str
    hint: str
    required: bool = False
    numeric: bool = False
    choices: tuple[str, ...] = ()
    problem: str = ""


def field_of(param: Param, prefix: str, given: Mapping[str, str], problem: str = "") -> Field:
    """The field of a parameter. ``prefix`` stands before its name in the form; ``given`` are values by parameter name
    that were sent before and come back into the form."""
    choices = tuple(as_text(choice) for choice in param.choices)
    if param.type == "bool":
        choices = ("true", "false")
    control = "choice" if choices else "area" if param.type in _LONG else "input"
    value = given.get(param.name, written(param, param.default))
    hint = ": ".join(filter(None, (param.description.rstrip("."), _takes(param))))
    return Field(
        f"{prefix}{param.name}",
        param.name,
        f"{prefix}{param.name}".replace(".", "-"),
        control,
        value,
        sentence(hint),
        param.required,
        param.type in _NUMBERS,
        choices,
        problem,
    )


def fields_of(params: Iterable[Param], prefix: str, given: Mapping[str, str]) -> tuple[Field, ...]:
    """The fields of parameters in their order."""
    return tuple(field_of(param, prefix, given) for param in params)


def param_of(field: Mapping[str, Json]) -> Param:
    """A field of a gate's form, as the journal has it, as a parameter."""
    return Param(**{**field, "choices": tuple(field.get("choices", ()))})


def given_of(form: Mapping[str, str], prefix: str, params: Iterable[Param]) -> dict[str, Json]:
    """What a form says of parameters, by name. A field that was left empty says nothing, so that the default holds."""
    sent = {param.name: form.get(f"{prefix}{param.name}", "") for param in params}
    return {name: value for name, value in sent.items() if value != ""}


def _takes(param: Param) -> str:
    return "" if param.choices or param.type == "bool" else takes(param.type)


_WRITTEN = {"duration": format_duration, "size": format_size, "money": format_money, "percent": format_percent}


def written(param: Param, value: Json) -> str:
    """A value of a parameter as a form has it."""
    if value is None:
        return ""
    if param.type in _WRITTEN and isinstance(value, (int, float)) and not isinstance(value, bool):
        return _WRITTEN[param.type](value)
    return as_text(value, 1 << 16)
