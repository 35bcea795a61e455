"""``research.search``: ask a search provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Json, capability
from planrunner.capabilities.research.providers import Found, Search, ask, provider_named
from planrunner.capabilities.research.source import canonical
from planrunner.capabilities.research.wire import Wire, now

_MOST = 100
_LONGEST_QUERY = 2_000
_LONGEST_TITLE = 300
_LONGEST_SNIPPET = 1_000
_LARGEST_ANSWER = 8 << 20


class Results(NamedTuple):
    query: Annotated[str, Doc("what was asked")]
    results: Annotated[
        list[dict[str, Any]], Doc("from the best down: url, title, snippet, rank, engine, query, published if known")
    ]
    total: Annotated[int, Doc("how many results there are")]
    provider: Annotated[str, Doc("who answered")]
    searched_at: Annotated[str, Doc("when, in UTC")]
    silent: Annotated[dict[str, str], Doc("engines behind the provider that did not answer, with the reason")]
    suggestions: Annotated[list[str], Doc("other questions that the provider proposes")]


@capability(
    "research.search",
    effect="read",
    risks=("network: asks a search server",),
    spends=("calls", "rest"),
    foreign=("results", "suggestions", "silent"),
    own=("provider", "searched_at"),
)
def search(
    context: Context,
    query: Annotated[str, Doc("what to look for")],
    limit: Annotated[int, Doc("how many results at most, up to 100")] = 10,
    provider: Annotated[str, Doc("who is asked; default: `research.provider` of planrunner.yaml, else searxng")] = "",
    url: Annotated[
        str, Doc("address of the search server; default: `research.url` of planrunner.yaml", use="url")
    ] = "",
    language: Annotated[str, Doc("language of the results, such as en or de-CH")] = "",
    since: Annotated[Literal["", "day", "week", "month", "year"], Doc("how old results may be")] = "",
    categories: Annotated[list[str] | None, Doc("kinds of results, as the provider names them")] = None,
) -> Results:
    """Search, through the provider that the project has set.

    An empty result is not a failure: a failure mode or an edge can broaden the question. Each
    address comes once, in one spelling; what is not an http address is left out.
    """
    words = " ".join(query.split())
    if not words or len(words) > _LONGEST_QUERY:
        raise Failure(f"`query` needs 1 to {_LONGEST_QUERY:,} characters")
    if not 1 <= limit <= _MOST:
        raise Failure(f"`limit` is 1 to {_MOST}")
    settings = context.settings("research")
    name = provider or str(settings.get("provider", "searxng"))
    provider_named(name)  # an unknown name fails before anything is opened
    with Wire(context) as wire:

        def get(address: str, parameters: Mapping[str, str]) -> Json:
            return wire.json(canonical(address), parameters, _LARGEST_ANSWER)

        address = url or str(settings.get("url", ""))
        asked = Search(
            words, limit, language, since, tuple(categories or ()), address, settings.get("options", {}), get
        )
        answer = ask(name, asked, context)
    results = _tidy(answer, words, limit)
    silent = {_line(engine, 100): _line(reason, _LONGEST_TITLE) for engine, reason in answer.silent.items()}
    suggestions = [_line(text, _LONGEST_TITLE) for text in answer.suggestions[:20]]
    return Results(words, results, len(results), name, now(), silent, suggestions)


def _tidy(answer: Found, query: str, limit: int) -> list[dict[str, Any]]:
    """Results as they are handed on: bounded, each address once, numbered from 1."""
    tidy: dict[str, dict[str, Any]] = {}
    for result in answer.results:
        try:
            url = canonical(str(result.get("url", "")))
        except Failure:
            continue
        entry = {
            "url": url,
            "title": _line(result.get("title"), _LONGEST_TITLE),
            "snippet": _line(result.get("snippet"), _LONGEST_SNIPPET),
            "rank": len(tidy) + 1,
            "engine": _line(result.get("engine"), 100),
            "query": query,
        }
        if result.get("published"):
            entry["published"] = _line(result["published"], 40)
        tidy.setdefault(url, entry)
        if len(tidy) == limit:
            break
    return list(tidy.values())


def _line(text: Json, longest: int) -> str:
    line = " ".join(str(text or "").encode("utf-8", "replace").decode().split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
