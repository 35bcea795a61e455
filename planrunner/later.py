"""Functions that a table names by their place, ``module:name``; the module is loaded with the first call."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """What ``module:name`` names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class Later:
    """Stands for a function until it is called."""

    __slots__ = ("_function", "place")

    def __init__(self, place: str) -> None:
        self.place = place
        self._function: Any = None

    def __call__(self, *given: Any, **named: Any) -> Any:
        if self._function is None:
            self._function = load(self.place)
        return self._function(*given, **named)
