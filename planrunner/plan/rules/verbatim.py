"""Inputs that are code stand in the plan as they are run: no template is filled into them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.diagnostics import Diagnostic
from planrunner.plan.model import Capability, Task
from planrunner.plan.pythonrules import is_one_template
from planrunner.plan.rules.places import place_of
from planrunner.plan.rules.reading import Text, has_templates, is_template
from planrunner.plan.rules.view import PlanView

TEMPLATE_CODES = ("PLAN216",)

CODE = ("application/sql", "text/x-python")
"""What ``contentMediaType`` in the schema of an input says where the input is code."""


def check_templates(view: PlanView) -> Iterable[Diagnostic]:
    if not has_templates(view):
        return
    for here, task in enumerate(view.plan.tasks):
        for key, uses, inputs in _calls(task):
            found = view.capabilities.get(uses) if uses and isinstance(inputs, dict) else None
            if found is not None:
                yield from _judged(view, (here, key), found, inputs)


def _calls(task: Task) -> Iterator[tuple[str, str, Any]]:
    yield "with", task.uses, task.inputs
    for key, action in (("rollback", task.rollback), ("degraded", task.degraded)):
        if action is not None:
            yield key, action.uses, action.inputs


def _judged(view: PlanView, at: tuple[int, str], found: Capability, inputs: dict[str, Any]) -> Iterator[Diagnostic]:
    for field in found.inputs:
        schema = field.schema if isinstance(field.schema, dict) else {}
        if schema.get("contentMediaType") not in CODE or field.name not in inputs:
            continue
        if is_generated(inputs) and is_one_template(inputs[field.name]):
            continue
        for text in _texts(inputs[field.name], field.name):
            start = min(place for sign in ("{{", "{%") if (place := text.find(sign)) >= 0)
            span = place_of(view, Text(at[0], at[1], "before", text), start, max(text.rfind("}") + 1, start + 2))
            message = f"`{field.name}` of `{found.name}` is code, and no template is filled into it"
            yield Diagnostic("PLAN216", message, span, help=_way(found))


def is_generated(inputs: dict[str, Any]) -> bool:
    """Whether a task says that its code is made while the run goes on, so that it is looked at before it runs."""
    return inputs.get("generated") is True


def _texts(value: Any, name: str) -> Iterator[str]:
    """The texts that are code: the value, the items of a list, and in these the entry of the same name."""
    if isinstance(value, str):
        if is_template(value):
            yield value
    elif isinstance(value, dict):
        yield from _texts(value.get(name), name)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, name)


def _way(found: Capability) -> str:
    names = {field.name for field in found.inputs}
    if "params" in names:
        return "write `:name` there, and hand the value over as `params: {name: …}`"
    return "hand the value over in `args`" if "args" in names else "hand the value over in an input that is data"
