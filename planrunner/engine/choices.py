"""The options of a gate that a list gives: its items are texts, or maps with the keys of an option but ``to``."""

from __future__ import annotations

from typing import Any

from planrunner.engine.calls import plain_data
from planrunner.jsontext import shown
from planrunner.plan.expressions.evaluate import evaluate
from planrunner.plan.expressions.values import EvaluationError, Scope, TemplateError, text_of
from planrunner.plan.model import Expression

Json = Any

_GIVEN = ("id", "title", "description", "pros", "cons", "cost")
"""The keys of an option that a list gives."""


def options_of(each: Expression, scope: Scope) -> list[dict[str, Json]]:
    """The options as a gate shows them. Raises TemplateError."""
    text = f"`options: {each.text}`"
    try:
        given = plain_data(evaluate(each.tree, scope))
    except EvaluationError as error:
        raise TemplateError(f"{text} has no value: {error}") from None
    if not isinstance(given, (list, tuple)) or not given:
        what = "an empty list" if isinstance(given, (list, tuple)) else "nothing" if given is None else shown(given)
        raise TemplateError(f"{text} takes a list with one item or more, this is {what}")
    options: list[dict[str, Json]] = []
    for item in given:
        found = _from_item(item, text)
        if any(one["name"] == found["name"] for one in options):
            raise TemplateError(f"{text} gives two options called `{found['name']}`")
        options.append(found)
    return options


def _from_item(item: Json, text: str) -> dict[str, Json]:
    """An option out of an item of a list: a text or a number, or a map with the keys of an option but ``to``."""
    if not isinstance(item, dict):
        if item is None or isinstance(item, (list, tuple)) or item == "":
            raise TemplateError(
                f"{text} gives {shown(item)}, which is not an option: it takes texts, or maps with an `id`"
            )
        return {"name": text_of(item)}
    name = item.get("id") or item.get("title")
    if strange := [key for key in item if key not in _GIVEN]:
        raise TemplateError(f"{text} gives an option with `{strange[0]}`; it takes {', '.join(_GIVEN)}")
    if not name:
        raise TemplateError(f"{text} gives {shown(item)}, an option without an `id`")
    words = {key: text_of(item[key]) for key in ("title", "description", "cost") if item.get(key)}
    reasons = {key: _texts(item[key]) for key in ("pros", "cons") if item.get(key)}
    return {"name": text_of(name), **words, **reasons}


def _texts(value: Json) -> list[str]:
    return [text_of(each) for each in value] if isinstance(value, (list, tuple)) else [text_of(value)]
