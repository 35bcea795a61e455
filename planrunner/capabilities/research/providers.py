"""Who answers a search: the providers by name, the built-in one and those of plugins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure, Json
from planrunner.capabilities.faults import Overdue, within
from planrunner.frozen import EMPTY

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
    silent: dict[str, str] = EMPTY
    suggestions: Sequence[str] = ()


LIMIT = 60.0
"""Seconds for the provider of a plugin, where the task has no timeout."""

_BUILT_IN = {"searxng": "planrunner.capabilities.research.providers:search"}
_registered: dict[str, Provider] = {}


def register(name: str, provider: Provider) -> None:
    """Add a provider. Raises ValueError for a name that another one has."""
    if name in _BUILT_IN or _registered.get(name, provider) is not provider:
        raise ValueError(f"there is a search provider `{name}` already")
    _registered[name] = provider


def ask(name: str, asked: Search, context: Context) -> Found:
    """What the provider of that name answers. Raises Failure where it does not exist, or what it raises; as ``timeout``
    where that of a plugin does not answer in its time."""
    provider = provider_named(name)
    if name in _BUILT_IN:
        return provider(asked)
    limit = context.call.timeout or LIMIT
    try:
        answer: Found = within(limit, f"the search provider `{name}`", lambda _: provider(asked), context.cancelled)
    except Overdue as late:
        raise Failure(str(late), "timeout") from None
    return answer


def provider_named(name: str) -> Provider:
    """The provider of that name; raises Failure where it does not exist."""
    if name in _registered:
        return _registered[name]
    if name not in _BUILT_IN:
        known = ", ".join(f"`{each}`" for each in sorted({*_BUILT_IN, *_registered}))
        raise Failure(f"unknown search provider `{name}`; there are {known}")
    module, _, function = _BUILT_IN[name].partition(":")
    provider: Provider = getattr(__import__(module, fromlist=[function]), function)
    return provider


_MOST_PAGES = 10


def search(asked: Search) -> Found:
    """Ask page after page until there are as many results as wanted, no new ones come, or no further call was set
    aside."""
    if not asked.address:
        raise Failure("no search server is named: give `url`, or set `research.url` in planrunner.yaml")
    results: dict[str, dict[str, Any]] = {}
    silent: dict[str, str] = {}
    suggestions: list[str] = []
    for page in range(1, _MOST_PAGES + 1):
        try:
            answer = _page(asked, page)
        except Failure as failure:
            if failure.failure == "budget" and results:
                break
            raise
        before = len(results)
        for result in answer.get("results") or []:
            if isinstance(result, dict) and isinstance(result.get("url"), str):
                engines = result.get("engines")
                names = engines if isinstance(engines, list) and engines else [result.get("engine") or ""]
                entry = {
                    "url": result["url"],
                    "title": result.get("title") or "",
                    "snippet": result.get("content") or "",
                    "engine": ", ".join(sorted(str(name) for name in names)),
                }
                if isinstance(result.get("publishedDate"), str):
                    entry["published"] = result["publishedDate"]
                results.setdefault(result["url"], entry)
        for pair in answer.get("unresponsive_engines") or []:
            if isinstance(pair, list) and len(pair) == 2:
                silent[str(pair[0])] = str(pair[1])
        suggestions += [text for text in answer.get("suggestions") or [] if isinstance(text, str)]
        if len(results) >= asked.limit or len(results) == before:
            break
    return Found(list(results.values()), silent, list(dict.fromkeys(suggestions)))


def _page(asked: Search, page: int) -> dict[str, Json]:
    parameters = {"q": asked.query, "format": "json", "pageno": str(page)}
    optional = {"language": asked.language, "time_range": asked.since, "categories": ",".join(asked.categories)}
    engines = asked.options.get("engines")
    if isinstance(engines, list):
        optional["engines"] = ",".join(str(engine) for engine in engines)
    parameters.update({name: value for name, value in optional.items() if value})
    try:
        answer = asked.get(f"{asked.address.rstrip('/')}/search", parameters)
    except Failure as failure:
        if failure.outputs.get("status") == 403:
            hint = "it may not give JSON: `search.formats` in its settings has to list `json`"
            raise Failure(f"{failure}; {hint}", failure.failure, failure.outputs, rule=failure.rule) from None
        raise
    if not isinstance(answer, dict) or not isinstance(answer.get("results"), list):
        raise Failure(f"{asked.address} does not answer like a SearXNG server: no `results` in its JSON")
    return answer
