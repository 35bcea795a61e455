"""The built-in provider: any server that speaks the search API of SearXNG with ``format=json``."""

from __future__ import annotations

from typing import Any

from planrunner.capabilities.contract import Failure, Json
from planrunner.capabilities.research.providers import Found, Search

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
                results.setdefault(result["url"], _result(result))
        silent.update(_silent(answer))
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


def _result(result: dict[str, Json]) -> dict[str, Any]:
    engines = result.get("engines")
    names = engines if isinstance(engines, list) and engines else [result.get("engine") or ""]
    found = {
        "url": result["url"],
        "title": result.get("title") or "",
        "snippet": result.get("content") or "",
        "engine": ", ".join(sorted(str(name) for name in names)),
    }
    published = result.get("publishedDate")
    return {**found, "published": published} if isinstance(published, str) else found


def _silent(answer: dict[str, Json]) -> dict[str, str]:
    """Pairs of engine and reason, as the server tells them."""
    told = answer.get("unresponsive_engines") or []
    return {str(pair[0]): str(pair[1]) for pair in told if isinstance(pair, list) and len(pair) == 2}
