"""What tokens cost: the price that the project gives a model, or the one its provider is known to ask.

A price that nobody knows is None and never nothing: who has to stay inside a budget refuses such a model.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import import_module
from typing import Any

from planrunner.capabilities.llm.models import Model

_KNOWN = ("openai", "anthropic", "google")


def cost(model: Model, input: int, output: int) -> float | None:
    """Dollars for that many tokens, rounded up to a billionth; None where the price is not known."""
    if model.price is not None:
        return _rounded((input * model.price.input + output * model.price.output) / 1e6)
    return _listed(model, input, output)


def _listed(model: Model, input: int, output: int) -> float | None:
    prices = _price_list()
    if prices is None:
        return None
    usage = prices.Usage(input_tokens=input, output_tokens=output)
    try:
        if model.own_address:
            found = prices.calc_price(usage, model.model, provider_api_url=model.base_url)
        elif model.provider in _KNOWN:
            found = prices.calc_price(usage, model.model, provider_id=model.provider)
        else:
            return None
    except (LookupError, ValueError):
        return None
    return _rounded(float(found.total_price))


@cache
def _price_list() -> Any:
    """The library with some thousand prices; None without the extra `llm`."""
    try:
        return import_module("genai_prices")
    except ImportError:
        return None


def _rounded(dollars: float) -> float:
    return math.ceil(dollars * 1e9 - 1e-6) / 1e9


def line_to_add(model: Model) -> str:
    """What the project has to say so that the price of a model is known."""
    return f"models: {{{model.name}: {{price: {{input: DOLLARS, output: DOLLARS}}}}}}"
