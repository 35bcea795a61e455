"""Who answers a search: the providers by name, the built-in one and those of plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure, Json
from planrunner.capabilities.faults import Overdue, within

Provider = Callable[["Search"], "Found"]


class Search(NamedTuple):
    """What is asked of a provider. ``address`` is the one given in the task or in the settings, ``options`` is
    ``research.options`` of planrunner.yaml, ``get(url, parameters)`` fetches JSON under the rules of the network and
    raises Failure where it cannot."""

    query: str
    limit: int
    language: str
    since: str
    categories: tuple[str, ...]
    address: str
    options: Mapping[str, Json]
    get: Callable[[str, Mapping[str, str]], Json]


class Found(NamedTuple):
    """What a provider answers: ``results`` from the best down, each with ``url`` and, where it knows them, ``title``,
    ``snippet``, ``engine`` and ``published``; ``silent`` names the engines that gave no answer, with the reason."""

    results: list[dict[str, Any]]
    silent: dict[str, str] = {}
    suggestions: list[str] = []


LIMIT = 60.0
"""Seconds for the provider of a plugin, where the task has no timeout."""

_BUILT_IN = {"searxng": "planrunner.capabilities.research.searxng:search"}
_registered: dict[str, Provider] = {}


def register(name: str, provider: Provider) -> None:
    """Add a provider. Raises ValueError for a name that another one has."""
    if name in _BUILT_IN or _registered.get(name, provider) is not provider:
        raise ValueError(f"there is a search provider `{name}` already")
    _registered[name] = provider


def ask(name: str, asked: Search, context: Context) -> Found:
    """What the provider of that name answers. Raises Failure where there is none, or what it raises; as ``timeout``
    where that of a plugin does not answer in its time."""
    provider = provider_named(name)
    if name in _BUILT_IN:
        return provider(asked)
    limit = context.call.timeout or LIMIT
    try:
        found: Found = within(limit, f"the search provider `{name}`", lambda _: provider(asked), context.cancelled)
    except Overdue as late:
        raise Failure(str(late), "timeout") from None
    return found


def provider_named(name: str) -> Provider:
    """The provider of that name; raises Failure where there is none."""
    if name in _registered:
        return _registered[name]
    if name not in _BUILT_IN:
        known = ", ".join(f"`{each}`" for each in sorted({*_BUILT_IN, *_registered}))
        raise Failure(f"there is no search provider `{name}`; there are {known}")
    module, _, function = _BUILT_IN[name].partition(":")
    found: Provider = getattr(__import__(module, fromlist=[function]), function)
    return found
